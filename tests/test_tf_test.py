"""tf.test.TestCase and numeric gradients, and the small names of tf."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf


class Case(tf.test.TestCase):
    def runTest(self) -> None:
        pass


@pytest.fixture
def case() -> Any:
    made = Case()
    made.setUp()
    yield made
    made.tearDown()


class Bare(tf.test.TestCase):
    def setUp(self) -> None:
        """All its own."""

    def runTest(self) -> None:
        self.assertDeviceEqual("/job:ps/cpu:0", "/job:ps/device:CPU:0")
        self.assertItemsEqual([2, 1], [1, 2])
        with self.cached_session():
            self.assertEqual(self.evaluate(tf.constant(1)), 1)


class InAGraphOfItsOwn(tf.test.TestCase):
    def runTest(self) -> None:
        """As a decorator of tests does, that runs one first eagerly and then again."""
        with self.cached_session() as before:
            assert self.evaluate(tf.constant(1)) == 1
        self.tearDown()
        outside = tf.Graph()
        with outside.as_default():
            self.setUp()
            made = tf.constant(2)
            with self.test_session() as after:
                assert after is not before and self.evaluate(made) == 2
            assert made.graph is tf.get_default_graph() is not outside
        assert tf.get_default_graph() is made.graph


def test_a_test_is_begun_again_in_a_graph() -> None:
    found = InAGraphOfItsOwn().run()
    assert found is not None and found.wasSuccessful(), found


def test_a_set_up_of_ones_own() -> None:
    found = Bare().run()
    assert found is not None and found.wasSuccessful()


def test_sessions_and_comparisons(case: Any) -> None:
    with case.session() as session:
        assert tf.get_default_session() is session
        case.assertAllEqual(tf.constant([1, 2]).eval(), [1, 2])
        case.assertAllClose({"a": tf.constant(1.0), "b": [np.ones(2), np.ones(3)]}, {"a": 1, "b": [[1, 1], [1] * 3]})
    with case.cached_session() as one, case.cached_session() as other:
        assert one is other
    with case.test_session() as one, case.test_session() as other, case.test_session(graph=tf.Graph()) as own:
        assert one is other and own is not one
    case.assertAllClose(case.evaluate(tf.constant(2.0)), 2.0000001)
    case.assertAllCloseAccordingToType(np.float16([1.0]), [1.0005])
    case.assertAllInRange([1, 2], 1, 2)
    case.assertShapeEqual(np.zeros((2, 3)), tf.zeros([2, 3]))
    for call in (
        lambda: case.assertAllClose([1.0], [1.1]),
        lambda: case.assertAllClose([1.0], [1.0, 1.0]),
        lambda: case.assertAllEqual([1], [2]),
        lambda: case.assertNotAllClose([1.0], [1.0]),
        lambda: case.assertAllGreater([1, 5], 2),
        lambda: case.assertNear(1.0, 1.2, 0.1),
        lambda: case.assertProtoEquals("name: 'a'", tf.NodeDef(name="b")),
    ):
        with pytest.raises(AssertionError):
            call()


def test_errors_are_expected(case: Any) -> None:
    with case.session(), case.assertRaisesOpError("must feed"):
        tf.placeholder(tf.float32, [], name="p").eval()
    with case.assertRaisesWithPredicateMatch(ValueError, lambda e: "x" in str(e)):
        raise ValueError("x")
    with pytest.raises(AssertionError, match="not raised"), case.assertRaisesOpError("x"):
        pass
    assert Path(case.get_temp_dir()).is_dir()


def test_gradients_by_differences(graph: Any) -> None:
    x, w = tf.constant(np.ones((2, 3))), tf.constant(np.full((3, 2), 2.0))
    y = tf.matmul(x, w) ** 2
    with tf.Session():
        assert tf.test.compute_gradient_error(x, [2, 3], y, [2, 2]) < 1e-6
        found = tf.test.compute_gradient([x, w], [[2, 3], [3, 2]], y, [2, 2], [np.ones((2, 3)), np.ones((3, 2))])
        assert [a.shape for pair in found for a in pair] == [(6, 4)] * 4
        wrong = tf.stop_gradient(y) * x[0, 0]
        assert tf.test.compute_gradient_error(x, [2, 3], wrong, [2, 2], np.ones((2, 3))) > 1
    with pytest.raises(ValueError, match="default session"):
        tf.test.compute_gradient_error(x, [2, 3], y, [2, 2])


def test_small_names(graph: Any) -> None:
    assert tf.compat.as_text(b"x") == tf.compat.as_str("x") == "x" and tf.compat.as_bytes("x") == b"x"
    with pytest.raises(TypeError):
        tf.compat.as_bytes(3)
    assert tf.dimension_value(tf.TensorShape([3])[0]) == 3 and tf.errors.NOT_FOUND == 5
    assert tf.errors.exception_type_from_error_code(5) is tf.errors.NotFoundError
    proto = tf.make_tensor_proto([[1, 2]], tf.float32)
    np.testing.assert_array_equal(tf.make_ndarray(proto), [[1, 2]])
    with pytest.raises(ValueError, match="shape"):
        tf.make_tensor_proto([1, 2], shape=[3])
    sparse = tf.SparseTensorValue([[0]], [1.0], [2])
    assert isinstance(tf.convert_to_tensor_or_sparse_tensor(sparse), tf.SparseTensor)
    with tf.control_dependencies([tf.no_op()]), tf.init_scope():
        assert tf.constant(1).op.control_inputs == []

    class Celsius:
        degrees = 3.0

    tf.register_tensor_conversion_function(
        Celsius, lambda v, dtype=None, name=None, as_ref=False: tf.constant(v.degrees)
    )
    with tf.Session() as session:
        assert session.run(tf.add(Celsius(), 1.0)) == 4
    with tf.op_scope([], None, "old") as name, tf.variable_op_scope([], None, "vars") as scope:
        assert name == "old/" and scope.name == "vars"


def test_queue_runners_travel_in_meta_graphs(tmp_path: Path) -> None:
    path = str(tmp_path / "graph.meta")
    with tf.Graph().as_default():
        numbers = tf.train.range_input_producer(3, num_epochs=1, shuffle=False)
        tf.identity(numbers.dequeue(), name="number")
        tf.train.export_meta_graph(path)
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.train.import_meta_graph(path)
        runners = graph.get_collection(tf.GraphKeys.QUEUE_RUNNERS)
        assert [len(r.enqueue_ops) for r in runners] == [1] and runners[0].to_proto("else") is None
        session.run(tf.local_variables_initializer())
        threads = tf.train.start_queue_runners(session, coord := tf.train.Coordinator())
        found = []
        with pytest.raises(tf.errors.OutOfRangeError):
            while True:
                found.append(session.run("number:0"))
        coord.request_stop()
        coord.join(threads)
        assert found == [0, 1, 2]


def test_a_checkpoint_is_read_and_taken_over(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        tf.get_variable("old/a", initializer=[1.0, 2.0])
        tf.get_variable("old/b", initializer=3)
        session.run(tf.global_variables_initializer())
        tf.train.Saver().save(session, str(tmp_path / "model"))
    reader = tf.train.load_checkpoint(str(tmp_path))
    assert reader.get_variable_to_shape_map() == {"old/a": [2], "old/b": []} and reader.has_tensor("old/a")
    assert reader.get_variable_to_dtype_map()["old/b"] == tf.int32 and reader.get_tensor("old/b") == 3
    assert b"old/a (float32) [2]" in tf.train.NewCheckpointReader(str(tmp_path / "model")).debug_string()
    with tf.Graph().as_default(), tf.Session() as session:
        a, b = tf.get_variable("new/a", [2]), tf.get_variable("new/b", [], tf.int32)
        c = tf.get_variable("c", [2], partitioner=tf.fixed_size_partitioner(2))
        tf.train.init_from_checkpoint(str(tmp_path), {"old/": "new/"})
        tf.train.init_from_checkpoint(str(tmp_path), {"old/a": c})
        session.run(tf.global_variables_initializer())
        assert [v.tolist() for v in session.run([a, b, c.as_tensor()])] == [[1, 2], 3, [1, 2]]
        for wrong, message in (
            ({"old/a": b}, "doesn't match"),
            ({"x": a}, "not found"),
            ({"old/": "c"}, "scope|found"),
        ):
            with pytest.raises(ValueError, match=message):
                tf.train.init_from_checkpoint(str(tmp_path), wrong)
    with pytest.raises(tf.errors.NotFoundError):
        tf.train.load_checkpoint(str(tmp_path / "other"))


def test_a_case_has_what_absls_has(case: Any) -> None:
    case.assertLen([1, 2], 2)
    case.assertEmpty(())
    case.assertSameElements([1, 2, 2], [2, 1])
    case.assertContainsSubset({1}, {1, 2})
    case.assertBetween(1, 0, 2)
    with pytest.raises(AssertionError):
        case.assertNotEmpty([])


class Timed(tf.test.Benchmark):
    def benchmark_sum(self) -> None:
        with tf.Graph().as_default(), tf.Session() as session:
            x = tf.placeholder(tf.float32, [4])
            feeds, extras = {x: np.ones(4, np.float32)}, {"rows": 4}
            self.run_op_benchmark(session, tf.reduce_sum(x), feeds, min_iters=3, extras=extras, mbs=1.0)


def test_benchmarks_report_what_they_saw(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setenv("TEST_REPORT_FILE_PREFIX", f"{tmp_path}/seen.")
    monkeypatch.setattr("sys.argv", ["program", "--benchmarks=Timed.*sum"])
    with pytest.raises(SystemExit):
        tf.test.main()
    told = json.loads((tmp_path / "seen.Timed.benchmark_sum").read_text())
    assert told["name"] == "Timed.benchmark_sum" and told["iters"] == 3 and told["extras"]["rows"] == 4
    assert told["wall_time"] > 0 and told["throughput"] == pytest.approx(1 / told["wall_time"])
    assert f"entry {json.dumps(told)}" in capsys.readouterr().out
    with pytest.raises(OSError, match="there already"):
        Timed().report_benchmark(name="benchmark_sum")
    with pytest.raises(TypeError, match="extras"):
        Timed().report_benchmark(extras={"shape": [1, 2]})
    assert Timed().evaluate(tf.constant(2) + 3) == 5


def test_a_benchmark_keeps_no_trace(graph: Any) -> None:
    with tf.Session() as session, pytest.raises(tf.errors.UnimplementedError, match="store_trace is not supported"):
        tf.test.Benchmark().run_op_benchmark(session, tf.constant(1), store_trace=True)
