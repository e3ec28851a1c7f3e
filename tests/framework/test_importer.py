"""import_graph_def of loops, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.framework.graph import Graph
from sparkflow_runtime.wire.errors import InvalidArgumentError, NotFoundError


def _loop_def(n: int = 3) -> tuple[Any, str, str]:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float64, [2], name="x")
        _, y = tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * x), [0, x])
        return graph.as_graph_def(), "x:0", y.name


def test_a_loop_may_stand_in_any_order(graph: Graph) -> None:
    graph_def, x, y = _loop_def()
    turned = tf.GraphDef(node=list(graph_def.node)[::-1])
    fed = tf.constant([1.0, 2.0], tf.float64)
    (out,) = tf.import_graph_def(turned, {x: fed}, [y]) or ()
    with tf.Session() as session:
        assert session.run(out).tolist() == [1, 16]


def test_two_copies_of_a_loop_are_two_loops(graph: Graph) -> None:
    graph_def, x, y = _loop_def()
    a = tf.import_graph_def(graph_def, {x: tf.constant([2.0, 3.0], tf.float64)}, [y]) or []
    b = tf.import_graph_def(graph_def, {x: a[0]}, [y]) or []
    frames = {op.attrs["frame_name"] for op in graph.get_operations() if op.type == "Enter"}
    assert frames == {"import/while/while_context", "import_1/while/while_context"}
    with tf.Session() as session:
        assert session.run([a[0], b[0]])[1].tolist() == [16.0**4, 81.0**4]


def test_an_imported_loop_has_no_gradient(graph: Graph) -> None:
    graph_def, x, y = _loop_def()
    fed = tf.constant([2.0, 3.0], tf.float64)
    (out,) = tf.import_graph_def(graph_def, {x: fed}, [y]) or ()
    with pytest.raises(LookupError, match="part of a loop that while_loop did not build here"):
        tf.gradients(out, fed)


def test_other_cycles_are_refused(graph: Graph, node: Any, graph_def: Any) -> None:
    a, b = node("a", "Identity", "b", T=tf.float32), node("b", "Identity", "a", T=tf.float32)
    with pytest.raises(InvalidArgumentError, match="lies on a cycle"):
        tf.import_graph_def(graph_def(a, b))


def _sum_def() -> Any:
    """y = 2 x + k."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [], name="x")
        tf.add(x * 2.0, tf.constant(1.0, name="k"), name="y")
        return graph.as_graph_def()


def _imported(x: Any, name: str | None = None) -> Any:
    [y] = tf.import_graph_def(_sum_def(), {"x": x}, ["y:0"], name) or []
    return y


def test_control_dependencies_around_the_import_hold(graph: Graph) -> None:
    v = tf.Variable(1.0)
    with tf.control_dependencies([v.assign(5.0)]):
        y = _imported(tf.constant(3.0))
        loop_def, x, out = _loop_def()
        [z] = tf.import_graph_def(loop_def, {x: tf.constant([1.0, 2.0], tf.float64)}, [out]) or []
    with tf.Session() as session:
        for fetched in (y, z):
            session.run(v.initializer)
            session.run(fetched)
            assert session.run(v) == 5.0


def test_devices_around_the_import_hold(graph: Graph) -> None:
    with tf.Graph().as_default() as other:
        with tf.device("/job:worker"):
            w = tf.Variable(1.0, name="w")
        with tf.colocate_with(w.op):
            tf.constant(2.0, name="beside")
        graph_def = other.as_graph_def()
    for node in graph_def.node:
        node.device = "/job:worker" if node.name == "w" else ""
    with tf.device("/task:3"):
        tf.import_graph_def(graph_def, name="")
    devices = {op.name: op.device for op in graph.get_operations()}
    assert devices["w"] == devices["beside"] == devices["w/Assign"] == "/job:worker/task:3"
    assert devices["w/initial_value"] == "/task:3"


def test_in_a_branch_and_in_a_loop(graph: Graph) -> None:
    """Nodes that come in are of the branch or the loop around, constants too."""
    ran = tf.Variable(0, name="ran")
    with tf.Graph().as_default() as other:
        [count] = tf.import_graph_def(graph.as_graph_def(), return_elements=["ran"], name="") or []
        tf.identity(tf.assign_add(count.outputs[0], 1), name="counted")
        counts = other.as_graph_def()
    taken, three = tf.placeholder(tf.bool, []), tf.constant(3.0)

    def yes() -> Any:
        [counted] = tf.import_graph_def(counts, {"ran": ran._ref()}, ["counted:0"]) or []
        with tf.control_dependencies([counted]):
            return _imported(three)

    either = tf.cond(taken, yes, lambda: three)
    looped = tf.while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, _imported(a)), [0, 1.0])[1]
    mapped = tf.map_fn(lambda a: _imported(a * three), tf.constant([1.0, 2.0]))
    [slope] = tf.gradients(mapped, three)
    with tf.Session() as session:
        session.run(ran.initializer)
        assert session.run(either, {taken: False}) == 3.0 and session.run(ran) == 0
        assert session.run(either, {taken: True}) == 7.0 and session.run(ran) == 1
        assert session.run(looped) == 31.0
        assert session.run(mapped).tolist() == [7.0, 13.0] and session.run(slope) == 6.0


def test_names_that_are_taken_get_a_number(graph: Graph) -> None:
    first, second, third = (_imported(x, name) for x, name in ((1.0, ""), (2.0, ""), (3.0, "q/")))
    loop_def, x, y = _loop_def()
    loops = [tf.import_graph_def(loop_def, {x: np.array([n, 1.0])}, [y], "")[0] for n in (2.0, 3.0)]  # type: ignore[index]
    assert [t.name for t in (first, second, third)] == ["y:0", "y_1:0", "q/y:0"]
    with tf.Session() as session:
        assert session.run([first, second, third]) == [3.0, 5.0, 7.0]
        assert [value[0] for value in session.run(loops)] == [16.0, 81.0]


def test_a_finished_graph_takes_nothing_in(graph: Graph) -> None:
    graph_def = _sum_def()
    graph.finalize()
    with pytest.raises(RuntimeError, match="finalized"):
        tf.import_graph_def(graph_def)


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        (lambda g: g.node.add(name="e", op="Foo"), NotFoundError, "not registered 'Foo', of node 'e'"),
        (lambda g: g.node.add(name="a b", op="NoOp"), ValueError, "'a b'.*invalid characters"),
        (lambda g: g.node.add(name="x", op="NoOp"), ValueError, "'x' is not unique"),
        (lambda g: g.node.add(name="e", op="NoOp", input=["^x", "y"]), ValueError, "'e': Control.*must come after"),
        (lambda g: g.node.add(name="e", op="NoOp", input=["y"]), ValueError, "'import/e'.*expected 0 inputs"),
        (lambda g: g.node.add(name="e", op="Identity", input=["y:1"]), ValueError, "'y:1' is not there"),
        (lambda g: g.node.add(name="e", op="Identity", input=["y"]), ValueError, "'e'.*missing attr 'T'"),
        (lambda g: g.node[0].attr["dtype"].CopyFrom(g.node[1].attr["value"]), ValueError, "'x'.*'dtype'.*a type"),
        (lambda g: setattr(g.node[0].attr["dtype"], "type", 3), ValueError, "Input 0 of node .*passed int32"),
        (lambda g: setattr(g.versions, "producer", -1), ValueError, "producer version -1"),
        (lambda g: setattr(g.versions, "min_consumer", 99999), ValueError, "min consumer version is 99999"),
        (lambda g: g.versions.bad_consumers.append(tf.GRAPH_DEF_VERSION), ValueError, "bad consumers"),
    ],
)
def test_what_is_no_graph_is_refused(graph: Graph, change: Any, error: type[Exception], said: str) -> None:
    graph_def = _sum_def()
    change(graph_def)
    with pytest.raises(error, match=said):
        tf.import_graph_def(graph_def)


def test_arguments_that_are_none(graph: Graph) -> None:
    with pytest.raises(TypeError, match="`input_map` must be a dictionary"):
        tf.import_graph_def(_sum_def(), [1])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="`return_elements` must be a list of strings"):
        tf.import_graph_def(_sum_def(), return_elements=[1])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="'y:3' is not there"):
        tf.import_graph_def(_sum_def(), return_elements=["y:3"])


def test_attributes_are_told_as_in_tensorflow(graph: Graph) -> None:
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    pool = tf.nn.max_pool(tf.zeros([1, 4, 4, 1]), [1, 2, 2, 1], [1, 2, 2, 1], "SAME").op
    assert pool.get_attr("padding") == b"SAME" and pool.get_attr("ksize") == [1, 2, 2, 1]
    assert x.op.get_attr("dtype") is tf.float32
    assert [dim.size for dim in x.op.get_attr("shape").dim] == [-1, 2]
    assert tf.make_ndarray(tf.constant([3, 4]).op.get_attr("value")).tolist() == [3, 4]
