"""The table of gradients: how the gradients of an op's outputs become those of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from sparkflow.framework.graph import Operation

GradientFunction = Callable[..., Any]

_GRADIENTS: dict[str, GradientFunction | None] = {}


OWN_GRADIENTS = "own gradients"  # in a graph's extra: by name, gradient functions that only this graph has


class Traits(NamedTuple):
    """What a gradient function takes beside dense tensors, one for each output."""

    sparse: bool = False
    partial: bool = False


_TRAITS: dict[str, Traits] = {}
_PLAIN = Traits()
_SOURCE: ContextVar[str] = ContextVar("gradients() at work")


def gradient(
    *op_types: str, sparse: bool = False, partial: bool = False
) -> Callable[[GradientFunction], GradientFunction]:
    """Register `fn(op, *dy)`, with one dy for each output, which returns one gradient for each input.

    A gradient is a Tensor, IndexedSlices, None where there is none, or a function of no arguments that builds it, which
    is called only where somebody needs it. A single input's gradient need not be in a tuple.
    sparse: dy may be IndexedSlices; otherwise the rows are summed into a dense tensor first. partial: dy may be None
    where nobody differentiates that output; otherwise zeros stand there.
    """

    _check_names(op_types)

    def register(fn: GradientFunction) -> GradientFunction:
        for op_type in op_types:
            _add(op_type, fn)
            _TRAITS[op_type] = Traits(sparse, partial)
        return fn

    return register


def not_differentiable(*op_types: str) -> None:
    """These ops pass no gradient on: their outputs are integers, or constant almost everywhere."""
    _check_names(op_types)
    for op_type in op_types:
        _add(op_type, None)


def _check_names(op_types: tuple[Any, ...]) -> None:
    for op_type in op_types:
        if not isinstance(op_type, str):
            raise TypeError(f"op_type must be a string, the type of an op, got {op_type!r}")


def _add(op_type: str, fn: GradientFunction | None) -> None:
    if op_type in _GRADIENTS:
        raise KeyError(f"Op type {op_type!r} has two gradients; override one op with the attribute '_gradient_op_type'")
    _GRADIENTS[op_type] = fn


def find(op: Operation) -> GradientFunction | None:
    """The gradient function of op, None where it is not differentiable. Raises LookupError where neither is listed."""
    op_type = op.attrs.get("_gradient_op_type", op.type)
    own = op.graph.extra.get(OWN_GRADIENTS)
    if own and op_type in own:
        return own[op_type]
    if op_type not in _GRADIENTS:
        raise LookupError(
            f"No gradient defined for operation {op.name!r} (op type: {op_type}). "
            f"Register one with sparkflow.grads.registry.gradient({op_type!r}), or cut the path with tf.stop_gradient"
        )
    return _GRADIENTS[op_type]


def traits(op: Operation) -> Traits:
    return _TRAITS.get(op.attrs.get("_gradient_op_type", op.type), _PLAIN)


@contextmanager
def as_source(name: str) -> Iterator[None]:
    """Say which call of gradients() the gradient functions called inside work for."""
    token = _SOURCE.set(name)
    try:
        yield
    finally:
        _SOURCE.reset(token)


def current_source() -> str:
    return _SOURCE.get()


def listed(op_type: str) -> bool:
    return op_type in _GRADIENTS
