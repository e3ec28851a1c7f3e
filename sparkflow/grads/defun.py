"""tensorflow.python.framework.function.Defun: a function of tensors, with a gradient of its own where it is given one.

Source: tensorflow/python/framework/function.py. Its nodes are made anew wherever it is called; there is no library.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.grads.registry import OWN_GRADIENTS
from sparkflow.ops import array
from sparkflow_runtime.wire import dtypes


@dataclass(frozen=True)
class _Called:
    """What a gradient function sees of the call."""

    name: str
    type: str
    inputs: list[Tensor]
    outputs: list[Tensor]
    graph: Any


class Defun:
    """Decorates a function of tensors. input_types: the types of its arguments, all or none of them.

    python_grad_func(op, *dys), or grad_func(*inputs, *dys), another such function: its gradient, one value for each
    input. shape_func(op): the static shapes of its outputs. The other settings are taken and without effect.
    """

    def __init__(
        self, *input_types: Any, func_name: str | None = None, grad_func: Any = None, python_grad_func: Any = None,
        out_names: Any = None, shape_func: Any = None, capture_by_value: bool = False, noinline: bool = False,
        **settings: Any,
    ):  # fmt: skip
        self._types = [dtypes.as_dtype(t) for t in input_types]
        self._name, self._grad, self._python_grad, self._shape = func_name, grad_func, python_grad_func, shape_func

    def __call__(self, func: Callable[..., Any]) -> DefinedFunction:
        """Raises ValueError where it takes another number of arguments than there are types."""
        if not callable(func):
            raise ValueError(f"function {func} must be callable")
        code = getattr(func, "__code__", None)
        if self._types and code is not None and not code.co_flags & 0x04 and code.co_argcount != len(self._types):
            raise ValueError(
                f"The function has {code.co_argcount} arguments, but {len(self._types)} input types were declared"
            )
        gradient = self._python_grad
        if self._grad is not None:
            of_all = self._grad
            gradient = lambda op, *dys: of_all(*op.inputs, *dys)  # noqa: E731
        return DefinedFunction(func, self._name or func.__name__, self._types, gradient, self._shape)


class DefinedFunction:
    """Called with tensors: its output, a tuple of them, or the last op that it made where it returns nothing."""

    def __init__(
        self, func: Callable[..., Any], name: str, types: Sequence[dtypes.DType], gradient: Any, shapes: Any
    ):  # fmt: skip
        self._func, self.name, self.declared_input_types = func, name, list(types)
        self._gradient, self._shapes = gradient, shapes

    @property
    def python_grad_func(self) -> Any:
        return self._gradient

    def __call__(self, *args: Any, name: str | None = None, **settings: Any) -> Any:
        types = self.declared_input_types
        if types and len(args) != len(types):
            raise ValueError(f"Expected number of arguments: {len(types)}, received: {len(args)}")
        graph = get_default_graph()
        with graph.name_scope(name or self.name) as scope:
            wanted: list[Any] = list(types) or [None] * len(args)
            given = [convert_to_tensor(x, dtype) for x, dtype in zip(args, wanted)]
            found = self._func(*[array.identity(x) for x in given])
            if found is None or isinstance(found, Operation):
                return found if found is not None else graph.get_operations()[-1]
            flat = [convert_to_tensor(y) for y in (found if isinstance(found, (list, tuple)) else [found])]
            if self._gradient is not None:
                flat = self._with_gradient(scope.rstrip("/"), given, flat)
        for y, shape in zip(flat, self._shapes(flat[0].op) if self._shapes is not None else ()):
            y.set_shape(shape)
        return flat[0] if len(flat) == 1 else tuple(flat)

    def _with_gradient(self, name: str, xs: list[Tensor], ys: list[Tensor]) -> list[Tensor]:
        """The outputs as one op's, whose gradient is this function's own. Its inputs are the caller's very tensors: a
        gradient may go on from them."""
        graph, count = get_default_graph(), len(ys)

        def gradient(op: Operation, *dys: Any) -> list[Any]:
            inputs = list(op.inputs[count:])
            called = _Called(name, self.name, inputs, list(op.outputs[:count]), graph)
            filled = [array.zeros_like(y) if dy is None else dy for y, dy in zip(called.outputs, dys)]
            found = self._gradient(called, *filled)
            return [None] * count + (list(found) if isinstance(found, (list, tuple)) else [found])

        key = f"Defun-{graph.version}"
        graph.extra.setdefault(OWN_GRADIENTS, {})[key] = gradient
        with graph.gradient_override_map({"IdentityN": key}):
            return array.identity_n([*ys, *xs])[:count]
