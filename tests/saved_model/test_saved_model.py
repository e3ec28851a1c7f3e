"""SavedModels, MetaGraphs read back, Supervisor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sparkflow as tf

X = np.arange(6.0).reshape(2, 3)


def _model() -> tuple[Any, Any]:
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    w = tf.get_variable("w", [3, 2], initializer=tf.ones_initializer())
    return x, tf.matmul(x, w, name="y")


def test_simple_save_and_load(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x, y = _model()
        session.run(tf.global_variables_initializer())
        session.run(tf.assign(tf.global_variables()[0], np.full((3, 2), 2.0)))
        tf.saved_model.simple_save(session, str(tmp_path / "model"), {"x": x}, {"y": y})
    assert tf.saved_model.loader.maybe_saved_model_directory(str(tmp_path / "model"))
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        meta = tf.saved_model.loader.load(session, [tf.saved_model.tag_constants.SERVING], str(tmp_path / "model"))
        signature = meta.signature_def[tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY]
        assert tf.saved_model.signature_def_utils.is_valid_signature(signature)
        y = tf.saved_model.utils.get_tensor_from_tensor_info(signature.outputs["y"])
        np.testing.assert_allclose(session.run(y, {signature.inputs["x"].name: X}), X @ np.full((3, 2), 2.0))
        assert [v.name for v in tf.trainable_variables()] == ["w:0"]


def test_in_a_scope_and_as_text(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x, y = _model()
        session.run(tf.global_variables_initializer())
        builder = tf.saved_model.builder.SavedModelBuilder(str(tmp_path / "model"))
        signature = tf.saved_model.signature_def_utils.predict_signature_def({"x": x}, {"y": y})
        builder.add_meta_graph_and_variables(session, ["a", "b"], {"s": signature})
        builder.save(as_text=True)
        with pytest.raises(AssertionError, match="already been saved"):
            builder.add_meta_graph_and_variables(session, ["c"])
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        tf.saved_model.loader.load(session, ["b", "a"], str(tmp_path / "model"), import_scope="in")
        np.testing.assert_allclose(session.run("in/y:0", {"in/x:0": X}), X @ np.ones((3, 2)))
        with pytest.raises(RuntimeError, match="tags"):
            tf.saved_model.loader.load(session, ["a"], str(tmp_path / "model"))


def test_what_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").write_bytes(b"\xff\xff")
    with pytest.raises(OSError, match="Cannot parse"):
        tf.saved_model.loader.parse_saved_model(str(tmp_path))
    with pytest.raises(OSError, match="does not exist"):
        tf.saved_model.loader.parse_saved_model(str(tmp_path / "nowhere"))
    with pytest.raises(AssertionError, match="empty"):
        tf.saved_model.builder.SavedModelBuilder(str(tmp_path))


def test_a_meta_graph_goes_on_training(tmp_path: Path) -> None:
    prefix = str(tmp_path / "model.ckpt")
    with tf.Graph().as_default(), tf.Session() as session:
        x, y = _model()
        loss = tf.reduce_mean(tf.square(y), name="loss")
        step = tf.train.get_or_create_global_step()
        train = tf.train.AdamOptimizer(0.1).minimize(loss, step)
        tf.add_to_collection("train", train)
        session.run(tf.global_variables_initializer())
        session.run(train, {x: X})
        path = tf.train.Saver().save(session, prefix)
        wanted = [session.run(loss, {x: X})]
        session.run(train, {x: X})
        wanted.append(session.run(loss, {x: X}))
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        saver = tf.train.import_meta_graph(path + ".meta", clear_devices=True)
        saver.restore(session, path)
        assert [v.op.name for v in tf.trainable_variables()] == ["w"]
        (train,) = tf.get_collection("train")
        found = [session.run("loss:0", {"x:0": X})]
        session.run(train, {"x:0": X})
        found.append(session.run("loss:0", {"x:0": X}))
    assert found == wanted


def test_an_imported_saver_is_the_one_that_wrote(tmp_path: Path) -> None:
    """Its names in the checkpoint and the variables it leaves out are its own, wherever its graph is imported."""
    prefix = str(tmp_path / "part.ckpt")
    with tf.Graph().as_default(), tf.Session() as session:
        kept, other = tf.Variable([2.0], name="kept"), tf.Variable([3.0], name="other")
        session.run([kept.initializer, other.initializer])
        tf.train.Saver({"by_another_name": kept}, max_to_keep=7).save(session, prefix)
    for scopes in ([""], ["a/b"], ["twice", "twice"]):
        with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
            for scope in scopes:
                saver = tf.train.import_meta_graph(prefix + ".meta", import_scope=scope)
                saver.restore(session, prefix)
            assert len(tf.global_variables()) == 2 * len(scopes)
            assert list(session.run(tf.report_uninitialized_variables())) == [
                v.op.name.encode() for v in tf.global_variables() if "other" in v.op.name
            ]
            assert session.run([v for v in tf.global_variables() if "kept" in v.op.name]) == [[2.0]] * len(scopes)
            assert saver.as_saver_def().max_to_keep == 7
            again = saver.save(session, str(tmp_path / "again.ckpt"))
            assert tf.train.list_variables(again) == [("by_another_name", [1])]


def test_meta_graph_refusals(tmp_path: Path, graph: Any) -> None:
    with pytest.raises(OSError, match=r"no\.meta"):
        tf.train.import_meta_graph(str(tmp_path / "no.meta"))
    (tmp_path / "bad.meta").write_bytes(b"\xff\xfe\xfd")
    with pytest.raises(tf.errors.DataLossError, match=r"bad\.meta"):
        tf.train.import_meta_graph(str(tmp_path / "bad.meta"))
    path = tf.train.write_graph(tf.constant(1).graph, str(tmp_path / "g"), "graph.pbtxt")
    assert 'op: "Const"' in Path(path).read_text()


def test_supervisor(tmp_path: Path) -> None:
    def build() -> Any:
        step = tf.train.get_or_create_global_step()
        tf.summary.scalar("step", step)
        return tf.assign_add(step, 1)

    for wanted in (5, 8):  # the second one goes on from the checkpoint
        with tf.Graph().as_default():
            train = build()
            supervisor = tf.train.Supervisor(logdir=str(tmp_path), save_model_secs=0, save_summaries_secs=0)
            with supervisor.managed_session() as session:
                while not supervisor.should_stop() and session.run(train) < wanted:
                    pass
                supervisor.summary_computed(session, session.run(supervisor.summary_op))
                supervisor.saver.save(session, supervisor.save_path, global_step=supervisor.global_step)
                assert session.run(supervisor.global_step) == wanted
    assert (tmp_path / "model.ckpt-8.index").exists() or list(tmp_path.glob("model.ckpt-8*"))


def test_supervisor_raises_what_its_threads_raise(tmp_path: Path) -> None:
    with tf.Graph().as_default():
        tf.train.get_or_create_global_step()
        supervisor = tf.train.Supervisor()
        with pytest.raises(ValueError, match="mine"), supervisor.managed_session():
            raise ValueError("mine")


def _words_model(path: Path) -> None:
    table = tf.contrib.lookup.index_table_from_file(str(path), num_oov_buckets=1)
    tf.identity(table.lookup(tf.placeholder(tf.string, [None], name="x")), name="y")


def test_a_vocabulary_moves_with_the_model(tmp_path: Path) -> None:
    first, second = tmp_path / "a" / "words.txt", tmp_path / "b" / "words.txt"
    for path, words in ((first, "x\ny\n"), (second, "q\nz\n")):
        path.parent.mkdir()
        path.write_text(words)
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        _words_model(first)
        other = tf.constant(str(second), name="other")
        files = [*tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS), other]
        builder = tf.saved_model.Builder(str(tmp_path / "model"))
        start = tf.group(tf.tables_initializer(), tf.identity(tf.read_file(other), name="read"))
        builder.add_meta_graph_and_variables(session, ["serve"], None, files, main_op=start)
        builder.save()
    first.unlink(), second.unlink()
    moved = (tmp_path / "model").rename(tmp_path / "moved")
    assert (moved / "assets" / "words.txt").read_text() == "x\ny\n"
    assert (moved / "assets" / "words.txt_1").read_text() == "q\nz\n"
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        meta = tf.saved_model.loader.load(session, ["serve"], str(moved), import_scope="in")
        assert session.run("in/y:0", {"in/x:0": ["y", "x", "?"]}).tolist() == [1, 0, 2]
        assert [a.filename for a in meta.asset_file_def] == ["words.txt", "words.txt_1"]
    model = tf.local.load_model(str(moved), inputs={"x": "x:0"}, outputs={"y": "y:0"})
    assert model.transform(pa.table({"x": ["y", "x", "?"]}))["y"].to_pylist() == [1, 0, 2]


def test_the_weights_of_a_model_with_a_partitioned_variable(tmp_path: Path) -> None:
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        x = tf.placeholder(tf.int32, [None], "x")
        table = tf.get_variable("table", [10, 2], partitioner=tf.fixed_size_partitioner(3))
        y = tf.nn.embedding_lookup(table, x, partition_strategy="div")
        session.run(tf.global_variables_initializer())
        tf.saved_model.simple_save(session, str(tmp_path / "model"), {"x": x}, {"y": y})
        rows = session.run(y, {x: range(10)})
    model = tf.local.load_model(str(tmp_path / "model"))
    assert list(model.variables()) == ["table"]
    np.testing.assert_array_equal(model.variables()["table"], rows)


def test_an_asset_that_is_not_there(tmp_path: Path) -> None:
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        builder = tf.saved_model.Builder(str(tmp_path / "model"))
        with pytest.raises(tf.errors.NotFoundError, match="nobody"):
            builder.add_meta_graph_and_variables(session, ["serve"], None, [tf.constant("nobody.txt")])
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        builder = tf.saved_model.Builder(str(tmp_path / "other"))
        with pytest.raises(ValueError, match="must be a constant"):
            builder.add_meta_graph_and_variables(session, ["serve"], None, [tf.placeholder(tf.string)])


def test_main_op_starts_all(tmp_path: Path) -> None:
    """As TensorFlow's: variables begin anew when the model is loaded, and tables are filled."""
    saved = tf.saved_model
    with tf.Graph().as_default(), tf.Session() as session:
        v, local = tf.Variable(1.0, name="v"), tf.local_variables_initializer
        tf.Variable(2.0, name="local", collections=[tf.GraphKeys.LOCAL_VARIABLES])
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a"], [7]), -1)
        tf.identity(table.lookup(tf.constant("a")), name="found")
        session.run([tf.global_variables_initializer(), local(), v.assign(5.0)])
        builder = saved.builder.SavedModelBuilder(str(tmp_path / "model"))
        builder.add_meta_graph_and_variables(session, ["serve"], main_op=saved.main_op.main_op())
        builder.save()
    with tf.Graph().as_default(), tf.Session() as session:
        saved.loader.load(session, ["serve"], str(tmp_path / "model"))
        assert session.run(["v:0", "local:0", "found:0"]) == [1, 2, 7]


def test_what_a_builder_refuses(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None], name="x")
        signature = tf.saved_model.predict_signature_def({"x": x}, {"y": x + 1.0})
        untyped = tf.saved_model.predict_signature_def({"x": x}, {"y": x})
        untyped.inputs["x"].dtype = 0
        for i, (error, said, given) in enumerate([
            (TypeError, "to be an Operation", {"main_op": 3}),
            (KeyError, "is reserved", {"signature_def_map": {"__saved_model_init_op": signature}}),
            (AssertionError, "dtype fields set", {"signature_def_map": {"serve": untyped}}),
        ]):  # fmt: skip
            with pytest.raises(error, match=said):
                tf.saved_model.Builder(str(tmp_path / str(i))).add_meta_graph_and_variables(session, ["serve"], **given)


def test_signatures_of_other_types_are_refused(graph: tf.Graph) -> None:
    text, number = tf.constant(["a"]), tf.constant([1.0])
    of = tf.saved_model
    for made, given, said in [
        (of.regression_signature_def, (number, number), "Regression input tensors must be of type string"),
        (of.regression_signature_def, (text, tf.constant([1])), "Regression output tensors must be of type float32"),
        (of.classification_signature_def, (number, text, number), "Classification input"),
        (of.classification_signature_def, (text, number, number), "Classification classes"),
        (of.classification_signature_def, (text, text, text), "Classification scores"),
    ]:
        with pytest.raises(ValueError, match=said):
            made(*given)


def test_method_names_are_replaced(tmp_path: Path) -> None:
    path = str(tmp_path / "model")
    with tf.Graph().as_default(), tf.Session() as session:
        x, y = _model()
        session.run(tf.global_variables_initializer())
        tf.saved_model.simple_save(session, path, {"x": x}, {"y": y})
    updater = tf.saved_model.signature_def_utils.MethodNameUpdater(path)
    with pytest.raises(
        ValueError, match=r"does not have a signature_def with key: 'other'; it has \['serving_default'\]"
    ):
        updater.replace_method_name("other", "my/method", tags="serve")
    with pytest.raises(ValueError, match=r"could not be found in SavedModel; there are \[\['serve'\]\]"):
        updater.replace_method_name("serving_default", "my/method", tags=["train"])
    updater.replace_method_name("serving_default", "my/method", tags=["serve"])
    updater.save()
    with tf.Graph().as_default(), tf.Session() as session:
        meta = tf.saved_model.loader.load(session, ["serve"], path)
        assert meta.signature_def["serving_default"].method_name == "my/method"
        assert session.run("y:0", {"x:0": X}).shape == (2, 2)
