"""Layout, windows and spools: rows on their way from a table to the queue, without a process or a thread."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sparkflow_connectors.columns import Column
from sparkflow_connectors.layout import Block, Layout, Piece, put
from sparkflow_connectors.packing import packing_of
from sparkflow_connectors.partition import FollowedPartition, Handover, OwnPartition, replay, shuffled
from sparkflow_connectors.rows import frame_pieces, packed_pieces, pieces_of
from sparkflow_connectors.schema import resolve
from sparkflow_connectors.spool import Spool
from sparkflow_connectors.windows import Plan, Windows, plan
from sparkflow_runtime.wire.errors import InvalidArgumentError, ResourceExhaustedError

PLAN = Plan(seed=3, rank=1, validation=0.1, batch_size=8, window_rows=64, queue_rows=64, push_rows=16)


def table(rows: int) -> pa.Table:
    n = np.arange(rows)
    return pa.table({"id": n, "a": n.astype(np.float32), "even": n % 2 == 0, "y": n.astype(np.float32) / 2})


COLUMNS = resolve(table(1).schema, ["id", "a", "even"], "y")
LAYOUT = Layout.of(COLUMNS)


class AJob:
    columns, layout = COLUMNS, LAYOUT


JOB: Any = AJob()


def pieces(rows: int, size: int = 10) -> Iterator[Piece]:
    return pieces_of(table(rows).to_batches(max_chunksize=size), JOB)


def ids(block: Block) -> list[int]:
    columns = LAYOUT.columns(block)
    assert (columns["y"] * 2 == columns["a"]).all() and (columns["even"] == (columns["id"] % 2 == 0)).all()
    assert (columns["a"] == columns["id"]).all(), "rows stay together"
    return list(columns["id"].tolist())


def test_columns_of_one_dtype_lie_side_by_side() -> None:
    assert [(c.columns, c.shape) for c in LAYOUT.components] == [(("id",), ()), (("a", "y"), (2,)), (("even",), ())]
    assert LAYOUT.row_bytes == 8 + 8 + 1
    block = LAYOUT.zeros(3)
    assert all(np.shares_memory(a, b) for a, b in zip(block, LAYOUT.block(LAYOUT.batch(block))))


def test_the_first_pass_has_each_row_once_and_does_not_ask_how_they_come() -> None:
    passes = []
    for size in (1, 7, 1000):
        windows = [
            ([i for b in w.train for i in ids(b)], ids(w.held), w.rows, w.crc, w.last)
            for w in Windows(PLAN, LAYOUT)(pieces(150, size))
        ]
        passes.append(windows)
    assert passes[0] == passes[1] == passes[2]
    train, held = ([i for w in passes[0] for i in w[part]] for part in (0, 1))
    assert sorted(train + held) == list(range(150)) and len(held) == 15
    assert [(w[2], w[4]) for w in passes[0]] == [(64, False), (128, False), (150, True)]
    assert train[:50] != sorted(train[:50])


def test_the_last_window_knows_that_it_is_the_last() -> None:
    assert [w.last for w in Windows(PLAN, LAYOUT)(pieces(128))] == [False, True]
    assert list(Windows(PLAN, LAYOUT)(pieces(0))) == []


def test_other_rows_have_another_checksum() -> None:
    def crcs(source: Iterator[Piece]) -> list[int]:
        return [w.crc for w in Windows(PLAN, LAYOUT)(source)]

    other = table(150).to_pylist()
    other[100]["a"], other[101]["a"] = other[101]["a"], other[100]["a"]
    before, after = crcs(pieces(150)), crcs(pieces_of(pa.Table.from_pylist(other, table(1).schema).to_batches(), JOB))
    assert before[0] == after[0] and before[1] != after[1] and before[2] != after[2]


def test_windows_of_another_size_have_another_checksum() -> None:
    """All rows are in one window of either, but later epochs permute other blocks of them."""
    (mine,), (wide,) = (list(Windows(p, LAYOUT)(pieces(60))) for p in (PLAN, replace(PLAN, window_rows=1024)))
    assert ids(mine.train[0]) == ids(wide.train[0]) and mine.crc != wide.crc


def test_the_budget_is_kept_or_refused() -> None:
    found = plan(1, 0, 0.1, 100, row_bytes=100, feed_bytes=300_000)
    assert 2 * found.window_rows * 100 + found.queue_rows * 100 <= 300_000
    assert found.push_rows % 100 == 0 and found.push_rows * 2 <= found.queue_rows
    with pytest.raises(InvalidArgumentError, match=r"feed_bytes is 59999, and .* at least 60000"):
        plan(1, 0, 0.1, 100, row_bytes=100, feed_bytes=59_999)


# ---------------------------------------------------------------------- spools


def own(rows: int, directory: Path | None = None) -> OwnPartition:
    partition = OwnPartition(PLAN, LAYOUT, pieces(rows), None if directory is None else str(directory))
    partition.keep()
    return partition


def test_the_spool_has_what_the_first_pass_gave_and_no_name(tmp_path: Path) -> None:
    partition = own(150, tmp_path)
    first = [i for w in partition.windows() for b in w.train for i in ids(b)]
    assert os.listdir(tmp_path) == []
    assert [i for b in replay(partition.train, 0) for i in ids(b)] == first
    assert [i for b in replay(partition.train, 77) for i in ids(b)] == first[77:]
    held = [i for n in range(len(partition.held.places)) for i in ids(partition.held.read(n))]
    assert sorted(first + held) == list(range(150))
    partition.close()


def test_later_epochs_have_each_row_once_in_orders_of_their_own() -> None:
    partition = own(300)
    first = [i for w in partition.windows() for b in w.train for i in ids(b)]
    orders = [[i for b in shuffled(partition.train, PLAN, epoch, 0) for i in ids(b)] for epoch in (1, 2, 1)]
    assert sorted(orders[0]) == sorted(orders[1]) == sorted(first)
    assert orders[0] == orders[2] and len({tuple(o) for o in (first, *orders)}) == 3
    assert [i for b in shuffled(partition.train, PLAN, 1, 111) for i in ids(b)] == orders[0][111:]
    window = orders[0][: PLAN.window_rows]
    assert max(window) - min(window) > 200, "a window has rows of all parts"
    partition.close()


def test_another_process_may_make_the_pass(tmp_path: Path) -> None:
    mine = own(150)
    wanted = [(w.rows, w.crc, w.last, [i for b in w.train for i in ids(b)]) for w in mine.windows()]
    handover = Handover(PLAN, LAYOUT, str(tmp_path))
    duplicates = tuple(os.dup(fd) for fd in handover.fds)
    handover.given()
    followed = FollowedPartition(LAYOUT, duplicates)  # type: ignore[arg-type]
    thread = threading.Thread(target=handover.run, args=(pieces(150),))
    thread.start()
    found = [(w.rows, w.crc, w.last, [i for b in w.train for i in ids(b)]) for w in followed.windows()]
    thread.join(10)
    assert found == wanted and followed.held.rows == 15
    followed.close()
    handover.close()
    mine.close()


def test_what_goes_wrong_there_is_raised_here() -> None:
    def broken() -> Iterator[Piece]:
        yield from pieces(100)
        raise InvalidArgumentError("Column 'a' is null at row 100")

    handover = Handover(PLAN, LAYOUT)
    followed = FollowedPartition(LAYOUT, tuple(os.dup(fd) for fd in handover.fds))  # type: ignore[arg-type]
    handover.given()
    handover.run(broken())
    with pytest.raises(InvalidArgumentError, match="null at row 100"):
        list(followed.windows())
    followed.close()
    handover.close()


def test_rows_end_with_the_process_that_reads_them(tmp_path: Path) -> None:
    """Though what it forked holds its end of the lines, which are full, and lives."""
    handover = Handover(PLAN, LAYOUT, str(tmp_path))
    held = os.dup(handover.fds[2])
    handover.given()
    thread = threading.Thread(target=handover.run, args=(pieces(100_000),), daemon=True)
    thread.start()
    thread.join(1.0)
    assert thread.is_alive(), "the lines were too few to fill a pipe"
    handover.stop()
    thread.join(10)
    assert not thread.is_alive()
    handover.close()
    os.close(held)


def test_a_full_disk_says_where(tmp_path: Path) -> None:
    with pytest.raises(ResourceExhaustedError, match=r"Cannot spool 0 bytes of rows.*nowhere: No such file"):
        Spool(LAYOUT, directory=str(tmp_path / "nowhere")).append(LAYOUT.zeros(3))
    full = Spool(LAYOUT, fd=os.open("/dev/full", os.O_RDWR))
    with pytest.raises(ResourceExhaustedError, match=r"Cannot spool \d+ bytes of rows, after 0 rows, .*No space left"):
        full.append(LAYOUT.zeros(10))


def test_no_place_for_temporary_files_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container that only reads its disk."""

    def none() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr("tempfile.gettempdir", none)
    monkeypatch.setenv("TMPDIR", "/nowhere")
    with pytest.raises(ResourceExhaustedError, match=r"Cannot spool 0 bytes.* to /nowhere: No such file.*point TMPDIR"):
        Spool(LAYOUT).append(LAYOUT.zeros(3))


# ---------------------------------------------------------------------- what engines have


@pytest.mark.parametrize(("column", "what"), [("y", "label"), ("a", "feature")])
def test_nulls_are_refused_by_column_and_row(column: str, what: str) -> None:
    holed = table(20).to_pylist()
    holed[15][column] = None
    holed_table = pa.Table.from_pylist(holed, table(1).schema)
    message = rf"'{column}' (\({what}\) )?is null at row 15 of its partition"
    with pytest.raises(InvalidArgumentError, match=message):
        list(pieces_of(holed_table.to_batches(max_chunksize=6), JOB))
    with pytest.raises(InvalidArgumentError, match=message):
        list(frame_pieces([holed_table.to_pandas()], JOB))
    packing = packing_of(COLUMNS)
    with pytest.raises(InvalidArgumentError, match=message):
        list(packed_pieces(packed(holed_table).to_batches(max_chunksize=6), JOB, packing, {}))


def packed(given: pa.Table) -> pa.Table:
    """As Spark packs it."""
    floats = [list(pair) for pair in zip(given.column("a").to_pylist(), given.column("y").to_pylist())]
    flags = [[None if f is None else int(f)] for f in given.column("even").to_pylist()]
    lists = {
        "packed_float32": pa.array(floats, pa.list_(pa.float32())),
        "packed_bool": pa.array(flags, pa.list_(pa.int8())),
    }
    return pa.table({"id": given.column("id"), **lists})


def test_packed_columns_are_rows_of_the_layout_without_a_copy() -> None:
    batch = packed(table(20)).to_batches()[0]
    (piece,) = packed_pieces([batch], JOB, packing_of(COLUMNS), {})
    assert isinstance(piece[1], np.ndarray) and piece[1].shape == (20, 2)
    assert np.shares_memory(piece[1], batch.column("packed_float32").values.to_numpy())
    (window,) = Windows(PLAN, LAYOUT)([piece])
    assert sorted(ids(window.train[0]) + ids(window.held)) == list(range(20))


def test_frames_of_numpy_are_taken_as_they_are_and_others_by_way_of_arrow() -> None:
    frame = table(20).to_pandas()
    (piece,) = frame_pieces([frame], JOB)
    assert np.shares_memory(piece[0], frame["id"].to_numpy())
    import pandas as pd

    (other,) = frame_pieces([table(20).to_pandas(types_mapper=pd.ArrowDtype)], JOB)
    for one, two in zip(arrays_of(piece), arrays_of(other)):
        assert one.tolist() == two.tolist()


def arrays_of(piece: Piece) -> list[np.ndarray]:
    return [a for part in piece for a in (part if isinstance(part, list) else [part])]


def test_a_type_that_changes_half_way_is_refused() -> None:
    other = pa.RecordBatch.from_pydict({"id": ["x"], "a": [1.0], "even": [True], "y": [1.0]})
    with pytest.raises(InvalidArgumentError, match="'id' has type string"):
        list(pieces_of([*table(5).to_batches(), other], JOB))


def test_only_plain_numbers_are_packed() -> None:
    mixed = pa.table(
        {
            "a": pa.array([1.0, None], pa.float32()),
            "b": pa.array([1.0, 2.0], pa.float32()),
            "pair": pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32())),
            "tags": pa.array([[1], [2, 3]], pa.list_(pa.int64())),
            "city": ["x", "y"],
            "n": [1, 2],
        }
    )
    given = [Column("a", default=0.5), "b", Column("pair", shape=[2]), Column("tags", kind="ragged", length=2)]
    columns = resolve(mixed.schema, [*given, Column("city", vocabulary=["y", "x"]), Column("n", hash_buckets=5)], None)
    layout = Layout.of(columns)
    assert [(c.columns, c.shape) for c in layout.components] == [
        (("a", "b"), (2,)), (("pair",), (2,)), (("tags",), (2,)), (("tags/length",), ()), (("city", "n"), (2,))
    ]  # fmt: skip
    packing = packing_of(columns)
    assert [block.names for block in packing.blocks.values()] == [("a", "b")]
    assert packing.plain == ["pair", "tags", "city", "n"] and "cast('0.5' as float)" in packing.expressions[-1]
    job: Any = AJob()
    job.columns, job.layout = columns, layout
    (piece,) = pieces_of(mixed.to_batches(), job)
    block = layout.empty(2)
    put(block, 0, piece, 0, 2)
    assert block[0].tolist() == [[1.0, 1.0], [0.5, 2.0]] and block[4][:, 0].tolist() == [1, 0]
    assert [a.tolist() for a in block[1:4]] == [[[1, 2], [3, 4]], [[1, 0], [2, 3]], [1, 2]]
