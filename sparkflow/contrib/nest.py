"""tf.contrib.framework.nest (tensorflow.python.util.nest): nested structures, also followed part of the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sparkflow.framework.nest import (
    _children,
    assert_same_structure,
    flatten,
    is_nested,
    map_structure,
    pack_sequence_as,
)

__all__ = [
    "assert_same_structure", "assert_shallow_structure", "flatten", "flatten_dict_items", "flatten_up_to",
    "flatten_with_joined_string_paths", "is_nested", "is_sequence", "map_structure", "map_structure_up_to",
    "pack_sequence_as", "yield_flat_paths",
]  # fmt: skip

is_sequence = is_nested


def assert_shallow_structure(shallow_tree: Any, input_tree: Any, check_types: bool = True) -> None:
    """input_tree goes at least as deep as shallow_tree, in the same way. TypeError or ValueError where it does not."""
    if not is_nested(shallow_tree):
        return
    if not is_nested(input_tree):
        raise TypeError(f"If shallow structure is a sequence, input must also be a sequence, got {input_tree!r}")
    if check_types and type(shallow_tree) is not type(input_tree):
        raise TypeError(f"The structures are a {type(shallow_tree).__name__} and a {type(input_tree).__name__}")
    if isinstance(shallow_tree, Mapping) and set(shallow_tree) != set(input_tree):
        raise ValueError(f"The keys are {sorted(shallow_tree)} and {sorted(input_tree)}")
    if len(shallow_tree) != len(input_tree):
        raise ValueError(f"The structures have {len(shallow_tree)} and {len(input_tree)} parts")
    for shallow, deep in zip(_children(shallow_tree), _children(input_tree)):
        assert_shallow_structure(shallow, deep, check_types)


def _up_to(shallow: Any, deep: Any) -> list[Any]:
    if not is_nested(shallow):
        return [deep]
    return [leaf for pair in zip(_children(shallow), _children(deep)) for leaf in _up_to(*pair)]


def flatten_up_to(shallow_tree: Any, input_tree: Any, check_types: bool = True) -> list[Any]:
    """What of input_tree stands where shallow_tree has leaves."""
    assert_shallow_structure(shallow_tree, input_tree, check_types)
    return _up_to(shallow_tree, input_tree)


def map_structure_up_to(shallow_tree: Any, func: Callable[..., Any], *inputs: Any, check_types: bool = True) -> Any:
    """func of what the inputs have at the leaves of shallow_tree, in its structure. ValueError without inputs."""
    if not inputs:
        raise ValueError("map_structure_up_to: cannot map over no sequences")
    columns = [flatten_up_to(shallow_tree, x, check_types) for x in inputs]
    return pack_sequence_as(shallow_tree, [func(*row) for row in zip(*columns)])


def flatten_dict_items(dictionary: Mapping[Any, Any]) -> dict[Any, Any]:
    """{(a, b): (1, 2)} as {a: 1, b: 2}. ValueError where a key comes twice, or keys and values are not alike."""
    found: dict[Any, Any] = {}
    for key, value in dictionary.items():
        keys, values = (flatten(key), flatten(value)) if is_nested(key) else ([key], [value])
        if len(keys) != len(values):
            raise ValueError(f"Key had {len(keys)} elements, but value had {len(values)}: {key}, {value}")
        for one, x in zip(keys, values):
            if one in found:
                raise ValueError(f"Could not flatten dictionary: key {one!r} is not unique.")
            found[one] = x
    return found


def yield_flat_paths(nest: Any) -> Iterator[tuple[Any, ...]]:
    """The way to each leaf: keys, names and numbers."""
    if not is_nested(nest):
        yield ()
        return
    names = sorted(nest) if isinstance(nest, Mapping) else getattr(nest, "_fields", range(len(nest)))
    for name, child in zip(names, _children(nest)):
        for rest in yield_flat_paths(child):
            yield (name, *rest)


def flatten_with_joined_string_paths(structure: Any, separator: str = "/") -> list[tuple[str, Any]]:
    """(the way to it as a text, leaf) of each leaf."""
    ways = (separator.join(map(str, way)) for way in yield_flat_paths(structure))
    return list(zip(ways, flatten(structure)))
