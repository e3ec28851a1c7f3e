"""Names, scopes, devices, collections, conversion: what the graph records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.framework.apply import apply_op, constant, convert_to_tensor
from sparkflow.framework.constant_value import constant_value, constant_value_as_shape
from sparkflow.framework.graph import Graph, get_default_graph
from sparkflow.framework.importer import import_graph_def
from sparkflow.framework.registry import lookup
from sparkflow.framework.shapes import Dimension, TensorShape, broadcast
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError


def test_names_are_unique_as_in_tensorflow(graph: Graph) -> None:
    names = [constant(1.0, name="c").op.name for _ in range(3)]
    with graph.name_scope("s"):
        names.append(constant(1.0, name="c").op.name)
        with graph.name_scope("s"):
            names.append(constant(1.0, name="c").op.name)
    with graph.name_scope("s"):
        names.append(constant(1.0, name="C").op.name)
    with graph.name_scope("s/"):
        names.append(constant(1.0, name="d").op.name)
    assert names == ["c", "c_1", "c_2", "s/c", "s/s/c", "s_1/C", "s/d"]
    with pytest.raises(ValueError, match="not a valid op name"):
        constant(1.0, name="a b")


def test_devices_merge_from_inside_out(graph: Graph) -> None:
    with graph.device("/job:ps/task:1"), graph.device("/cpu:0"):
        a = constant(1.0)
        with graph.device(lambda op: "/job:worker/task:2" if op.type == "Const" else op.device):
            b = constant(1.0)
        with graph.device(None):
            c = constant(1.0)
    with graph.colocate_with(a.op):
        d = constant(1.0)
    assert [t.device for t in (a, b, c, d)] == [
        "/job:ps/task:1/device:CPU:0", "/job:worker/task:2/device:CPU:0", "", "/job:ps/task:1/device:CPU:0"
    ]  # fmt: skip
    assert d.op.get_attr("_class") == [b"loc:@" + a.op.name.encode()]


def test_control_dependencies_skip_data_inputs(graph: Graph) -> None:
    a, b = constant(1.0, name="a"), constant(1.0, name="b")
    with graph.control_dependencies([a, b.op]):
        c = apply_op("Pack", [[a, a]], {"axis": 0})
        with graph.control_dependencies(None):
            d = constant(1.0)
    assert [op.name for op in c.op.control_inputs] == ["b"]
    assert d.op.control_inputs == []
    assert list(c.op.node_def.input) == ["a", "a", "^b"]


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (1, None, dtypes.int32),
        (1.5, None, dtypes.float32),
        ([1, 2.5], None, dtypes.float32),
        (np.float64(1), None, dtypes.float64),
        (np.arange(3), None, dtypes.int64),
        (True, None, dtypes.bool_),
        ("text", None, dtypes.string),
        (2, dtypes.float32, dtypes.float32),
        ([], None, dtypes.float32),
        ([np.float64(1.5), 2.0], None, dtypes.float32),
        ((np.int64(1), 2), None, dtypes.int32),
        (np.ones((1, 2)), None, dtypes.float64),
        (2**40, None, dtypes.int64),
        ([1, -(2**31) - 1], None, dtypes.int64),
        (True, dtypes.float32, dtypes.float32),
        (np.array([True]), dtypes.int32, dtypes.int32),
    ],
)
def test_python_values_convert_as_in_tensorflow(graph: Graph, value: Any, dtype: Any, expected: Any) -> None:
    assert convert_to_tensor(value, dtype).dtype is expected


def test_many_control_inputs_are_not_compared_with_each_other(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a group of 100,000 initializers, which took a minute."""
    many, compared = [tf.no_op() for _ in range(300)], [0]

    def equal(a: object, b: object) -> bool:
        compared[0] += 1
        return a is b

    with monkeypatch.context() as patch:
        patch.setattr(tf.Operation, "__eq__", equal)
        with tf.control_dependencies(many), tf.control_dependencies(many[:5]):
            group = tf.no_op()
    assert group.control_inputs == many
    assert compared[0] < 1000, "of 45,000 pairs"


def test_conversion_refuses_what_loses(graph: Graph) -> None:
    with pytest.raises(TypeError, match="Expected int32, got 1"):
        convert_to_tensor(1.5, dtypes.int32)
    with pytest.raises(ValueError, match="does not fit int8"):
        convert_to_tensor(300, dtypes.int8)
    with pytest.raises(ValueError, match="requested dtype int32 for Tensor with dtype float32"):
        convert_to_tensor(constant(1.0), dtypes.int32)


def test_mixed_lists_are_packed(graph: Graph) -> None:
    packed = convert_to_tensor([constant(1.0), 2.0])
    assert packed.op.type == "Pack" and packed.shape.as_list() == [2]
    assert constant_value(packed).tolist() == [1.0, 2.0]  # type: ignore[union-attr]


def test_lists_are_packed_of_the_type_asked_for(graph: Graph) -> None:
    """As a dense_shape of int64 with a size of int32 in it; among themselves tensors have to agree."""
    size = constant(4)
    shape = convert_to_tensor([[size, 3], [5, size]], "int64")
    assert shape.dtype.name == "int64" and constant_value(shape).tolist() == [[4, 3], [5, 4]]  # type: ignore[union-attr]
    with pytest.raises(TypeError, match="a list containing a tensor of dtype int32 to float32"):
        convert_to_tensor([constant(1.0), size])
    assert constant_value_as_shape(convert_to_tensor([constant(3), -1])) == (3, None)


def test_ops_of_two_graphs_do_not_mix(graph: Graph) -> None:
    a = constant(1.0)
    with Graph().as_default(), pytest.raises(ValueError, match="same graph"):
        apply_op("Pack", [[a]], {"axis": 0})


def test_an_op_without_its_attribute_is_refused(graph: Graph) -> None:
    with pytest.raises(InvalidArgumentError, match="'NoSuchOp' is not registered"):
        lookup("NoSuchOp")
    with pytest.raises(TypeError, match="takes 1 inputs"):
        apply_op("Pack", [])


def test_several_outputs_have_their_names(graph: Graph) -> None:
    best = tf.nn.top_k([3.0, 9.0, 4.0], 2)
    assert type(best).__name__ == "TopKV2" and best.values.dtype == tf.float32
    with tf.Session() as sess:
        found = sess.run(best)
        assert type(found) is type(best) and found.indices.tolist() == [1, 2]
        assert sess.run(tf.unique_with_counts([5, 5, 6]).count).tolist() == [2, 1]


def test_graph_def_round_trip(graph: Graph) -> None:
    a = constant([[1.0, 2.0]], name="a")
    with graph.device("/job:ps/task:0"), graph.control_dependencies([constant(0, name="first")]):
        apply_op("Pack", [[a, a]], {"axis": 1}, "packed")
    graph_def = graph.as_graph_def()
    with Graph().as_default() as other:
        import_graph_def(graph_def, name="")
        assert other.as_graph_def() == graph_def
        assert other.get_tensor_by_name("packed:0").shape.as_list() == [1, 2, 2]
    with Graph().as_default() as third:
        [t] = import_graph_def(
            graph_def, input_map={"a:0": constant([[5.0, 6.0]], name="mine")}, return_elements=["packed:0"]
        )  # type: ignore[misc]
        assert t.name == "import/packed:0" and t.op.inputs[0].name == "mine:0"
        assert third.get_operation_by_name("import/first")


def test_import_refuses_a_hole(graph: Graph) -> None:
    graph_def = graph.as_graph_def()
    graph_def.node.add(name="p", op="Pack", input=["missing"])
    with pytest.raises(InvalidArgumentError, match="'missing'"):
        import_graph_def(graph_def)


def test_shapes() -> None:
    assert broadcast((None, 1, 3), (4, 1)) == (None, 4, 3)
    assert broadcast((2, 3), None) is None
    with pytest.raises(InvalidArgumentError, match=r"\(2, 3\) and \(4,\)"):
        broadcast((2, 3), (4,))
    shape = TensorShape([None, 3])
    assert repr(shape) == "TensorShape([Dimension(None), Dimension(3)])" and str(shape) == "(?, 3)"
    assert shape[1] == 3 and shape[0].value is None and shape[1:] == [3] and shape.ndims == 2
    assert int(Dimension(3) * 2) == 6
    with pytest.raises(TypeError, match="not known statically"):
        int(shape[0])


def test_collections_and_lookup(graph: Graph) -> None:
    a = constant(1.0, name="scope/a")
    graph.add_to_collections(["x", "y"], a)
    graph.add_to_collection("x", 5)
    assert graph.get_collection("x") == [a, 5] and graph.get_collection("x", scope="scope/") == [a]
    assert graph.get_tensor_by_name("scope/a:0") is a
    with pytest.raises(KeyError, match="nothing"):
        graph.get_operation_by_name("nothing")
    with pytest.raises(ValueError, match="op:0"):
        graph.get_tensor_by_name("scope/a")
    assert get_default_graph() is graph


def test_finalized_graphs_do_not_grow(graph: Graph) -> None:
    graph.finalize()
    with pytest.raises(RuntimeError, match="finalized"):
        constant(1.0)


def test_tensors_have_no_truth_value(graph: Graph) -> None:
    a = constant([1.0, 2.0])
    with pytest.raises(TypeError, match="truth value"):
        bool(a == a and a)


def test_operations_describe_their_type(graph: Graph) -> None:
    told = apply_op("ConcatV2", [[constant([1.0]), constant([2.0])], 0]).op.op_def
    assert (told.name, told.is_stateful) == ("ConcatV2", False)
    assert [(a.name, a.type_attr, a.number_attr) for a in told.input_arg] == [
        ("values", "T", "N"),
        ("axis", "Tidx", ""),
    ]
    assert [a.name for a in told.output_arg] == ["output"]
    assert {a.name: a.type for a in told.attr} == {"N": "int", "T": "type", "Tidx": "type"}
    queue = tf.FIFOQueue(3, [tf.int32, tf.string]).queue_ref.op.op_def
    assert queue.is_stateful and {a.name: a.type for a in queue.attr}["component_types"] == "list(type)"
    conv = tf.nn.conv2d(tf.ones([1, 4, 4, 2]), tf.ones([3, 3, 2, 2]), 1, "SAME").op.op_def
    defaults = {a.name: a for a in conv.attr}
    assert defaults["dilations"].default_value.list.i == [1, 1, 1, 1] and defaults["padding"].type == "string"
    assert defaults["explicit_paddings"].type == "list(int)"


def test_dimensions_count_and_compare() -> None:
    three, unknown = TensorShape([3, None])
    assert three > 2 and three >= 3 and three < 4 and three <= 3 and three != 4 and three == 3
    assert [int(d) for d in (7 - three, 7 // three, 7 % three, three % 2, three // 2, 2 * three + 1)] == [
        4,
        2,
        1,
        1,
        1,
        7,
    ]
    for compared in (unknown < 2, unknown >= 2, unknown == 3, unknown != 3, unknown == unknown, three == unknown):
        assert compared is None  # nobody knows
    assert (three * unknown).value is None and three != "a"
    with pytest.raises(TypeError, match="divided by //"):
        three / 2


def test_lists_of_outputs_belong_to_who_asked(graph: Graph) -> None:
    sizes = tf.unstack(tf.shape(tf.ones([2, 3])))
    op = sizes[0].op
    sizes[-1] = 4
    assert len(op.outputs) == 2 and all(isinstance(t, tf.Tensor) for t in op.outputs)
    with tf.Session() as session:
        assert session.run(tf.zeros(sizes)).shape == (2, 4)


def test_its_versions() -> None:
    graph = Graph()
    assert graph.graph_def_versions == graph.as_graph_def().versions and graph.graph_def_versions.producer > 100


def test_sizes_are_whole_numbers() -> None:
    with Graph().as_default():
        for wrong in ([2.5], (3, np.float32(0.5)), 1.5):
            with pytest.raises(TypeError, match="must be integer or None, got"):
                tf.placeholder(tf.float32, wrong)
        assert tf.placeholder(tf.float32, [4 / 2]).shape == [2]  # as TensorFlow 1 took it
        for shape in ((-1, 3), [-1, 3]):
            assert tf.placeholder(tf.float32, shape).shape.as_list() == [None, 3]
        for shape in ((-2,), [-2], -2):
            with pytest.raises(ValueError, match="Dimension -2 must be >= 0"):
                tf.placeholder(tf.float32, shape)
        assert [part.shape for part in tf.split(tf.zeros([4]), np.int64(2))] == [[2], [2]]
        assert len(tf.split(tf.zeros([4]), tf.Dimension(4))) == 4


def test_shapes_are_added_as_lists_are() -> None:
    shape, more = TensorShape([2, None]), [3]
    assert (shape + more).as_list() == [2, None, 3] and (more + shape).as_list() == [3, 2, None]
    assert (shape + TensorShape(None)).rank is None and (shape + shape).rank == 4
