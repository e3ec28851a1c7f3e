"""tf.xla: what programs say to TensorFlow's compiler. Every graph is compiled alike here: its scopes change nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace as _SimpleNamespace
from typing import Any

from sparkflow.framework import nest
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Operation, get_default_graph
from sparkflow.ops.array import identity
from sparkflow.ops.control_flow import group

__all__ = ["experimental"]


@contextmanager
def _jit_scope(compile_ops: Any = True, separate_compiled_gradients: bool = False) -> Iterator[None]:
    """Its ops are like those outside."""
    yield


def _compile(computation: Callable[..., Any], inputs: Sequence[Any] | None = None) -> Any:
    """computation(*inputs) as tensors that wait for the operations it gives beside them: a list, or a structure where
    it gives one; where it gives no tensor, one operation."""
    if inputs is not None and not isinstance(inputs, (list, tuple)):
        raise TypeError(f"compile: inputs must be a list, got {inputs!r}")
    given = [identity(convert_to_tensor(x), f"input_{i}") for i, x in enumerate(nest.flatten(list(inputs or ())))]
    found = computation(*nest.pack_sequence_as(list(inputs or ()), given))
    leaves = nest.flatten(() if found is None else found)
    operations = [x for x in leaves if isinstance(x, Operation)]
    with get_default_graph().control_dependencies(operations):
        values = [x for x in leaves if not isinstance(x, Operation)]
        made = [identity(convert_to_tensor(x), f"output_{i}") for i, x in enumerate(values)]
    if not made:
        return group(*operations, name="output_0")
    parts = found if isinstance(found, (list, tuple)) else [found]
    if not any(map(nest.is_nested, parts)):
        return made
    tensors = iter(made)
    return nest.pack_sequence_as(found, [x if isinstance(x, Operation) else next(tensors) for x in leaves])


_jit_scope.__name__, _compile.__name__ = "jit_scope", "compile"
experimental = _SimpleNamespace(jit_scope=_jit_scope, compile=_compile)
