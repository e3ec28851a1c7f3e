"""The reverse walk: what is connected, how paths add up, what nodes are made and where."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.conversions import AggregationMethod
from sparkflow.framework.graph import Graph
from sparkflow.framework.indexed_slices import IndexedSlices
from sparkflow.framework.registry import op
from sparkflow.grads.gradients import UnconnectedGradients, gradients
from sparkflow.grads.registry import gradient, not_differentiable
from sparkflow.ops import array, array_join, array_slice, math, math_reduce, nn, operators, rules  # noqa: F401 - x + y on tensors
from sparkflow.ops.variables import Variable, global_variables_initializer
from sparkflow.session.session import Session
from sparkflow_runtime.wire.errors import InvalidArgumentError

op("NobodysOp", "x: T -> y: T", rules.same)


def run(graph: Graph, fetches: Any, feeds: Any = None) -> Any:
    with Session(graph=graph) as session:
        return session.run(fetches, feeds)


def test_scalars(graph: Graph) -> None:
    x, y = convert_to_tensor(3.0), convert_to_tensor(5.0)
    assert run(graph, gradients(x * x * y + y, [x, y])) == [30, 10]


def test_several_ys_add_up_and_seeds_weigh_them(graph: Graph) -> None:
    x = convert_to_tensor([1.0, 2.0])
    (plain,) = gradients([x * 2.0, x * 3.0], x)
    (weighed,) = gradients([x * 2.0, x * 3.0], x, grad_ys=[[10.0, 0.0], None])
    assert [g.tolist() for g in run(graph, [plain, weighed])] == [[5, 5], [23, 3]]
    with pytest.raises(ValueError, match="one to one"):
        gradients([x, x], x, grad_ys=[None])


def test_x_may_be_y_and_lie_between(graph: Graph) -> None:
    x = convert_to_tensor(2.0)
    h = x * x
    y = h * h
    assert run(graph, gradients(y, [x, h, y])) == [32, 8, 1]


def test_unconnected(graph: Graph) -> None:
    x, other = convert_to_tensor([1.0, 2.0]), convert_to_tensor([[1.0]])
    assert gradients(x * 2.0, other) == [None]
    assert run(graph, gradients(x * 2.0, other, unconnected_gradients=UnconnectedGradients.ZERO))[0].tolist() == [[0]]
    assert run(graph, gradients(x * 2.0, other, unconnected_gradients="zero"))[0].tolist() == [[0]]


def test_stops(graph: Graph) -> None:
    x = convert_to_tensor(3.0)
    h = x * x
    assert run(graph, gradients(h * x, x, stop_gradients=[h])) == [9]
    assert run(graph, gradients(array.stop_gradient(h) * x, x)) == [9]
    assert gradients(array.stop_gradient(h), x) == [None]


def test_integers_have_none(graph: Graph) -> None:
    x = convert_to_tensor([1, 2])
    assert gradients(math.to_float(x) * 2.0, x) == [None]
    y = convert_to_tensor([1.5])
    assert gradients(math.to_int32(y), y) == [None]
    assert gradients(math.to_float(math_reduce.argmax(y, 0)), y) == [None]


def test_an_op_without_gradient_is_named(graph: Graph) -> None:
    x = convert_to_tensor([1.0])
    y = apply_op("NobodysOp", [x], name="mine")
    with pytest.raises(LookupError, match=r"'mine' \(op type: NobodysOp\).*stop_gradient"):
        gradients(y * 2.0, x)
    assert gradients(array.stop_gradient(y) + x, x) != [None]
    other = convert_to_tensor([1.0])
    assert gradients(y * other, other) != [None], "only ops between xs and ys need a gradient"


def test_override_of_one_op(graph: Graph) -> None:
    gradient("TimesSeven")(lambda op, dy: dy * 7.0)
    x = convert_to_tensor([1.0])
    y = apply_op("Identity", [x], {"_gradient_op_type": "TimesSeven"})
    assert run(graph, gradients(y, x))[0].tolist() == [7]


def test_a_second_registration_is_refused() -> None:
    with pytest.raises(KeyError, match="two gradients"):
        gradient("MatMul")(lambda op, dy: dy)
    with pytest.raises(KeyError, match="two gradients"):
        not_differentiable("MatMul")


def test_wrong_gradient_functions_are_named(graph: Graph) -> None:
    gradient("GivesTwo")(lambda op, dy: (dy, dy))
    gradient("GivesAnotherShape")(lambda op, dy: array.zeros([3]))
    x = convert_to_tensor([1.0])
    for name, error in (("GivesTwo", ValueError), ("GivesAnotherShape", InvalidArgumentError)):
        with pytest.raises(error, match="The gradient of Identity has"):
            gradients(apply_op("Identity", [x], {"_gradient_op_type": name}), x)


# ---------------------------------------------------------------------- nodes


def test_names(graph: Graph) -> None:
    x = array.placeholder("float32", [2, 2], name="x")
    w = array.placeholder("float32", [2, 2], name="w")
    with graph.name_scope("layer"):
        y = math.matmul(x, w, name="product")
    (dw,) = gradients(y, w)
    assert dw.op.name == "gradients/layer/product_grad/MatMul"
    assert gradients(y, w)[0].op.name.startswith("gradients_1/")
    assert gradients(y, w, name="mine")[0].op.name.startswith("mine/")


def test_only_what_is_needed_is_built(graph: Graph) -> None:
    x, w, b = (array.placeholder("float32", s) for s in ([None, 4], [4, 3], [3]))
    y = nn.relu(nn.bias_add(math.matmul(x, w), b))
    count = len(graph.get_operations())
    gradients(y, [w, b])
    made = [o.type for o in graph.get_operations()[count:]]
    assert sorted(made) == ["BiasAddGrad", "Const", "Fill", "MatMul", "ReluGrad", "Shape"]


def test_no_sums_where_static_shapes_are_equal(graph: Graph) -> None:
    x, y = array.placeholder("float32", [3, 4]), array.placeholder("float32", [3, 4])
    gradients(x * y + x - y, [x, y])
    assert not {"BroadcastGradientArgs", "Sum"} & {o.type for o in graph.get_operations()}


def test_broadcast_axes_are_found_when_built(graph: Graph) -> None:
    x, bias, mystery = (array.placeholder("float32", s) for s in ([None, 4], [4], [None, None]))
    gradients(x + bias, [x, bias])
    assert "BroadcastGradientArgs" not in {o.type for o in graph.get_operations()}
    gradients(x + mystery, [x, mystery])
    assert "BroadcastGradientArgs" in {o.type for o in graph.get_operations()}


def test_colocation(graph: Graph) -> None:
    with graph.device("/job:ps/task:0"):
        x = array.placeholder("float32", [2], name="x")
        y = math.exp(x, name="y")
    with graph.device("/job:worker/task:0"):
        (free,) = gradients(y, x)
        (beside,) = gradients(y, x, colocate_gradients_with_ops=True)
    assert "/job:worker" in free.device
    assert "/job:ps" in beside.device and beside.op.colocation_groups() == [b"loc:@y"]


def test_gate(graph: Graph) -> None:
    x, y = array.placeholder("float32", [2], name="x"), array.placeholder("float32", [2], name="y")
    dx, dy = gradients(x * y, [x, y], gate_gradients=True)
    assert [d.op.type for d in (dx, dy)] == ["Identity", "Identity"]
    assert dx.op.control_inputs == dy.op.control_inputs and dx.op.control_inputs[0].type == "NoOp"
    assert [v.tolist() for v in run(graph, [dx, dy], {x: [1, 2], y: [3, 4]})] == [[3, 4], [1, 2]]


# ---------------------------------------------------------------------- slices


def test_slices(graph: Graph) -> None:
    table = convert_to_tensor(np.arange(8, dtype=np.float32).reshape(4, 2))
    (dt,) = gradients(array_slice.gather(table, [[3, 0], [3, 1]]) * 2.0, table)
    assert isinstance(dt, IndexedSlices)
    indices, values, dense = run(graph, [dt.indices, dt.values, convert_to_tensor(dt)])
    assert indices.tolist() == [3, 0, 3, 1] and values.shape == (4, 2)
    assert dense.tolist() == [[2, 2], [2, 2], [0, 0], [4, 4]]


@pytest.mark.parametrize("axis", [0, -2])
def test_rows_of_tables_one_after_the_other(graph: Graph, axis: int) -> None:
    """As `tf.gather(partitioned_variable, ids)` has them: an optimizer leaves all other rows alone."""
    tables = [convert_to_tensor(np.ones((n, 2), np.float32)) for n in (3, 1, 2)]
    weights = np.arange(1.0, 5.0, dtype=np.float32)[:, None]
    found = gradients(array_slice.gather(array_join.concat(tables, axis), [5, 0, 2, 5]) * weights, tables)
    assert all(isinstance(d, IndexedSlices) for d in found)
    rows = run(graph, [(d.indices, d.values[:, 0]) for d in found])
    assert [i.tolist() for i, _ in rows] == [[0, 2], [], [1, 1]]
    assert [v.tolist() for _, v in rows] == [[2, 3], [], [1, 4]]


def test_rows_of_tables_side_by_side(graph: Graph) -> None:
    tables = [convert_to_tensor(np.ones((3, n), np.float32)) for n in (1, 2)]
    found = gradients(array_slice.gather(array_join.concat(tables, 1), [2, 0]) * np.float32([1, 2, 3]), tables)
    rows = run(graph, [(d.indices, d.values) for d in found])
    assert [i.tolist() for i, _ in rows] == [[2, 0]] * 2
    assert [v.tolist() for _, v in rows] == [[[1], [1]], [[2, 3], [2, 3]]]


@pytest.mark.parametrize("made", [lambda t: math.cast(t, "float64"), lambda t: t + 1.0, lambda t: 1.0 - t])
def test_rows_of_what_keeps_rows_apart(graph: Graph, made: Any) -> None:
    table = convert_to_tensor(np.ones((4, 2), np.float32))
    (dt,) = gradients(array_slice.gather(made(table), [3, 1]), table)
    assert isinstance(dt, IndexedSlices) and dt.values.dtype == table.dtype
    assert run(graph, dt.indices).tolist() == [3, 1]


def test_one_index_to_a_row_gives_slices(graph: Graph) -> None:
    table = convert_to_tensor(np.ones((4, 2), np.float32))
    (dt,) = gradients(array_slice.gather_nd(table, [[3], [1]]), table)
    assert isinstance(dt, IndexedSlices)
    assert run(graph, dt.indices).tolist() == [3, 1]
    (dt,) = gradients(array_slice.gather_nd(table, [[3, 0], [3, 0]]), table)
    assert run(graph, dt).tolist() == [[0, 0], [0, 0], [0, 0], [2, 0]]


def test_slices_of_several_uses_lie_one_after_another(graph: Graph) -> None:
    table = convert_to_tensor(np.ones((4, 2), np.float32))
    narrow, wide = convert_to_tensor([1, 2]), convert_to_tensor(np.array([2]))
    y = math_reduce.reduce_sum(array_slice.gather(table, narrow)) + math_reduce.reduce_sum(
        array_slice.gather(table, wide)
    )
    (dt,) = gradients(y, table)
    assert isinstance(dt, IndexedSlices) and dt.indices.dtype == "int64"
    assert sorted(run(graph, dt.indices).tolist()) == [1, 2, 2]


def test_slices_and_dense_become_dense(graph: Graph) -> None:
    table = convert_to_tensor(np.ones((3, 2), np.float32))
    (dt,) = gradients([array_slice.gather(table, [1, 1]), table * 3.0], table)
    assert run(graph, dt).tolist() == [[3, 3], [5, 5], [3, 3]]


def test_slices_pass_through_identity(graph: Graph) -> None:
    table = convert_to_tensor(np.ones((3, 2), np.float32))
    (dt,) = gradients(array_slice.gather(array.identity(table), [1]), table)
    assert isinstance(dt, IndexedSlices)
    (dt,) = gradients(array_slice.gather(math.exp(table), [1]), table)
    assert run(graph, dt)[0].tolist() == [0, 0]


def test_variables_are_differentiated_at_their_reference(graph: Graph) -> None:
    table, dense = Variable(np.ones((3, 2), np.float32)), Variable([2.0])
    y = math_reduce.reduce_sum(array_slice.gather(table, [1, 1])) * dense * dense
    slices, slope = gradients(y, [table, dense])
    assert isinstance(slices, IndexedSlices) and slope.shape == [1]
    with Session(graph=graph) as session:
        session.run(global_variables_initializer())
        assert session.run([slices.indices, slope])[1].tolist() == [16]
        assert session.run(slices.values).tolist() == [[4, 4], [4, 4]]


# ---------------------------------------------------------------------- size


def test_a_large_graph_is_walked_once(graph: Graph) -> None:
    x, w = array.placeholder("float32", [None, 4]), array.placeholder("float32", [4, 4])
    h = x
    for _ in range(1700):
        h = nn.relu(math.matmul(h, w)) + h
    before = graph.version
    (dw,) = gradients(h, w)
    assert graph.version - before <= 13 * 1700, "a few backward ops for each forward one, on a graph with 2**1700 paths"
    assert dw.op.type == "AddN" and len(dw.op.inputs) == 1700


def test_methods_of_adding(graph: Graph) -> None:
    x = array.placeholder("float32", [2])
    for method in (None, AggregationMethod.ADD_N, AggregationMethod.EXPERIMENTAL_TREE, 2):
        assert gradients(x * x, x, aggregation_method=method)[0] is not None
    with pytest.raises(ValueError, match="Invalid aggregation_method specified 99"):
        gradients(x * x, x, aggregation_method=99)
