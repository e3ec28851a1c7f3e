"""What TensorFlow saves is restored here, and the other way round; its SavedModels and their assets are loaded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tensorflow.compat.v1 as theirs

import sparkflow as ours
from sparkflow import cli
from sparkflow_runtime.wire import sorted_table, tensor_bundle
from tests.oracle.engines import OURS, THEIRS, Engine

FLOATS, COMPLEX = ["float16", "bfloat16", "float32", "float64"], ["complex64", "complex128"]
INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
TYPES = [*FLOATS, *INTEGERS, *COMPLEX, "bool"]


def model(tf: Any) -> dict[str, Any]:
    """Variables of all types and sorts; name in a checkpoint -> what makes its whole value."""
    start = np.random.default_rng(0).integers(0, 100, (3, 4))
    held = {name: tf.Variable(tf.cast(start, getattr(tf, name)), name=name) for name in TYPES}
    held["strings"] = tf.Variable([b"a", b"", b"x" * 300, b"\xff\1"], name="strings")
    held["scalar"] = tf.Variable(3.5, name="scalar")
    held["text"] = tf.Variable("one", name="text")
    held["empty"] = tf.Variable(tf.zeros([0, 3]), name="empty")
    for i in range(300):  # more than one block of the index
        held[f"many/{i}"] = tf.Variable(float(i), name=f"many/{i}")
    for rows in (10, 5000):
        partitioner = tf.fixed_size_partitioner(3)
        part = tf.get_variable(f"part{rows}", [rows, 4], partitioner=partitioner)
        held[f"part{rows}"] = tf.concat(list(part), 0)
    return held


def saved(engine: Engine, directory: Path, **options: Any) -> tuple[str, dict[str, np.ndarray]]:
    graph = engine.graph()
    with graph.as_default(), engine.session(graph) as session:
        held = model(engine.tf)
        session.run(engine.tf.global_variables_initializer())
        prefix = engine.tf.train.Saver(**options).save(session, str(directory / "m"), global_step=3)
        return prefix, {name: np.asarray(session.run(value)) for name, value in held.items()}


def restored(engine: Engine, prefix: str) -> dict[str, np.ndarray]:
    graph = engine.graph()
    with graph.as_default(), engine.session(graph) as session:
        held = model(engine.tf)
        engine.tf.train.Saver().restore(session, prefix)
        return {name: np.asarray(session.run(value)) for name, value in held.items()}


def same(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert found[name].dtype.name == value.dtype.name and found[name].tolist() == value.tolist(), name


@pytest.mark.parametrize("sharded", [False, True])
def test_theirs_is_restored(tmp_path: Path, sharded: bool) -> None:
    prefix, values = saved(THEIRS, tmp_path, sharded=sharded)
    assert ours.train.latest_checkpoint(str(tmp_path)) == prefix
    same(restored(OURS, prefix), values)
    assert ours.train.list_variables(prefix) == theirs.train.list_variables(prefix)
    reader = ours.train.load_checkpoint(str(tmp_path))
    same({name: np.asarray(reader.get_tensor(name), value.dtype) for name, value in values.items()}, values)


def test_ours_is_converted(tmp_path: Path) -> None:
    prefix, values = saved(OURS, tmp_path)
    out = str(tmp_path / "other" / "m")
    assert cli.main(["checkpoint", "convert", str(tmp_path), out, "--to", "tensorflow"]) == 0
    same(restored(THEIRS, out), values)
    same(restored(OURS, out), values)
    assert theirs.train.list_variables(out) == ours.train.list_variables(prefix)


def test_several_tasks_of_theirs(tmp_path: Path) -> None:
    """A data file for each of two devices."""
    graph, prefix = theirs.Graph(), str(tmp_path / "m")
    config = theirs.ConfigProto(device_count={"CPU": 2})
    server = theirs.train.Server.create_local_server(config=config)
    with graph.as_default(), theirs.Session(server.target) as session:
        for i in range(2):
            with theirs.device(f"/job:localhost/replica:0/task:0/device:CPU:{i}"):
                theirs.get_variable(f"w{i}", initializer=np.full(3, i, np.float32))
        session.run(theirs.global_variables_initializer())
        theirs.train.Saver(sharded=True).save(session, prefix)
    for i in range(2):
        np.testing.assert_array_equal(ours.train.load_variable(prefix, f"w{i}"), [i] * 3)


V1_TYPES = [t for t in [*TYPES, "string"] if t not in ("bfloat16", "uint32", "uint64")]  # which TensorFlow can save so


@pytest.mark.parametrize("sharded", [False, True])
def test_v1_is_restored(tmp_path: Path, sharded: bool) -> None:
    """Of all types, and partitioned variables in other parts."""
    graph, start = theirs.Graph(), np.array([[1, 0, 3], [0, 100, 7]])
    with graph.as_default(), theirs.Session(graph=graph) as session:
        for t in V1_TYPES:
            value = theirs.as_string(start) if t == "string" else theirs.cast(start, getattr(theirs, t))
            theirs.Variable(-value if t.startswith(("int", "float", "complex")) else value, name=t)
        for axis in (0, 1):
            theirs.get_variable(f"part{axis}", [6, 8], partitioner=theirs.fixed_size_partitioner(4 - axis, axis))
        theirs.Variable(np.zeros((0, 3), np.float32), name="empty")
        theirs.Variable(2.5, name="scalar")
        for i in range(300):
            theirs.Variable(np.full(50, i, np.float32), name=f"many/{i}")
        session.run(theirs.global_variables_initializer())
        saver = theirs.train.Saver(write_version=theirs.train.SaverDef.V1, sharded=sharded)
        prefix = saver.save(session, str(tmp_path / "m"))
        held = {v.op.name: v for v in theirs.global_variables() if not v.op.name.startswith("part")}
        held |= {f"part{i}": theirs.concat(theirs.global_variables(f"part{i}"), i) for i in (0, 1)}
        wanted = {name: np.asarray(value) for name, value in session.run(held).items()}
    assert ours.train.latest_checkpoint(str(tmp_path)) == prefix
    assert ours.train.list_variables(prefix) == theirs.train.list_variables(prefix)
    found = ours.train.load_checkpoint(prefix)
    same({name: np.asarray(found.get_tensor(name), value.dtype) for name, value in wanted.items()}, wanted)
    with ours.Graph().as_default(), ours.Session() as session:
        parts = [ours.get_variable(f"part{i}", [6, 8], partitioner=ours.fixed_size_partitioner(3 - i)) for i in (0, 1)]
        ours.train.Saver().restore(session, prefix)
        for i, part in enumerate(parts):
            np.testing.assert_array_equal(session.run(ours.convert_to_tensor(part)), wanted[f"part{i}"])


@pytest.mark.parametrize("extents", [[(0, 2), (0, -1)], [(3, 63), (64, 8191)], [(8192, 1 << 20), (1 << 40, 1)]])
def test_the_key_of_a_slice(tmp_path: Path, extents: list[tuple[int, int]]) -> None:
    """As TensorFlow's own index has it."""
    shape = [begin + max(count, 0) + 1 for begin, count in extents]
    spec = " ".join(map(str, shape)) + " " + ":".join("-" if n < 0 else f"{b},{n}" for b, n in extents)
    value = np.zeros([n if n > 0 else d for (_, n), d in zip(extents, shape)], np.int8)
    graph, prefix = theirs.Graph(), str(tmp_path / "m")
    with graph.as_default(), theirs.Session(graph=graph) as session:
        session.run(theirs.raw_ops.SaveV2(prefix=prefix, tensor_names=["p"], shape_and_slices=[spec], tensors=[value]))
    rows = dict(sorted_table.entries(Path(prefix + ".index").read_bytes()))
    assert tensor_bundle.slice_key("p", extents) in rows


@pytest.fixture(params=["references", "resources"])
def exported(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[str, np.ndarray]]:
    """A SavedModel of theirs with a vocabulary among its assets, a table and a partitioned variable; its answer."""
    if request.param == "resources":
        theirs.enable_resource_variables()
    yield export(tmp_path)
    theirs.disable_resource_variables()


def export(directory: Path) -> tuple[str, np.ndarray]:
    (directory / "words.txt").write_text("a\nb\nc\n")
    graph, folder = theirs.Graph(), str(directory / "model")
    with graph.as_default(), theirs.Session(graph=graph) as session:
        theirs.set_random_seed(7)
        x = theirs.placeholder(theirs.float32, [None, 3], "x")
        word = theirs.placeholder(theirs.string, [None], "word")
        vocabulary = theirs.constant(str(directory / "words.txt"))
        theirs.add_to_collection(theirs.GraphKeys.ASSET_FILEPATHS, vocabulary)
        index = theirs.lookup.TextFileIndex
        rows = theirs.lookup.TextFileInitializer(
            vocabulary, theirs.string, index.WHOLE_LINE, theirs.int64, index.LINE_NUMBER
        )
        ids = theirs.lookup.StaticHashTable(rows, 0).lookup(word)
        w = theirs.get_variable("w", [3, 2])
        table = theirs.get_variable("table", [10, 2], partitioner=theirs.fixed_size_partitioner(2))
        y = theirs.identity(theirs.matmul(x, w) + theirs.nn.embedding_lookup(table, ids), "y")
        session.run([theirs.global_variables_initializer(), theirs.tables_initializer()])
        builder = theirs.saved_model.Builder(folder)
        builder.add_meta_graph_and_variables(
            session,
            ["serve"],
            {"serving_default": theirs.saved_model.predict_signature_def({"x": x, "word": word}, {"y": y})},
            assets_collection=theirs.get_collection(theirs.GraphKeys.ASSET_FILEPATHS),
            main_op=theirs.tables_initializer(),
        )
        builder.save()
        answer = session.run(y, {x: np.arange(6).reshape(2, 3), word: ["c", "b"]})
    (directory / "words.txt").unlink()
    return folder, answer


def scored_alike(found: np.ndarray, wanted: np.ndarray) -> None:
    """Up to the rounding of terms as large as 5, whose sum may come near 0."""
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=2e-6)


def test_their_saved_model(exported: tuple[str, np.ndarray]) -> None:
    folder, answer = exported
    x, words = np.arange(6, dtype=np.float32).reshape(2, 3), ["c", "b"]
    with ours.Graph().as_default(), ours.Session() as session:
        ours.saved_model.loader.load(session, ["serve"], folder)
        scored_alike(session.run("y:0", {"x:0": x, "word:0": words}), answer)


def test_their_saved_model_scores_tables(exported: tuple[str, np.ndarray]) -> None:
    folder, answer = exported
    x = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(6, dtype=np.float32)), 3)
    scored = ours.local.load_model(folder).transform(pa.table({"x": x, "word": ["c", "b"]}))
    scored_alike(np.stack(scored["y"].to_pylist()), answer)


def test_an_estimator_begins_from_theirs(tmp_path: Path) -> None:
    graph = theirs.Graph()
    with graph.as_default(), theirs.Session(graph=graph) as session:
        theirs.get_variable("w", initializer=np.full(3, 5, np.float32))
        session.run(theirs.global_variables_initializer())
        theirs.train.Saver().save(session, str(tmp_path / "theirs" / "m"))

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        w = ours.get_variable("w", [3])
        step = ours.train.get_global_step().assign_add(1).op
        return ours.estimator.EstimatorSpec(mode, loss=ours.reduce_sum(w), train_op=step)

    estimator = ours.estimator.Estimator(model_fn, str(tmp_path / "ours"), warm_start_from=str(tmp_path / "theirs"))
    estimator.train(lambda: ours.data.Dataset.from_tensors(({"x": [1.0]}, [1.0])).repeat(), steps=1)
    np.testing.assert_array_equal(estimator.get_variable_value("w"), [5] * 3)


@pytest.mark.parametrize("optimizer", ["GradientDescent", "Momentum", "Adam", "Adagrad", "RMSProp", "Ftrl"])
def test_their_training_goes_on(tmp_path: Path, optimizer: str) -> None:
    """A graph with variables as resources, its gradients and updates among it, continues as it would there."""
    theirs.enable_resource_variables()
    try:
        graph, prefix = theirs.Graph(), str(tmp_path / "m")
        with graph.as_default(), theirs.Session(graph=graph) as session:
            w = theirs.get_variable("w", initializer=np.arange(12, dtype=np.float32).reshape(4, 3))
            v = theirs.get_variable("v", initializer=np.ones((3, 1), np.float32))
            step = theirs.train.get_or_create_global_step()
            loss = theirs.reduce_mean(theirs.matmul(theirs.nn.embedding_lookup(w, [0, 2, 2]), v) ** 2)
            arguments = (0.01, 0.9) if optimizer == "Momentum" else (0.01,)
            getattr(theirs.train, f"{optimizer}Optimizer")(*arguments).minimize(loss, step, name="train")
            session.run(theirs.global_variables_initializer())
            session.run("train")
            theirs.train.Saver().save(session, prefix)
            session.run("train")
            values = session.run([w, v, step])
    finally:
        theirs.disable_resource_variables()
    with ours.Graph().as_default() as graph, ours.Session() as session:
        ours.train.import_meta_graph(prefix + ".meta").restore(session, prefix)
        session.run("train")
        assert [v.op.name for v in ours.trainable_variables()] == ["w", "v"]
        for found, value in zip(session.run(["w:0", "v:0", "global_step:0"]), values):
            np.testing.assert_allclose(found, value, 1e-5)


def objects(tf: Any, prefix: str) -> tuple[Any, list[Any]]:
    """A Checkpoint of a trained model, whose variables are called after prefix, and what it keeps."""
    v = tf.get_variable(f"{prefix}v", initializer=[1.0, 2.0], use_resource=False)
    w = tf.get_variable(f"{prefix}w", initializer=3.0, use_resource=False)
    step = tf.get_variable(f"{prefix}step", initializer=np.int64(0), trainable=False, use_resource=False)
    optimizer = tf.train.AdamOptimizer(0.1)
    train = optimizer.minimize(tf.reduce_sum(v * v * w), step)
    slots = [optimizer.get_slot(var, name) for var in (v, w) for name in ("m", "v")]
    root = tf.train.Checkpoint(optimizer=optimizer, many=[w, {"x.y/z": v}], step=step)
    return root, [train, [v, w, step, *slots, *optimizer._get_beta_accumulators()]]


@pytest.mark.parametrize("there_and_here", [(THEIRS, OURS), (OURS, THEIRS)], ids=["theirs", "ours"])
def test_checkpoints_of_objects(tmp_path: Path, there_and_here: tuple[Engine, Engine]) -> None:
    """Written by one and read by the other, under other names in the graph; ours by way of the converter."""
    one, other = there_and_here
    graph = one.graph()
    with graph.as_default(), one.session(graph) as session:
        root, (train, held) = objects(one.tf, "a")
        session.run(one.tf.global_variables_initializer())
        for _ in range(3):
            session.run(train)
        path, wanted = root.save(str(tmp_path / "c"), session=session), session.run(held)
    if one is OURS:
        cli.main(["checkpoint", "convert", path, str(tmp_path / "converted"), "--to", "tensorflow"])
        path = str(tmp_path / "converted")
    graph = other.graph()
    with graph.as_default(), other.session(graph) as session:
        root, (train, held) = objects(other.tf, "b")
        root.restore(path).assert_consumed().run_restore_ops(session)
        for found, value in zip(session.run(held), wanted):
            np.testing.assert_array_equal(found, value)
        session.run(train)
        with pytest.raises(AssertionError):
            other.tf.train.Checkpoint(many=root.many).restore(path).assert_consumed()


def test_savers_restore_their_objects(tmp_path: Path) -> None:
    """As TensorFlow's do: by the names that variables had, optimizers' slots among them."""
    graph = theirs.Graph()
    with graph.as_default(), theirs.Session(graph=graph) as session:
        root, (train, held) = objects(theirs, "a")
        session.run(theirs.global_variables_initializer())
        session.run(train)
        path, wanted = root.save(str(tmp_path / "c"), session=session), session.run(held)
    with ours.Graph().as_default(), ours.Session() as session:
        _, (_, held) = objects(ours, "a")
        ours.train.Saver().restore(session, path)
        for found, value in zip(session.run(held), wanted):
            np.testing.assert_array_equal(found, value)
