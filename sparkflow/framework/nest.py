"""Nested structures of tensors: flattened to a list of tensors, and built again from one.

A structure is a list, tuple, namedtuple or dict (taken in the order of its sorted keys) of structures, a composite (an
object made of several tensors, as IndexedSlices), or anything else, which is a leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple


class Composite(NamedTuple):
    """How an object splits into parts (tensors, or None where one is missing), and is built like another one."""

    parts: Callable[[Any], Sequence[Any]]
    build: Callable[[Any, Sequence[Any]], Any]


_COMPOSITES: dict[type, Composite] = {}


def register_composite(
    kind: type, parts: Callable[[Any], Sequence[Any]], build: Callable[[Any, Sequence[Any]], Any]
) -> None:
    """parts(value) -> its tensors; build(like, tensors) -> a value of `like`'s class made of these tensors."""
    _COMPOSITES[kind] = Composite(parts, build)


def composite_of(value: Any) -> Composite | None:
    for kind in type(value).__mro__:
        if kind in _COMPOSITES:
            return _COMPOSITES[kind]
    return None


def is_nested(value: Any) -> bool:
    return isinstance(value, (list, tuple, Mapping))


def _children(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return [value[key] for key in sorted(value)]
    return list(value)


def _rebuilt(like: Any, children: Sequence[Any]) -> Any:
    if isinstance(like, Mapping):
        by_key = dict(zip(sorted(like), children, strict=True))
        return type(like)([(key, by_key[key]) for key in like])  # type: ignore[call-arg]
    if hasattr(like, "_fields"):
        return type(like)(*children)
    return type(like)(children)


def flatten(structure: Any, expand_composites: bool = False) -> list[Any]:
    """The leaves in order; a lone leaf gives a list of one. expand_composites: the tensors of composites instead."""
    if is_nested(structure):
        return [leaf for child in _children(structure) for leaf in flatten(child, expand_composites)]
    composite = composite_of(structure) if expand_composites else None
    if composite is not None:
        return [part for part in composite.parts(structure) if part is not None]
    return [structure]


def pack_sequence_as(structure: Any, flat_sequence: Sequence[Any], expand_composites: bool = False) -> Any:
    """A structure like the one given, of these leaves. Raises ValueError where their number differs."""
    wanted = len(flatten(structure, expand_composites))
    if wanted != len(flat_sequence):
        raise ValueError(
            f"Could not pack sequence: the structure {structure!r} has {wanted} elements, "
            f"flat_sequence has {len(flat_sequence)}: {flat_sequence!r}"
        )
    rest = iter(flat_sequence)
    return _packed(structure, rest, expand_composites)


def _packed(structure: Any, rest: Any, expand: bool) -> Any:
    if is_nested(structure):
        return _rebuilt(structure, [_packed(child, rest, expand) for child in _children(structure)])
    composite = composite_of(structure) if expand else None
    if composite is not None:
        parts = [None if part is None else next(rest) for part in composite.parts(structure)]
        return composite.build(structure, parts)
    return next(rest)


def map_structure(function: Callable[..., Any], *structures: Any, expand_composites: bool = False) -> Any:
    """function of the leaves at the same place of all structures, in a structure like the first."""
    for other in structures[1:]:
        assert_same_structure(structures[0], other, expand_composites=expand_composites)
    columns = zip(*(flatten(s, expand_composites) for s in structures))
    return pack_sequence_as(structures[0], [function(*leaves) for leaves in columns], expand_composites)


def assert_same_structure(a: Any, b: Any, check_types: bool = True, expand_composites: bool = False) -> None:
    """Raises ValueError where the nesting differs, TypeError where only the kinds of sequence or mapping do."""
    try:
        _assert_same(a, b, check_types, expand_composites)
    except (ValueError, TypeError) as error:
        message = f"The two structures don't have the same nested structure.\nFirst: {a!r}\nSecond: {b!r}\n{error}"
        raise type(error)(message) from None


def _assert_same(a: Any, b: Any, check_types: bool, expand: bool) -> None:
    if is_nested(a) != is_nested(b):
        raise ValueError(f"{a if is_nested(a) else b!r} is a nested structure, {b if is_nested(a) else a!r} is not")
    if expand and (composite_of(a) is None) != (composite_of(b) is None):
        raise ValueError(f"{a!r} and {b!r}: one is made of several tensors, the other is not")
    if not is_nested(a):
        return
    if check_types and not _alike(a, b):
        raise TypeError(f"The two have different sequence types: {type(a).__name__} and {type(b).__name__}")
    if isinstance(a, Mapping) and sorted(a) != sorted(b):
        raise ValueError(f"The two have different keys: {sorted(a)} and {sorted(b)}")
    if len(a) != len(b):
        raise ValueError(f"The two have different numbers of elements: {len(a)} and {len(b)}")
    for x, y in zip(_children(a), _children(b), strict=True):
        _assert_same(x, y, check_types, expand)


def _alike(a: Any, b: Any) -> bool:
    if isinstance(a, Mapping) or isinstance(b, Mapping):
        return isinstance(a, Mapping) and isinstance(b, Mapping)
    return type(a) is type(b)
