"""group, tuple, with_dependencies, and checks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow.framework.graph import Graph
from sparkflow.framework.indexed_slices import IndexedSlices
from sparkflow.ops import array, control_flow, math
from sparkflow.session.session import Session
from sparkflow_runtime.wire.errors import InvalidArgumentError


def test_group_on_one_device(graph: Graph) -> None:
    x, y = array.zeros([2]), array.ones([2])
    done = control_flow.group(x, [y.op, (x,)], name="all")
    assert done.type == "NoOp" and done.name == "all"
    assert done.control_inputs == [x.op, y.op]
    with Session(graph=graph) as session:
        assert session.run(done) is None


def test_group_has_one_node_on_each_device(graph: Graph) -> None:
    parts = []
    for task in (1, 0):
        with graph.device(f"/job:ps/task:{task}"):
            parts += [array.zeros([2]), array.zeros([2])]
    done = control_flow.group(*parts)
    assert [o.device for o in done.control_inputs] == ["/job:ps/task:0", "/job:ps/task:1"]
    assert [len(o.control_inputs) for o in done.control_inputs] == [2, 2]


def test_group_of_nothing_and_of_none(graph: Graph) -> None:
    assert control_flow.group().control_inputs == []
    with pytest.raises(TypeError, match="None is no operation"):
        control_flow.group(None)


def test_tuple_waits_for_all(graph: Graph) -> None:
    x, y, other = array.zeros([2]), array.ones([2]), control_flow.no_op()
    slices = IndexedSlices(array.ones([1, 2]), array.zeros([1], "int32"))
    a, none, b, c = control_flow.tuple([x, None, y, slices], control_inputs=[other])
    assert none is None and isinstance(c, IndexedSlices)
    (gate,) = a.op.control_inputs
    assert set(gate.control_inputs) == {x.op, y.op, slices.values.op, other}
    with Session(graph=graph) as session:
        assert session.run([a, b])[1].tolist() == [1, 1]
    with pytest.raises(ValueError, match="at least one"):
        control_flow.tuple([None])


def test_a_fed_placeholder_is_done(graph: Graph) -> None:
    x = array.placeholder("float32", [2])
    out = control_flow.with_dependencies([x], array.ones([2]))
    with Session(graph=graph) as session:
        assert session.run(out, {x: [0, 0]}).tolist() == [1, 1]


def test_assert(evaluate: Any) -> None:
    def build(x: Any) -> Any:
        check = control_flow.Assert(math.less(x[0], 3), ["too large:", x], summarize=2)
        return control_flow.with_dependencies([check], x)

    assert evaluate(build, np.array([1, 2, 3])).tolist() == [1, 2, 3]
    with pytest.raises(InvalidArgumentError, match=r"assertion failed: \[too large:\] \[5 6\.\.\.\]"):
        evaluate(build, np.array([5, 6, 7]))


def test_check_numerics(evaluate: Any) -> None:
    build = lambda x: control_flow.check_numerics(x, "my loss")  # noqa: E731
    assert evaluate(build, np.ones(2, np.float32)).tolist() == [1, 1]
    with pytest.raises(InvalidArgumentError, match=r"my loss : Tensor had NaN values .*made by"):
        evaluate(build, np.array([1, np.nan]))
    with pytest.raises(InvalidArgumentError, match="Inf and NaN"):
        evaluate(build, np.array([np.inf, np.nan]))


def test_print(graph: Graph, capfd: Any) -> None:
    x = array.placeholder("int32", [3])
    out = control_flow.Print(x, [x, "text"], "x is ", first_n=1, summarize=2)
    with Session(graph=graph) as session:
        for _ in range(2):
            assert session.run(out, {x: [7, 8, 9]}).tolist() == [7, 8, 9]
    assert capfd.readouterr().err == "x is [7 8...] [text]\n"
