"""A feed of any number of rows, where the static shape says how many."""

from __future__ import annotations

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.experimental import any_rows


def test_a_feed_of_any_number_of_rows() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        rows = tf.ones([4, 2])
        total = tf.reduce_sum(rows)
        with pytest.raises(ValueError, match="Cannot feed value of shape"):
            session.run(total, {rows: np.ones((0, 2), np.float32)})
        any_rows(rows)
        assert session.run(total, {rows: np.ones((0, 2), np.float32)}) == 0 and session.run(total) == 8
        with pytest.raises(ValueError, match="Cannot feed value of shape"):
            session.run(total, {rows: np.ones((1, 3), np.float32)})
