"""Optional: an element, or that there is none, for loops that end with a dataset without an error."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow.data.elements import Spec, spec_of, structured
from sparkflow.data.iterator import Iterator, _element
from sparkflow.framework import nest
from sparkflow.framework.apply import constant, convert_to_tensor
from sparkflow.framework.graph import Tensor
from sparkflow.ops.script import py_func, py_func_of_session
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError, OutOfRangeError


class Optional:
    """What may have a value: has_value() is a boolean tensor, get_value() the tensors of an element.

    get_value, when it runs, raises InvalidArgumentError where there is none.
    """

    def __init__(self, spec: Spec, has: Tensor, leaves: list[Tensor]):
        self._spec, self._has, self._leaves = spec, has, leaves

    @staticmethod
    def from_value(value: Any) -> Optional:
        """One that has it: a structure of tensors."""
        made = nest.map_structure(convert_to_tensor, structured(value), expand_composites=True)
        leaves = nest.flatten(made, expand_composites=True)
        return Optional(spec_of(made), constant(True), leaves)

    @staticmethod
    def empty(element_spec: Any) -> Optional:
        """One that has none; element_spec: a structure of TensorSpecs that says what it would be."""
        leaves = nest.flatten(element_spec)
        kinds = tuple(leaf.dtype.base_dtype for leaf in leaves)
        like = nest.map_structure(lambda _: 0, element_spec)
        spec = Spec(like, kinds, tuple(leaf.shape.dims_ for leaf in leaves))
        return Optional(spec, constant(False), [constant(_nothing(kind)) for kind in kinds])

    none_from_structure = empty

    def has_value(self, name: str | None = None) -> Tensor:
        return self._has

    def get_value(self, name: str | None = None) -> Any:
        def value(has: Any, *leaves: Any) -> list[Any]:
            if not has:
                raise InvalidArgumentError("The given optional does not have a value.")
            return list(leaves)

        found = py_func(value, [self._has, *self._leaves], list(self._spec.types), name=name or "OptionalGetValue")
        return _element(self._spec, nest.flatten(found))


def _nothing(kind: dtypes.DType) -> Any:
    return np.array(b"", object) if kind is dtypes.string else np.zeros((), kind.np)


def get_next_as_optional(iterator: Iterator) -> Optional:
    """The iterator's next element, or an Optional without a value at its end."""
    kinds = list(iterator._spec.types)

    def following(*given: Any) -> list[Any]:
        try:
            return [True, *iterator._value_of(*given)]
        except OutOfRangeError:
            return [False, *map(_nothing, kinds)]

    name, inputs = iterator._asked()
    has, *leaves = py_func_of_session(following, inputs, [dtypes.bool_, *kinds], name, "IteratorGetNextAsOptional")
    has.set_shape(())
    return Optional(iterator._spec, has, leaves)
