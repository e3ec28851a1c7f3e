"""Values that may be missing (variant tensors): what TensorFlow 2 keeps of a branch in a loop for its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.registry import Function, Node, bound
from sparkflow_runtime.wire.errors import InvalidArgumentError


class Optional:
    """components: the tensors, or None where there is no value."""

    __slots__ = ("components",)
    shape: tuple[int, ...] = ()  # as a tensor it is a scalar

    def __init__(self, components: tuple[Any, ...] | None):
        self.components = components

    def zeros(self) -> Optional:
        return Optional(None if self.components is None else tuple(map(_zeros, self.components)))

    def __add__(self, other: Optional) -> Optional:
        if self.components is None or other.components is None:
            return other if self.components is None else self
        return Optional(tuple(a + b for a, b in zip(self.components, other.components, strict=True)))


def _zeros(value: Any) -> Any:
    return value.zeros() if hasattr(value, "zeros") else np.zeros_like(value)


@bound("OptionalNone", plain=True)
def _none(node: Node) -> Function:
    return lambda: Optional(None)


@bound("OptionalFromValue", aliases=True, plain=True)
def _from_value(node: Node) -> Function:
    return lambda *components: Optional(components)


@bound("OptionalHasValue", plain=True)
def _has_value(node: Node) -> Function:
    return lambda optional: np.array(optional.components is not None)


@bound("OptionalGetValue", aliases=True, multi=True, plain=True)
def _get_value(node: Node) -> Function:
    def run(optional: Optional) -> tuple[Any, ...]:
        if optional.components is None:
            raise InvalidArgumentError(node, None, "The given optional does not have a value.")
        return optional.components

    return run
