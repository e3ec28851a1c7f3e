"""GraphDefs with functions in their library, as TensorFlow 2.21 wrote them (tests/framework/functional_graphs)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.framework.graph import Graph
from sparkflow_runtime.wire.errors import InvalidArgumentError, NotFoundError

FOLDER = Path(__file__).parent / "functional_graphs"
VALUES = json.loads((FOLDER / "values.json").read_text(encoding="utf-8"))
X = np.array([0.5, 1.25])


def _graph_def(name: str) -> Any:
    return tf.GraphDef.FromString((FOLDER / f"{name}.pb").read_bytes())


@pytest.mark.parametrize("scope", ["", "there"])
@pytest.mark.parametrize("name", VALUES)
def test_values(name: str, scope: str, graph: Graph) -> None:
    tf.import_graph_def(_graph_def(name), name=scope)
    prefix = f"{scope}/" if scope else ""
    with tf.Session() as session:
        for n, wanted in enumerate(VALUES[name]["values"]):
            feeds = {f"{prefix}x:0": X, f"{prefix}n:0": n}
            found = session.run([prefix + f for f in VALUES[name]["fetches"]], feeds)
            for got, want in zip(found, wanted, strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize("name", VALUES)
def test_gradients(name: str, graph: Graph) -> None:
    """What comes in as functions is differentiated, by central differences along a direction, and once more."""
    fetches = VALUES[name]["fetches"][:1]
    x, n = tf.placeholder(tf.float64, [2]), tf.placeholder(tf.int32, [])
    [y] = tf.import_graph_def(_graph_def(name), {"x": x, "n": n}, fetches) or []
    (dx,) = tf.gradients(y, x)
    (ddx,) = tf.gradients(dx, x)
    along = np.array([0.6, -0.8])
    with tf.Session() as session:
        for k in range(4):
            for value, slope in ((y, dx), (dx, ddx)):
                if slope is None:
                    continue
                above, below = (session.run(value, {x: X + d * along, n: k}).sum() for d in (1e-6, -1e-6))
                found = session.run(slope, {x: X, n: k})
                assert (found * along).sum() == pytest.approx((above - below) / 2e-6, rel=1e-6, abs=1e-8)


def test_an_assertion_in_a_function_is_checked(graph: Graph) -> None:
    tf.import_graph_def(_graph_def("function"), name="")
    with tf.Session() as session, pytest.raises(InvalidArgumentError, match="assertion failed"):
        session.run("y:0", {"x:0": X, "n:0": 7})


def test_two_imports_are_two_copies(graph: Graph) -> None:
    one, two = (tf.import_graph_def(_graph_def("while"), return_elements=["y:0"], name=s) for s in ("a", "b"))
    assert one is not None and two is not None
    with tf.Session() as session:
        values = session.run([one[0], two[0]], {"a/x:0": X, "a/n:0": 1, "b/x:0": X, "b/n:0": 2})
    np.testing.assert_allclose(values[0], VALUES["while"]["values"][1][0])
    np.testing.assert_allclose(values[1], VALUES["while"]["values"][2][0])


def test_the_calling_node_keeps_its_name_and_outputs(graph: Graph) -> None:
    graph_def = _graph_def("while")
    [loop] = [n for n in graph_def.node if n.op == "StatelessWhile"]
    tf.import_graph_def(graph_def, name="")
    op = graph.get_operation_by_name(loop.name)
    assert op.type == "IdentityN" and len(op.outputs) == len(loop.attr["T"].list.type)


def test_a_function_that_is_not_there(graph: Graph) -> None:
    graph_def = _graph_def("if")
    del graph_def.library.function[:]
    with pytest.raises(NotFoundError, match="calls the function 'cond_true"):
        tf.import_graph_def(graph_def)


def test_a_call_by_the_functions_own_name_with_open_attributes(graph: Graph) -> None:
    graph_def = tf.GraphDef()
    function = graph_def.library.function.add()
    function.signature.name = "Twice"
    function.signature.input_arg.add(name="a", type_attr="T")
    function.signature.output_arg.add(name="b", type_attr="T")
    node = function.node_def.add(name="sum", op="AddV2", input=["a", "a"])
    node.attr["T"].placeholder = "T"
    function.ret["b"] = "sum:z:0"
    for name, source in (("p", ""), ("q", "x"), ("r", "q")):
        node = graph_def.node.add(name={"p": "x"}.get(name, name), op="Twice" if source else "Placeholder")
        node.input.extend([source] if source else [])
        node.attr["T" if source else "dtype"].type = tf.float32.as_datatype_enum
    [out] = tf.import_graph_def(graph_def, {"x": tf.constant(1.5)}, ["r:0"]) or []
    with tf.Session() as session:
        assert session.run(out) == 6.0
