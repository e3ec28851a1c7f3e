"""The table of ops: one row gives an op's inputs, outputs, attributes and static shape rule.

A signature is written as in TensorFlow's documentation, `in: type, ... -> out: type, ...`, where a type is a dtype name
(`int32`), a type attribute (`T`), a list of one type (`N * T`), a list of any types (`[Tcomponents]`), and `&T` for a
reference to a variable. Source of names, orders and attributes: tensorflow/core/ops/*.cc.
"""

from __future__ import annotations

import re
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError

if TYPE_CHECKING:
    from sparkflow.framework.graph import Operation
    from sparkflow.framework.shapes import Dims

    ShapeRule = Callable[[Operation], list[Dims]]

_MOST_OUTPUTS = 1 << 22  # each is an object of Python's: what is beyond is a mistake that would fill the memory
_ARG = re.compile(r"(\w+): (&?)(?:(\w+) \* )?(\[?)(\w+)\]?$")


@dataclass(frozen=True)
class Arg:
    """One input or output: its type is `dtype`, or the type attribute `type_attr`; a list when `number_attr` or
    `is_type_list`."""

    name: str
    is_ref: bool
    number_attr: str | None
    is_type_list: bool
    type_attr: str | None
    dtype: dtypes.DType | None

    @property
    def is_list(self) -> bool:
        return self.is_type_list or self.number_attr is not None


@dataclass(frozen=True)
class OpSpec:
    """One row of the table. `shape` maps a built Operation to the static shapes of its outputs."""

    name: str
    signature: str
    defaults: Mapping[str, Any]
    shape: ShapeRule | None
    stateful: bool

    @cached_property
    def inputs(self) -> tuple[Arg, ...]:
        return _args(self.signature.partition("->")[0])

    @cached_property
    def outputs(self) -> tuple[Arg, ...]:
        return _args(self.signature.partition("->")[2])

    @cached_property
    def counts(self) -> tuple[tuple[str, type], ...]:
        """The attributes that say types and numbers, and what each is: list of DTypes, DType, or int."""
        found: dict[str, type] = {}
        for arg in (*self.inputs, *self.outputs):
            if arg.type_attr:
                found[arg.type_attr] = list if arg.is_type_list else dtypes.DType
            if arg.number_attr:
                found[arg.number_attr] = int
        return tuple(found.items())

    @cached_property
    def plain(self) -> dict[str, type]:
        """The attributes that are a truth value, a number or a text, and which: their defaults tell."""
        return {key: type(value) for key, value in self.defaults.items() if type(value) in (bool, int, float, str)}

    @cached_property
    def record(self) -> Callable[..., tuple[Any, ...]]:
        """Makes the tuple of an op's several outputs, each by its name."""
        return namedtuple(self.name, [arg.name for arg in self.outputs])

    @cached_property
    def types_to_tell(self) -> tuple[str, ...]:
        """The type attributes of outputs, which the inputs or the caller tell."""
        return tuple(a.type_attr for a in self.outputs if a.type_attr and a.type_attr not in self.defaults)

    def output_dtypes(self, attrs: Mapping[str, Any]) -> list[dtypes.DType]:
        out: list[dtypes.DType] = []
        for arg in self.outputs:
            if not (arg.is_ref or arg.is_type_list or arg.number_attr):
                out.append(attrs[arg.type_attr] if arg.type_attr else arg.dtype)  # type: ignore[arg-type]
                continue
            types: Any = attrs[arg.type_attr] if arg.type_attr else arg.dtype
            found = list(types) if arg.is_type_list else [types] * self._number(arg.number_attr, attrs)
            out += [dtypes.ref_of(t) for t in found] if arg.is_ref else found
        return out

    def grouped(self, outputs: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Any, ...]:
        """An op's outputs by their names, those that are a list as one."""
        given, found = iter(outputs), []
        for arg in self.outputs:
            count = len(attrs[arg.type_attr or ""]) if arg.is_type_list else self._number(arg.number_attr, attrs)
            part = list(islice(given, count))
            found.append(part if arg.is_list else part[0])
        return self.record(*found)

    def _number(self, attr: str | None, attrs: Mapping[str, Any]) -> int:
        number: int = attrs[attr] if attr else 1
        if number > _MOST_OUTPUTS:
            raise InvalidArgumentError(
                f"{self.name}: Number of outputs is too big: {attr} is {number}, at most {_MOST_OUTPUTS} can be made"
            )
        return number

    def ref_inputs(self) -> set[str]:
        return {arg.name for arg in self.inputs if arg.is_ref}


def _args(text: str) -> tuple[Arg, ...]:
    return tuple(_arg(part.strip()) for part in text.split(",") if part.strip())


def _arg(text: str) -> Arg:
    m = _ARG.match(text)
    if m is None:
        raise InvalidArgumentError(
            f"Op signature: cannot read {text!r}; expected e.g. 'x: T', 'values: N * T', 'ref: &T'"
        )
    name, ref, number, listed, kind = m.groups()
    fixed = dtypes.ALL.get(kind)
    return Arg(name, bool(ref), number, bool(listed), None if fixed else kind, fixed)


_OPS: dict[str, OpSpec] = {}


def op(
    name: str, signature: str, shape: ShapeRule | None = None, /, *, stateful: bool = False, **defaults: Any
) -> OpSpec:
    """Add a row to the table. defaults: the attributes an op may leave out. Raises InvalidArgumentError on a second
    row."""
    if name in _OPS:
        raise InvalidArgumentError(f"Op {name!r} is registered twice")
    _OPS[name] = OpSpec(name, signature, defaults, shape, stateful)
    return _OPS[name]


def lookup(name: str) -> OpSpec:
    if name not in _OPS:
        raise InvalidArgumentError(
            f"Op type {name!r} is not registered. Register it with sparkflow.framework.registry.op"
        )
    return _OPS[name]


def is_registered(name: str) -> bool:
    return name in _OPS


def registered() -> list[str]:
    return sorted(_OPS)
