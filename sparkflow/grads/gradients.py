"""gradients: the reverse walk that adds the backward nodes of a graph."""

from __future__ import annotations

from enum import Enum
from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.conversions import AggregationMethod
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.indexed_slices import IndexedSlices
from sparkflow.grads.level import Level, trainable
from sparkflow.grads.registry import as_source
from sparkflow.grads.walk import Manner, Walk, as_list
from sparkflow.ops import array
from sparkflow_runtime.wire.collector import paused


class UnconnectedGradients(Enum):
    """What stands for the gradient of an x that no y depends on."""

    NONE = "none"
    ZERO = "zero"


_METHODS = tuple(v for k, v in vars(AggregationMethod).items() if k.isupper())


@paused()
def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str = "gradients",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False,
    aggregation_method: Any = None,
    stop_gradients: Any = None,
    unconnected_gradients: Any = UnconnectedGradients.NONE,
    *,
    _stops: Any = None,
) -> list[Any]:
    """d(sum of ys)/dx for each x: a Tensor of x's shape and dtype, IndexedSlices for looked-up tables, or None.

    grad_ys: the gradients of the ys (ones where None). stop_gradients: tensors taken as constants.
    gate_gradients: wait for all gradients of an op before any is used. aggregation_method: any of AggregationMethod's
    gives the same sums. _stops: the nodes that a tape takes as constants. Raises LookupError, with the op's name and
    type, where an op on the way has no gradient, ValueError on another aggregation_method.
    """
    if aggregation_method is not None and aggregation_method not in _METHODS:
        raise ValueError(
            f"Invalid aggregation_method specified {aggregation_method!r}. tf.AggregationMethod has the others"
        )
    unconnected = UnconnectedGradients(unconnected_gradients)
    y_tensors = [convert_to_tensor(y) for y in as_list(ys)]
    x_tensors = [convert_to_tensor(x, as_ref=True) for x in as_list(xs)]
    stops = [convert_to_tensor(s, as_ref=True) for s in as_list(stop_gradients)]
    seeds = as_list(grad_ys) if grad_ys is not None else [None] * len(y_tensors)
    if len(seeds) != len(y_tensors):
        raise ValueError(f"gradients: grad_ys must match ys one to one, got {len(seeds)} for {len(y_tensors)} ys")
    graph = get_default_graph()
    for tensor in (*y_tensors, *x_tensors, *stops):
        graph._check_own(tensor.op, "gradients")
    with graph._unfinished, graph.name_scope(name or "gradients") as scope:
        level = Level(y_tensors, set(x_tensors), {s.op for s in stops} if _stops is None else _stops)
        context = graph._get_control_flow_context()
        walk = Walk(level, Manner(scope, context, colocate_gradients_with_ops, gate_gradients))
        for i, (y, seed) in enumerate(zip(y_tensors, seeds)):
            _start(walk, y, seed, i)
        with as_source(scope[:-1]):
            walk.run()
        found: list[Any] = [walk.total(x) for x in x_tensors]
        if unconnected is UnconnectedGradients.ZERO:
            found = [array.zeros_like(x) if g is None else g for g, x in zip(found, x_tensors)]
    return found


def _start(walk: Walk, y: Tensor, seed: Any, number: int) -> None:
    """Put the gradient of a y in: `seed`, or ones."""
    if not trainable(y):
        return
    with walk.manner.beside(y.op):
        if seed is None:
            if y.dtype.is_complex:
                raise TypeError(f"Gradients of the complex tensor {y.name!r} need grad_ys")
            seed = array.ones(array.shape(y), dtype=y.dtype.base_dtype, name=f"grad_ys_{number}")
        elif not isinstance(seed, IndexedSlices):
            seed = convert_to_tensor(seed, y.dtype.base_dtype, name=f"grad_y_{number}")
    walk.add(y, seed)
