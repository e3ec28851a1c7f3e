"""Structures of tensors: flattened, packed, compared."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from sparkflow.framework import nest
from sparkflow.framework.graph import Graph
from sparkflow.framework.indexed_slices import IndexedSlices
from sparkflow.ops import array


class Pair(NamedTuple):
    a: Any
    b: Any


STRUCTURE = {"z": [1, (2, 3)], "a": Pair(4, {"k": 5})}


def test_flatten_takes_dicts_in_the_order_of_their_keys() -> None:
    assert nest.flatten(STRUCTURE) == [4, 5, 1, 2, 3]
    assert nest.flatten(7) == [7] and nest.flatten([]) == []


def test_pack_is_the_inverse_of_flatten() -> None:
    packed = nest.pack_sequence_as(STRUCTURE, nest.flatten(STRUCTURE))
    assert packed == STRUCTURE and list(packed) == ["z", "a"] and isinstance(packed["a"], Pair)
    with pytest.raises(ValueError, match="has 5 elements, flat_sequence has 1"):
        nest.pack_sequence_as(STRUCTURE, [1])


def test_map_structure() -> None:
    assert nest.map_structure(lambda x, y: x + y, [1, (2,)], [10, (20,)]) == [11, (22,)]
    with pytest.raises(ValueError, match="different numbers of elements"):
        nest.map_structure(lambda x, y: x, [1, 2], [1])


@pytest.mark.parametrize(
    "a, b, error, words",
    [
        ([1], 1, ValueError, "is a nested structure"),
        ([1], (1,), TypeError, "different sequence types: list and tuple"),
        ({"a": 1}, {"b": 1}, ValueError, "different keys"),
        ([1, [2]], [1, [2, 3]], ValueError, "different numbers"),
    ],
)
def test_structures_that_differ(a: Any, b: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=f"(?s)same nested structure.*{words}"):
        nest.assert_same_structure(a, b)


def test_kinds_of_sequences_may_differ_when_asked() -> None:
    nest.assert_same_structure([1, (2,)], (1, [2]), check_types=False)


def test_composites_are_leaves_or_their_tensors(graph: Graph) -> None:
    values, indices = array.ones([1, 2]), array.zeros([1], "int32")
    slices = IndexedSlices(values, indices)
    assert nest.flatten([slices]) == [slices]
    assert nest.flatten([slices], expand_composites=True) == [values, indices]
    (packed,) = nest.pack_sequence_as([slices], [indices, values], expand_composites=True)
    assert (packed.values, packed.indices, packed.dense_shape) == (indices, values, None)
