"""Results out: predictions of any shape and type, any tensor by name, saved models, variables as tables and back."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sparkflow as tf
from sparkflow_connectors.columns import Column
from sparkflow_connectors.model import Predictor
from sparkflow_connectors.predictions import arrow_type, column

INVALID = tf.errors.InvalidArgumentError
X = np.arange(12, dtype=np.float32).reshape(6, 2)
TABLE = pa.table({"x": pa.array(X.tolist(), pa.list_(pa.float32())), "id": np.arange(6), "note": list("abcdef")})
W = np.array([[1.0, 2.0, 3.0], [0.5, 0.0, -1.0]], np.float32)


def build() -> tuple[Any, Any]:
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    w = tf.get_variable("w", initializer=tf.constant(W))
    y = tf.nn.relu(tf.matmul(x, w, name="product"), name="y")
    tf.constant(3.0, name="alone")
    tf.as_string(y[:, 0], precision=1, name="text")
    return x, y


@pytest.fixture
def export(tmp_path: Path) -> str:
    with tf.Session(graph=tf.Graph()) as session, session.graph.as_default():
        x, y = build()
        session.run(tf.global_variables_initializer())
        tf.saved_model.simple_save(session, str(tmp_path / "export"), {"x": x}, {"score": y})
        tf.train.Saver().save(session, str(tmp_path / "ckpt" / "model"), global_step=7)
    return str(tmp_path / "export")


def test_a_saved_model_scores_a_table(export: str) -> None:
    model = tf.local.load_model(export)
    scored = model.transform(TABLE)
    assert scored.schema.names == ["x", "id", "note", "score"] and scored.select(TABLE.schema.names).equals(TABLE)
    np.testing.assert_array_equal(np.array(scored["score"].to_pylist(), np.float32), np.maximum(X @ W, 0))
    frame = TABLE.to_pandas(types_mapper=pd.ArrowDtype)
    assert model.transform(frame)["score"].tolist()[1] == pytest.approx((X @ W)[1])
    assert model.transform(TABLE.slice(0, 0)).num_rows == 0


def test_what_a_notebook_shows_of_a_model(export: str) -> None:
    """Not its graph, which may be megabytes."""
    model = tf.local.load_model(export)
    assert repr(model) == f"Model({model.checkpoint!r}: x -> score: list<element: float>)"
    assert len(repr(model.graph)) < 1000


def test_signatures_of_tensorflow_itself_are_no_choice(tmp_path: Path) -> None:
    with tf.Session(graph=tf.Graph()) as session, session.graph.as_default():
        x, y = build()
        session.run(tf.global_variables_initializer())
        signature = tf.saved_model.predict_signature_def({"x": x}, {"y": y})
        builder = tf.saved_model.Builder(str(tmp_path / "of2"))
        builder.add_meta_graph_and_variables(session, ["serve"], {"own": signature})
        path = Path(builder.save(as_text=True))
    path.write_text(path.read_text().replace('"own"', '"__saved_model_init_op"'))  # which no builder takes
    with pytest.raises(INVALID, match="has no signature 'serving_default'; there is none"):
        tf.local.load_model(str(tmp_path / "of2"))


def test_a_checkpoint_with_its_graph(export: str) -> None:
    folder = os.path.join(os.path.dirname(export), "ckpt")
    for path in (folder, os.path.join(folder, "model-7")):
        model = tf.local.load_model(path, inputs={"in": "x:0"}, outputs={"y": "y"}, columns={"in": "x"})
        assert model.transform(TABLE)["y"].to_pylist()[0] == pytest.approx([0.5, 0.0, 0.0])
        assert list(model.variables()) == ["w"]


def test_two_inputs_of_one_column(tmp_path: Path) -> None:
    with tf.Session(graph=tf.Graph()) as session, session.graph.as_default():
        a, b = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.float32, [None])
        tf.saved_model.simple_save(session, str(tmp_path / "m"), {"a": a, "b": b}, {"sum": a + b})
    with pytest.raises(INVALID, match="Inputs 'a' and 'b' both read column 'x'"):
        tf.local.load_model(str(tmp_path / "m"), {"a": "x", "b": "x"})


def test_many_rows_are_scored_in_parts(export: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a model computes of a large batch stays small; the batch stays whole, and messages count its rows."""
    at_once, run = [], Predictor.run
    monkeypatch.setattr(Predictor, "run", lambda self, given: at_once.append(len(given["x"])) or run(self, given))
    model, x = tf.local.load_model(export), np.random.default_rng(0).normal(size=(40_000, 2)).astype(np.float32)
    table = pa.table({"x": pa.FixedSizeListArray.from_arrays(x.ravel(), 2)})
    scored = model.transform(table)
    assert (at_once, scored["score"].num_chunks) == ([13334, 13334, 13332], 1)
    np.testing.assert_allclose(np.stack(scored["score"].to_numpy()), np.maximum(x @ W, 0), rtol=1e-5)
    rows = [*x[:20_000].tolist(), None]
    with pytest.raises(INVALID, match="is null at row 20000 of its partition"):
        model.transform(pa.table({"x": pa.array(rows, pa.list_(pa.float32()))}))


def test_dask_tells_models_apart(export: str) -> None:
    """By what they read and compute, not by how their training went."""
    from dask.base import tokenize

    model = tf.local.load_model(export)
    assert tokenize(model) == tokenize(tf.local.load_model(export)) == tokenize(replace(model, figures={"loss": 1.0}))
    filled = tf.local.load_model(export, {"x": Column("x", default=0.5)})
    others = [filled, model.fetching({"other": "score"}), tf.local.load_model(export, {"x": "y"})]
    assert len({tokenize(one) for one in [model, *others]}) == 4


def test_dask_writes_predictions_that_are_lists(export: str, tmp_path: Path) -> None:
    """Parquet files ask for their type, also where a partition has no row; pandas reads them as they were."""
    import dask
    import dask.dataframe as dd

    frame = dd.from_pandas(TABLE.to_pandas(types_mapper=pd.ArrowDtype), npartitions=3)
    model = tf.dask.load_model(export)
    with dask.config.set(scheduler="synchronous"):
        scored = model.transform(frame[frame["id"] > 1], fetches={"score": "score", "said": "text", "x1": "product"})
        assert scored.dtypes["score"] == pd.ArrowDtype(pa.list_(pa.field("element", pa.float32())))
        scored.drop(columns="x").to_parquet(tmp_path / "out")
        back = dd.read_parquet(tmp_path / "out").compute()
    np.testing.assert_array_equal(np.stack(back["score"]), np.maximum(X @ W, 0)[2:])
    assert back["score"].dtype == scored.compute()["score"].dtype == object, "as of tf.local"


def test_a_frame_of_no_rows_gets_its_columns(export: str) -> None:
    frame = pd.DataFrame({"x": [[1.0, 2.0]]}).iloc[:0]
    assert list(tf.local.load_model(export).transform(frame).columns) == ["x", "score"]


def test_any_fetch_by_name(export: str) -> None:
    model = tf.local.load_model(export)
    scored = model.transform(TABLE, fetches={"product": "product:0", "score": "score", "said": "text"})
    assert scored.schema.names[3:] == ["product", "score", "said"]
    assert scored["said"].to_pylist()[0] == "0.5" and scored.schema.field("said").type == pa.string()
    np.testing.assert_array_equal(np.array(scored["product"].to_pylist(), np.float32), X @ W)
    assert model.transform(TABLE, fetches="product").schema.names[-1] == "product"
    for fetches, message in (
        ("alone", r"Prediction 'alone' must have one row an example, got shape \(\)\. Compute it of the features"),
        ("nothing", "The model has no tensor 'nothing:0' .* its predictions are score"),
        ([], "fetches is empty"),
        ([3], "fetches: expected names of predictions and tensors, got 3"),
        (tf.Graph().get_tensor_by_name, "fetches: expected names of predictions and tensors, got <bound"),
        ({"a": None}, "fetches: expected names of predictions and tensors, got None"),
    ):
        with pytest.raises(INVALID, match=message):
            model.transform(TABLE, fetches=fetches)  # type: ignore[arg-type]


def test_scoring_needs_no_training_code(export: str, tmp_path: Path) -> None:
    """What a task is sent, opened in a process that has never seen this module."""
    import cloudpickle

    (tmp_path / "model.pkl").write_bytes(cloudpickle.dumps(tf.local.load_model(export)))
    code = (
        "import pickle, pyarrow as pa\n"
        f"model = pickle.load(open({str(tmp_path / 'model.pkl')!r}, 'rb'))\n"
        "table = pa.table({'x': pa.array([[2.0, 2.0]], pa.list_(pa.float32()))})\n"
        "print(model.transform(table)['score'].to_pylist())"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ran.stdout.strip() == "[[3.0, 4.0, 4.0]]", ran.stderr


def test_a_table_that_does_not_match(export: str) -> None:
    model = tf.local.load_model(export)
    for table, message in (
        (TABLE.drop_columns(["x"]), "Column 'x' is missing; the table has 'id', 'note'"),
        (TABLE.append_column("score", TABLE["id"]), "The table already has a column 'score'"),
        (pa.table({"x": X.astype(np.float64).tolist()}), "'x' has type .*double.*, and the model reads float32"),
        (pa.table({"x": X[:, 0]}), "'x' has type float, which is one value a row, and its shape is"),
        (pa.table({"x": [[1.0, 2.0], [1.0]]}, schema=pa.schema([TABLE.schema.field(0)])),
         "'x' has 1 values at row 1 of its partition"),
        (pa.table({"x": [[1.0, 2.0], None]}, schema=pa.schema([TABLE.schema.field(0)])), "is null at row 1 of"),
    ):  # fmt: skip
        with pytest.raises(INVALID, match=message):
            model.transform(table)
    wide = pa.table({"wide": pa.array(X.astype(np.float64).tolist())})
    cast = tf.local.load_model(export, {"x": Column("wide", cast=tf.float32, shape=[2])})
    assert cast.transform(wide)["score"].to_pylist() == model.transform(TABLE)["score"].to_pylist()


def test_a_pandas_column_that_arrow_has_not(export: str) -> None:
    import pandas as pd

    frame = pd.DataFrame({name: np.zeros(2) for name in tf.local.load_model(export).columns.sources})
    name = frame.columns[0]
    frame[name] = frame[name].astype("Sparse[float32]")
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"Column '{name}' .*Cast it first"):
        tf.local.load_model(export).transform(frame)


def test_models_that_cannot_be_loaded(export: str, tmp_path: Path) -> None:
    prefix = os.path.join(os.path.dirname(export), "ckpt", "model-7")
    load = tf.local.load_model
    for call, error, message in (
        (lambda: load(str(tmp_path / "no")), tf.errors.NotFoundError, "is no SavedModel, and the graph"),
        (lambda: load(export, tags=["train"]), INVALID, r"no graph with the tags \['train'\]; .*'serve'"),
        (lambda: load(export, signature="other"), INVALID, "no signature 'other'; there is 'serving_default'"),
        (lambda: load(export, {"z": "x"}), INVALID, "The model has no input 'z'; it has 'x'"),
        (lambda: load(prefix, inputs={"x": "q:0"}, outputs={"y": "y:0"}), INVALID, "has no tensor 'q:0'"),
        (lambda: load(prefix), INVALID, "has no signature 'serving_default'; there is none"),
        (lambda: load(str(tmp_path)), tf.errors.NotFoundError, "holds neither a SavedModel nor a checkpoint"),
    ):  # fmt: skip
        with pytest.raises(error, match=message):
            call()
    model = load(export)
    for file in Path(export, "variables").iterdir():
        file.unlink()
    with pytest.raises(tf.errors.NotFoundError, match="does not exist on this task"):
        model.transform(TABLE)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.arange(4, dtype=np.uint8), pa.int16()),
        (np.arange(4, dtype=np.float16), pa.float32()),
        (np.array([True, False]), pa.bool_()),
        (np.array([b"a", "é".encode()], object), pa.string()),
        (np.zeros((2, 0)), pa.list_(pa.float64())),
        (np.arange(24).reshape(2, 3, 4), pa.list_(pa.list_(pa.int64()))),
        (np.arange(24).reshape(4, 6)[:, ::2], pa.list_(pa.int64())),
    ],
)  # fmt: skip
def test_predictions_as_columns(values: np.ndarray, expected: pa.DataType) -> None:
    kind = arrow_type("p", tf.as_dtype(values.dtype), values.shape[1:])
    assert kind == expected
    found = column("p", values, kind).to_pylist()
    assert found == [v.decode() for v in values] if values.dtype == object else found == values.tolist()


def test_predictions_share_memory() -> None:
    values = np.arange(6, dtype=np.float32).reshape(3, 2)
    kind = arrow_type("p", tf.float32, (2,))
    assert np.shares_memory(column("p", values, kind).values.to_numpy(), values)


def test_predictions_that_no_column_holds() -> None:
    with pytest.raises(INVALID, match="Prediction 'p' is complex64, which no column holds"):
        arrow_type("p", tf.complex64, ())
    with pytest.raises(INVALID, match="Prediction 'p' has bytes that are no UTF-8"):
        column("p", np.array([b"\xff"], object), pa.string())


# ---------------------------------------------------------------------- variables as tables


def test_a_variable_as_a_table_and_back(export: str, tmp_path: Path) -> None:
    prefix = os.path.join(os.path.dirname(export), "ckpt", "model-7")
    table = tf.local.variable_table(prefix, "w")
    assert table.to_pylist() == [{"row": i, "value": w} for i, w in enumerate(W.tolist())]
    changed = pa.table({"row": [1], "value": pa.array([[7, 8, 9]], pa.list_(pa.float32()))})
    warm = tf.local.write_variables(str(tmp_path / "warm" / "model"), {"w": changed}, base=prefix)
    assert tf.train.load_variable(warm, "w").tolist() == [W[0].tolist(), [7, 8, 9]]
    model = tf.local.load_model(export)
    assert tf.local.variable_table(model, "w").equals(table)
    warm = tf.local.write_variables(tmp_path / "again" / "model", {"w": changed}, base=model)
    assert tf.train.load_variable(warm, "w").tolist() == [W[0].tolist(), [7, 8, 9]]
    whole = tf.local.write_variables(str(tmp_path / "whole"), {"b": table.take([1, 0])})
    assert tf.train.load_variable(whole, "b").tolist() == W.tolist()
    with tf.Session(graph=tf.Graph()) as session, session.graph.as_default():
        _, _ = build()
        tf.train.init_from_checkpoint(warm, {"w": "w"})
        session.run(tf.global_variables_initializer())
        assert session.run("w:0")[1].tolist() == [7, 8, 9]


def test_tables_that_are_no_variables(export: str, tmp_path: Path) -> None:
    prefix, path = os.path.join(os.path.dirname(export), "ckpt", "model-7"), str(tmp_path / "out" / "x")

    def rows(ids: Any, values: Any) -> dict[str, pa.Table]:
        return {"w": pa.table({"row": pa.array(ids, pa.int64()), "value": pa.array(values)})}

    for tables, base, message in (
        (rows([0, 2], [1.0, 2.0]), None, "row 1 is missing. Give `base`"),
        (rows([0, 0], [1.0, 2.0]), None, "row 0 is there twice"),
        (rows([-1], [1.0]), None, "row -1 is negative"),
        (rows([None], [1.0]), None, "column 'row' has nulls"),
        (rows([0, 1], [[1.0], [1.0, 2.0]]), None, "its rows have 1 to 2 values"),
        (rows([0], [[1.0]]), prefix, r"rows of shape \[1\] up to row 0 .* has \[2, 3\]"),
        (rows([5], [[1.0, 2.0, 3.0]]), prefix, "up to row 5"),
        (rows([10**15], [[1.0, 2.0, 3.0]]), prefix, "up to row 1000000000000000"),
        (rows([0, 10**15], [1.0, 2.0]), None, "row 1 is missing"),
        (rows([0], [["a", "b", "c"]]), prefix, "'value' does not fit its dtype, float32"),
        (rows([], []), None, "row 0 is missing"),
        ({"w": pa.table({"row": ["1"], "value": [1.0]})}, None, "'row' has type string, expected whole numbers"),
        ({"w": pa.table({"row": [0.5], "value": [1.0]})}, None, "column 'row': Float value 0.5"),
        ({"w": pa.table({"row": [1]})}, None, "column 'value' is missing; the table has 'row'"),
        ({}, None, "no variable to write"),
    ):
        with pytest.raises(INVALID, match=message):
            tf.local.write_variables(path, tables, base)
    assert not (tmp_path / "out").exists()
    same = tf.local.write_variables(str(tmp_path / "same"), rows([], []), prefix)
    assert tf.train.load_variable(same, "w").tolist() == W.tolist()
    with pytest.raises(tf.errors.NotFoundError, match="has no variable 'z'; it has w"):
        tf.local.variable_table(prefix, "z")
    with pytest.raises(INVALID, match="Expected a model, a checkpoint's prefix or a folder of checkpoints, got int"):
        tf.local.variable_table(7, "w")
    (tmp_path / "file").write_text("")
    with pytest.raises(tf.errors.PermissionDeniedError, match="cannot be written"):
        tf.local.write_variables(str(tmp_path / "file" / "x"), rows([0], [1.0]))


def test_tables_in_other_forms_of_arrow(tmp_path: Path) -> None:
    """Categories as rows, views of lists as values, a variable called as a tensor."""
    path, rows = str(tmp_path / "x"), pa.array([1, 0]).dictionary_encode()
    for kind in (pa.list_view(pa.float32()), pa.large_list(pa.float32()), pa.list_(pa.float32(), 2)):
        table = pa.table({"row": rows, "value": pa.array([[1.0, 2.0], [3.0, 4.0]], kind)})
        found = tf.train.load_variable(tf.local.write_variables(path, {"w:0": table}), "w")
        assert found.tolist() == [[3, 4], [1, 2]] and found.dtype == np.float32


def test_a_checkpoint_is_not_replaced_by_a_part_of_itself(export: str) -> None:
    folder = os.path.join(os.path.dirname(export), "ckpt")
    before = tf.train.list_variables(folder)
    for base in (folder, os.path.join(folder, "model-7")):
        with pytest.raises(INVALID, match=r"model-7 is the checkpoint of `base`"):
            tf.local.write_variables(os.path.join(folder, "model-7"), {"w": tf.local.variable_table(base, "w")}, base)
    assert tf.train.list_variables(folder) == before


def test_a_variable_that_no_column_holds(tmp_path: Path) -> None:
    with tf.Session(graph=tf.Graph()) as session, session.graph.as_default():
        tf.Variable(np.array([1, 2**63], np.uint64), name="u")
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(session, str(tmp_path / "m"))
    with pytest.raises(INVALID, match="Variable 'u' is uint64, which no column holds"):
        tf.local.variable_table(path, "u")


def of_texts(folder: str, **column: Any) -> Any:
    """The length of a string."""
    with tf.Session(graph=tf.Graph()) as session, session.graph.as_default():
        x = tf.placeholder(tf.string, [None])
        tf.saved_model.simple_save(session, folder, {"x": x}, {"n": tf.strings.length(x)})
    return tf.local.load_model(folder, columns={"x": Column("x", **column)})


def test_a_partition_of_nothing_but_none(tmp_path: Path) -> None:
    """pandas' objects do not say then what they would be."""
    model = of_texts(str(tmp_path / "a"), default="four")
    frame = pd.DataFrame({"x": np.array([None, None], object)})
    assert model.transform(frame)["n"].tolist() == [4, 4]
    dd = pytest.importorskip("dask.dataframe")
    delayed, config = pytest.importorskip("dask").delayed, pytest.importorskip("dask").config
    frames = [pd.DataFrame({"x": np.array(["a", "bc"], object)}), frame]
    with config.set({"dataframe.convert-string": False, "scheduler": "threads"}):
        ddf = dd.from_delayed([delayed(lambda f=f: f)() for f in frames], meta=frames[0].iloc[:0])
        assert model.transform(ddf).compute()["n"].tolist() == [1, 2, 4, 4]
    with pytest.raises(INVALID, match=r"Column 'x' .* is null at row 0"):
        of_texts(str(tmp_path / "b")).transform(frame)


@pytest.mark.parametrize("order", [">", "<"])
def test_numbers_in_the_other_order_of_bytes(order: str, tmp_path: Path) -> None:
    """As files of other fields have them; pandas itself takes no column out of such a frame."""
    with tf.Session(graph=tf.Graph()) as session, session.graph.as_default():
        x, y = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.float32, [None])
        tf.saved_model.simple_save(session, str(tmp_path / "m"), {"x": x, "y": y}, {"z": tf.to_float(x) + y})
    model = tf.local.load_model(str(tmp_path / "m"))
    data = {"z0": np.arange(3, dtype=f"{order}i8"), "x": np.array([1, 2, 3], f"{order}i4")}
    frame = pd.DataFrame(data | {"y": np.array([0.5, 1, 2], f"{order}f4")})
    scored = model.transform(frame)
    assert scored["z"].tolist() == [1.5, 3, 5] and scored["x"].dtype == frame["x"].dtype
    dd = pytest.importorskip("dask.dataframe")
    assert model.transform(dd.from_pandas(frame, npartitions=1)).compute(scheduler="threads")["z"].tolist() == [
        1.5,
        3,
        5,
    ]


def test_an_object_that_is_too_large(tmp_path: Path) -> None:
    with pytest.raises(
        INVALID, match=r"Column 'x' \(object\) has values of several types, or of one that Arrow has not"
    ):
        of_texts(str(tmp_path / "a")).transform(pd.DataFrame({"x": pd.Series([2**70], dtype=object)}))


def test_what_is_no_table(export: str) -> None:
    model = tf.local.load_model(export)
    with pytest.raises(INVALID, match=r"Expected an Arrow table or a pandas DataFrame, got pandas\..*Series. pyarrow"):
        model.transform(pd.Series([1.0], name="x"))
    dd = pytest.importorskip("dask.dataframe")
    with pytest.raises(INVALID, match=r"Expected a Dask DataFrame, got .*Series"):
        model.transform(dd.from_pandas(pd.Series([1.0], name="x"), npartitions=1))
    spark_transform = pytest.importorskip("sparkflow_connectors.spark_transform")
    with pytest.raises(INVALID, match=r"Expected a Spark DataFrame, got builtins\.object"):
        spark_transform.transform(model, object())


@pytest.mark.parametrize("engine, kind", [("spark", "Spark"), ("dask", "Dask")])
def test_a_frame_of_another_kind(engine: str, kind: str, tmp_path: Path) -> None:
    pytest.importorskip({"spark": "pyspark", "dask": "dask.dataframe"}[engine])
    frame, module = pd.DataFrame({"row": [0], "value": [1.0]}), getattr(tf, engine)
    wrong = rf"Expected a {kind} DataFrame, got pandas.*DataFrame\. Pandas DataFrames .*become one by \w+\."
    with pytest.raises(INVALID, match=wrong):
        module.train(frame, None, label="value", features=["row"], checkpoint_dir=str(tmp_path / "t"))
    with pytest.raises(INVALID, match=wrong):
        module.write_variables(str(tmp_path / "w" / "v"), {"v": frame})
    assert not os.listdir(tmp_path)


def test_a_model_that_names_a_gpu_scores_where_there_is_none(tmp_path: Path) -> None:
    with tf.Graph().as_default() as graph, tf.device("/gpu:0"):
        x, y = build()
        with tf.Session(graph=graph, config=tf.ConfigProto(allow_soft_placement=True)) as session:
            session.run(tf.global_variables_initializer())
            tf.saved_model.simple_save(session, str(tmp_path), {"x": x}, {"score": y})
    scored = tf.local.load_model(str(tmp_path)).transform(TABLE)
    np.testing.assert_array_equal(np.array(scored["score"].to_pylist(), np.float32), np.maximum(X @ W, 0))
