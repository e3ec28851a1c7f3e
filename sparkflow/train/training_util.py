"""The global step: the variable that counts how often a model has been updated."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.graph import Graph, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.ops import init_ops
from sparkflow.ops.variable_scope import get_variable
from sparkflow.ops.variables import Variable
from sparkflow_runtime.wire.dtypes import int64


def global_step(sess: Any, global_step_tensor: Any) -> int:
    """The number of steps taken so far, read in `sess`."""
    return int(sess.run(global_step_tensor))


def get_global_step(graph: Graph | None = None) -> Any:
    """The variable in the collection GLOBAL_STEP, or the one named global_step; None where there is none.

    Raises TypeError where it is no integer scalar, and where the collection has several.
    """
    graph = graph or get_default_graph()
    found = graph.get_collection(GraphKeys.GLOBAL_STEP)
    if len(found) > 1:
        raise TypeError(f"Multiple tensors in global_step collection: {[str(v) for v in found]}")
    if not found:
        found = [v for v in graph.get_collection(GraphKeys.GLOBAL_VARIABLES) if v.name == "global_step:0"]
    if not found:
        return None
    assert_global_step(found[0])
    return found[0]


def create_global_step(graph: Graph | None = None) -> Variable:
    """An int64 scalar named global_step, starting at 0. Raises ValueError where the graph has one."""
    graph = graph or get_default_graph()
    if get_global_step(graph) is not None:
        raise ValueError('"global_step" already exists.')
    with graph.as_default(), graph.name_scope(None):
        return get_variable(
            GraphKeys.GLOBAL_STEP,
            shape=[],
            dtype=int64,
            initializer=init_ops.zeros_initializer(),
            trainable=False,
            collections=[GraphKeys.GLOBAL_VARIABLES, GraphKeys.GLOBAL_STEP],
        )


def get_or_create_global_step(graph: Graph | None = None) -> Any:
    graph = graph or get_default_graph()
    found = get_global_step(graph)
    return create_global_step(graph) if found is None else found


def assert_global_step(global_step_tensor: Any) -> None:
    """Raises TypeError unless it is an integer scalar."""
    if not hasattr(global_step_tensor, "dtype"):
        raise TypeError(f'Existing "global_step" must be a Variable or Tensor: {global_step_tensor!r}.')
    dtype = global_step_tensor.dtype.base_dtype
    if not dtype.is_integer:
        raise TypeError(f'Existing "global_step" does not have integer type: {dtype.name}')
    if global_step_tensor._shape not in (None, ()):
        raise TypeError(f'Existing "global_step" is not scalar: {global_step_tensor.get_shape()}')
