"""The ranks that inputs may have are held when a node is made."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.framework.allowed_ranks import RANKS
from sparkflow.framework.apply import apply_op
from sparkflow.framework.registry import lookup, registered

pytestmark = pytest.mark.usefixtures("graph")

_X = np.zeros((2, 3), np.float32)


@pytest.mark.parametrize(
    "op, inputs, said",
    [
        ("ArgMax", [_X, np.array([0])], "dimension must be a scalar"),
        ("Sum", [_X, np.array([[0]])], "reduction_indices must be of rank 0 to 1"),
        ("Slice", [_X, 0, [2, 3]], "begin must be a vector"),
        ("ConcatV2", [[_X, _X], np.array([0])], "axis must be a scalar"),
        ("ConcatV2", [[_X, np.float32(0)], 0], "values must be of rank 1 or more"),
        ("SparseReorder", [np.array([0]), _X[0], [2]], "input_indices must be a matrix"),
        ("RGBToHSV", [np.float32(1)], "images must be of rank 1 or more"),
    ],
)
def test_another_rank_is_refused(op: str, inputs: list[Any], said: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=said):
        apply_op(op, inputs)


def test_what_is_not_known_is_not_refused() -> None:
    assert apply_op("ArgMax", [tf.placeholder(tf.float32), tf.placeholder(tf.int32)])._shape is None


def test_the_table_names_inputs_of_ops() -> None:
    assert set(RANKS) <= set(registered())
    for op, ranks in RANKS.items():
        assert set(ranks) <= {arg.name for arg in lookup(op).inputs}, op
