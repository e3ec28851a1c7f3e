"""Blocks in a file: what is read into memory is what was written, component by component."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_connectors.layout import Block, Component, Layout
from sparkflow_connectors.spool import Spool
from sparkflow_runtime.wire import dtypes

LAYOUT = Layout(
    (
        Component(("a", "b", "c"), dtypes.float32, (3,)),
        Component(("flag",), dtypes.bool_, ()),
        Component(("picture",), dtypes.uint8, (3, 2)),
        Component(("id",), dtypes.int64, ()),
    )
)
MANY = Layout(tuple(Component((f"c{i}",), dtypes.uint8, (i % 3 + 1,)) for i in range(1300)))


def rows_of(layout: Layout, rows: int, seed: int) -> Block:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 2, (rows, *c.shape)).astype(c.dtype.np) for c in layout.components]


@pytest.mark.parametrize("layout", [LAYOUT, MANY], ids=["few", "many"])
def test_blocks_that_are_read_to_where_they_belong(layout: Layout, tmp_path: Path) -> None:
    spool, sizes = Spool(layout, directory=str(tmp_path)), [5, 1, 7, 5, 64]
    blocks = [rows_of(layout, rows, i) for i, rows in enumerate(sizes)]
    for block in blocks:
        spool.append(block)
    out, order, at = layout.zeros(sum(sizes) + 2), [3, 0, 4, 2, 1], 1
    for number in order:
        spool.read_to(number, out, at)
        at += sizes[number]
    for which, array in enumerate(out):
        assert (array[1:-1] == np.concatenate([blocks[i][which] for i in order])).all()
        assert not array[0].any() and not array[-1].any()
    spool.close()


def test_a_file_that_was_cut(tmp_path: Path) -> None:
    spool = Spool(LAYOUT, directory=str(tmp_path))
    for seed in range(2):
        spool.append(rows_of(LAYOUT, 9, seed))
    out = LAYOUT.zeros(9)
    os.truncate(spool.fd, spool.places[1].offset + spool.places[1].nbytes - 80)
    spool.read_to(0, out, 0)
    with pytest.raises(tf.errors.DataLossError, match=rf"The spool in {tmp_path} ends inside the block at byte \d+"):
        spool.read_to(1, out, 0)
    spool.close()
