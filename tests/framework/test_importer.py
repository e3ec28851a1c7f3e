"""import_graph_def of loops, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.framework.graph import Graph
from sparkflow_runtime.wire.errors import InvalidArgumentError, NotFoundError
from tests.control_flow_random import build, evaluate, generate, gradients


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


@pytest.mark.parametrize("cut", [False, True], ids=["whole", "cut"])
def test_a_loop_that_comes_in_has_gradients(graph: Graph, cut: bool) -> None:
    """Also where the Exits that nobody needed were cut away. y = x ** 4, each for itself."""
    graph_def, x, y = _loop_def()
    graph_def = tf.graph_util.extract_sub_graph(graph_def, [y.partition(":")[0]]) if cut else graph_def
    fed = tf.constant([2.0, 3.0], tf.float64)
    (out,) = tf.import_graph_def(graph_def, {x: fed}, [y]) or ()
    (dx,) = tf.gradients(out, fed)
    with tf.Session() as session:
        assert session.run([dx, *tf.gradients(dx, fed)])[1].tolist() == [12 * 4.0, 12 * 9.0]


_DEEP = pytest.param((6016, 4, 3), marks=pytest.mark.slow)


@pytest.mark.parametrize("program", [*((seed, 5, 2) for seed in range(6)), _DEEP, (1017, 14, 1)], ids=str)
def test_random_loops_and_branches_that_come_in(program: tuple[int, int, int], graph: Graph) -> None:
    """Their derivatives are exact; 1017 has a loop without a gradient (back_prop=False)."""
    seed, size, orders = program
    made = generate(seed, size)
    with tf.Graph().as_default() as other:
        feeds, loss, xs = build(tf, made)
        nodes = list(other.as_graph_def().node)
    names = [tensor.name for tensor in (loss, *xs)]
    loss, *xs = (
        tf.import_graph_def(tf.GraphDef(node=nodes[:: 1 - seed % 2 * 2]), return_elements=names, name="in") or ()
    )
    fetches = gradients(tf, loss, xs, orders)
    with tf.Session() as session:
        values = {f"in/{tensor.name}": value for tensor, value in feeds.items()}
        found = iter(session.run([f for f in fetches if f is not None], values))
    found_or_zero = [0.0 if f is None else next(found) for f in fetches]
    np.testing.assert_allclose(found_or_zero, evaluate(made, orders), rtol=1e-8, atol=1e-9)


def test_a_loop_comes_into_a_loop(graph: Graph) -> None:
    graph_def, x, y = _loop_def(2)
    w = tf.constant(2.0, tf.float64)
    rows = tf.constant([[1.0, 2.0], [0.5, 1.0]], tf.float64)
    mapped = tf.map_fn(lambda row: tf.import_graph_def(graph_def, {x: row * w}, [y])[0], rows)  # type: ignore[index]
    with tf.Session() as session:
        assert session.run(mapped).tolist() == [[8, 64], [1, 8]]
        assert session.run(tf.gradients(mapped, w))[0] == 3 * 4 * (1 + 8 + 0.125 + 1)


def test_a_loop_of_another_kind_has_no_gradient(graph: Graph) -> None:
    graph_def, x, y = _loop_def()
    again = graph_def.node.add()
    again.CopyFrom(next(node for node in graph_def.node if node.op == "Switch"))
    again.name = "again"
    fed = tf.constant([2.0, 3.0], tf.float64)
    (out,) = tf.import_graph_def(graph_def, {x: fed}, [y]) or ()
    with pytest.raises(LookupError, match="not as while_loop makes them"):
        tf.gradients(out, fed)
    with tf.Session() as session:
        assert session.run(out).tolist() == [16, 81]


def test_a_meta_graph_says_which_loops_have_no_gradient(graph: Graph) -> None:
    """As TensorFlow writes it: the contexts of a cond, in which there is a loop, are messages in a collection."""
    graph_def, x, y = _loop_def()
    [frame] = {node.attr["frame_name"].s for node in graph_def.node if node.op == "Enter"}
    loop = b"\x0a" + bytes([len(frame)]) + frame  # WhileContextDef(context_name=frame)
    nested = b"\x12" + bytes([len(loop)]) + loop  # ControlFlowContextDef(while_ctxt=loop)
    for collection, raw in (("while_context", loop), ("cond_context", b"\x32" + bytes([len(nested)]) + nested)):
        for said, stopped in ((raw, True), (raw.replace(frame, b"x" * len(frame)), False)):
            meta = tf.MetaGraphDef(graph_def=graph_def)
            meta.collection_def[collection].bytes_list.value.append(said)
            with tf.Graph().as_default() as other:
                tf.train.import_meta_graph(meta, import_scope="in")
                fed, out = (other.get_tensor_by_name(f"in/{name}") for name in (x, y))
                assert (tf.gradients(out, fed)[0] is None) is stopped
                assert not any(isinstance(value, bytes) for value in other.get_collection(collection))


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


def test_what_a_graph_has_no_more_may_be_mapped(graph: Graph) -> None:
    """As after surgery that took an input away; the edges of it that are not mapped are missed."""
    with tf.Graph().as_default() as other:
        parts = tf.split(tf.placeholder(tf.float32, [2, 2]), 2, name="cut")
        tf.identity(parts[0] + tf.ones([1, 2]), name="y")
        tf.identity(parts[1], name="z")
        cut = [node for node in other.as_graph_def().node if not node.name.startswith(("cut", "Placeholder"))]
    mine = tf.constant([[3.0, 4.0]])
    kept = tf.GraphDef(node=[node for node in cut if node.name != "z"])
    for key in ("cut", "cut:0"):
        (out,) = tf.import_graph_def(kept, {key: mine}, ["y:0"]) or ()
        with tf.Session() as session:
            assert session.run(out).tolist() == [[4, 5]]
    with pytest.raises(InvalidArgumentError, match="needs 'cut'"):
        tf.import_graph_def(tf.GraphDef(node=cut), {"cut:0": mine})
    with pytest.raises(ValueError, match=r"not found in graph_def: .*cut:1"):
        tf.import_graph_def(kept, {"cut:0": mine, "cut:1": mine})
    with pytest.raises(ValueError, match="int32"):
        tf.import_graph_def(kept, {"cut:0": tf.constant([[1, 2]])})


def _kept_shapes() -> Any:
    """A loop over rows of 3 numbers, and a shape that set_shape said."""
    with tf.Graph().as_default() as other:
        x = tf.placeholder(tf.float32, [None, 3], name="x")
        _, y = tf.while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, y * 2.0), [0, x])
        tf.identity(y, name="y")
        z = tf.reshape(x, tf.placeholder(tf.int32, [None]), name="z")
        z.set_shape([None, 5])
        return other.as_graph_def(add_shapes=True)


def test_shapes_that_a_graph_tells_are_known(graph: Graph) -> None:
    """Layers above what an imported loop gives need them."""
    y, z = tf.import_graph_def(_kept_shapes(), return_elements=["y:0", "z:0"]) or ()
    assert (y.get_shape().as_list(), z.get_shape().as_list()) == ([None, 3], [None, 5])
    assert tf.layers.dense(y, 4).get_shape().as_list() == [None, 4]
    assert "_output_shapes" not in graph.as_graph_def().SerializeToString().decode("latin1")


def test_shapes_that_hold_no_more_are_not_believed(graph: Graph) -> None:
    (y,) = tf.import_graph_def(_kept_shapes(), {"x": tf.zeros([2, 4])}, ["y:0"]) or ()
    assert y.get_shape().dims is None
    (y,) = tf.import_graph_def(_kept_shapes(), {"x": tf.zeros([2, 3])}, ["y:0"]) or ()
    assert y.get_shape().as_list() == [None, 3]
