"""What is wrong with rows or folders, found on the way: one error at the driver, nothing half-written, nobody left.

What a schema tells beforehand is in test_failures.py; here, a partition or a micro-batch differs from what was said.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sparkflow as tf
from tests.cluster.conftest import small_model, small_table
from tests.cluster.test_exactly_once import counting_model
from tests.cluster.test_stream import ROWS, streamed, uses, write

INVALID = tf.errors.InvalidArgumentError
ENGINES = ("local", "dask", "spark")


def second_half(table: pa.Table, what: str) -> list[pd.DataFrame]:
    """Two partitions, of which the second is not as the first says."""
    first, second = (table.slice(at, len(table) // 2).to_pandas() for at in (0, len(table) // 2))
    if what == "type":
        second = second.assign(user=second["user"] + 0.5)
    elif what == "text":
        second = second.assign(x=second["x"].astype(str))
    elif what == "null":
        second.loc[second.index[41], "late"] = None
    else:
        second = second.drop(columns=["x"])
    return [first, second]


@pytest.mark.parametrize(
    "what, message",
    [
        ("type", "Column 'user' has type double, and the table said int64: the type changed on the way"),
        ("text", "[Cc]olumn '?x'? (has type .*string|with type object)"),
        ("null", r"Column 'late'.* is null at row \d+ of its partition"),
        ("gone", "Column 'x' is missing"),
    ],
)
@pytest.mark.parametrize("ordered", [pytest.param(True, marks=pytest.mark.soak), False])
def test_a_partition_of_dask_that_differs(
    clusters: Any, what: str, message: str, ordered: bool, tmp_path: Path, none_left: Any
) -> None:
    import dask.dataframe as dd

    assert clusters.dask is not None
    frames = second_half(small_table(), what)
    frame = dd.from_map(lambda i: frames[i], [0, 1], meta=frames[0].iloc[:0], enforce_metadata=False)
    options = {"partition_by": "row", "order_by": "row"} if ordered else {}
    with pytest.raises(INVALID, match=message if ordered else f"Partition 1 of the table: .*{message}"):
        tf.dask.train(
            frame, small_model(), label="late", features=["user", "x"], checkpoint_dir=str(tmp_path / "out"),
            workers=2, ps=2, sync=True, epochs=2, batch_size=64, params={"sync": True}, **options,
        )  # fmt: skip
    assert not (tmp_path / "out").exists(), "nothing half-written"
    none_left()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_folder_that_cannot_be_written(
    clusters: Any, engine: str, table: pa.Table, tmp_path: Path, none_left: Any
) -> None:
    (tmp_path / "file").write_text("a file")
    with pytest.raises(INVALID, match=r"checkpoint_dir .*file/out' cannot be written: Not a directory"):
        clusters.train(engine, table, tmp_path / "file" / "out")
    none_left()


# ---------------------------------------------------------------------- micro-batches


@pytest.mark.slow
def test_a_micro_batch_with_a_null(clusters: Any, tmp_path: Path, none_left: Any) -> None:
    """Ends the stream by its own error; what was trained before is kept, and a corrected file is trained on."""
    write(tmp_path / "table", 0)
    streamed(clusters, tmp_path, tmp_path / "notes", []).awaitTermination()
    pq.write_table(pa.table({"row": pa.array([1, 4, None, 7])}), tmp_path / "table" / "1.parquet")
    stream = streamed(clusters, tmp_path, tmp_path / "notes", [])
    with pytest.raises(INVALID, match=r"Column 'row' \(feature\) is null at row \d+ of its partition"):
        stream.awaitTermination()
    assert not stream.query.isActive
    none_left()
    write(tmp_path / "table", 1)
    again = streamed(clusters, tmp_path, tmp_path / "notes", [])
    again.awaitTermination()
    used = uses(again.model)
    assert used[0::3].tolist() == [1] * (ROWS // 3) == used[1::3].tolist()
    none_left()


@pytest.mark.slow
@pytest.mark.parametrize("what", [pytest.param("another type", marks=pytest.mark.soak), "damaged"])
def test_a_micro_batch_that_spark_cannot_read(clusters: Any, tmp_path: Path, none_left: Any, what: str) -> None:
    """Spark itself refuses the file; the driver gets its name in one line."""
    write(tmp_path / "table", 0)
    streamed(clusters, tmp_path, tmp_path / "notes", []).awaitTermination()
    file = tmp_path / "table" / "1.parquet"
    error: type[Exception] = INVALID
    if what == "damaged":
        file.write_bytes(b"no parquet file")
        error = tf.errors.DataLossError
    else:
        pq.write_table(pa.table({"row": ["one", "four"]}), file)
    stream = streamed(clusters, tmp_path, tmp_path / "notes", [])
    with pytest.raises(error, match=r"1\.parquet: Spark cannot read the file: "):
        stream.awaitTermination()
    assert not stream.query.isActive
    none_left()


def test_a_stream_whose_folder_cannot_be_written_or_holds_another_model(
    clusters: Any, tmp_path: Path, none_left: Any
) -> None:
    write(tmp_path / "table", 0)
    (tmp_path / "checkpoints").write_text("a file")
    with pytest.raises(INVALID, match=r"checkpoint_dir .* is a file; it must be a directory"):
        streamed(clusters, tmp_path, tmp_path / "notes", []).awaitTermination()
    (tmp_path / "checkpoints").unlink()
    clusters.train("local", small_table(), tmp_path / "checkpoints", epochs=1)
    with pytest.raises(tf.errors.FailedPreconditionError, match="that has made 1 epochs and was no stream"):
        streamed(clusters, tmp_path, tmp_path / "notes", [])
    assert not (tmp_path / "checkpoints" / "stream").exists()
    none_left()


@pytest.mark.slow
def test_a_stream_that_is_scored(clusters: Any, tmp_path: Path) -> None:
    """`transform` of a streaming DataFrame: each micro-batch is scored, and one with a null ends it by our error."""
    write(tmp_path / "table", 0)
    model = tf.local.train(
        pa.table({"row": np.arange(ROWS)}), counting_model(), label=None, features=["row"], workers=1, ps=1, sync=True,
        checkpoint_dir=str(tmp_path / "model"), batch_size=64, validation=0.0, uneven="join",
        params={"rows": ROWS, "kill": [], "notes": "", "strategy": "ps"},
    )  # fmt: skip
    source = (
        clusters.spark.readStream.schema("row long").option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "table"))
    )

    def run() -> None:
        writer: Any = model.transform(source).writeStream.format("parquet").option("path", str(tmp_path / "scored"))
        writer.option("checkpointLocation", str(tmp_path / "notes")).trigger(
            availableNow=True
        ).start().awaitTermination()

    run()
    found = clusters.spark.read.parquet(str(tmp_path / "scored")).toPandas().sort_values("row")
    assert found["row"].tolist() == list(range(0, ROWS, 3))
    np.testing.assert_allclose(found["uses"], -1.0)
    with pytest.raises(INVALID, match="already has a column 'uses'"):
        model.transform(source.selectExpr("row", "1 uses"))
    pq.write_table(pa.table({"row": pa.array([1, 4, None, 7])}), tmp_path / "table" / "1.parquet")
    with pytest.raises(INVALID, match=r"^Column 'row' .*is null at row"):
        run()
