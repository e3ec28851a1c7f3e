"""Programs with branches and loops: TensorFlow runs our graphs, we run its graphs, and it computes the values that
tests/ops/control_flow_values.json holds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow
from sparkflow_runtime.wire.protos import GraphDef
from tests.control_flow_programs import PROGRAMS
from tests.control_flow_random import build, evaluate, generate, gradients

tensorflow = pytest.importorskip("tensorflow.compat.v1")
tensorflow.disable_eager_execution()
tensorflow.disable_resource_variables()
tensorflow.disable_control_flow_v2()

VALUES = json.loads((Path(__file__).parents[1] / "ops" / "control_flow_values.json").read_text(encoding="utf-8"))
CELLS = find_spec("tf_keras") is not None  # TensorFlow's own cells live in Keras 2


def _built(tf: Any, name: str) -> tuple[bytes, dict[str, Any], list[str | None]]:
    with tf.Graph().as_default() as graph:
        feeds, fetches = PROGRAMS[name](tf)
        names = [None if f is None else f.name for f in fetches]
        return graph.as_graph_def().SerializeToString(), {k.name: v for k, v in feeds.items()}, names


def _run(tf: Any, make: Callable[[], Any], serialized: bytes, feeds: dict[str, Any], fetches: list[str | None]) -> Any:
    graph_def = make()
    graph_def.ParseFromString(serialized)
    with tf.Graph().as_default():
        tf.import_graph_def(graph_def, name="")
        with tf.Session() as session:
            values = iter(session.run([f for f in fetches if f is not None], feeds))
            return [None if f is None else next(values) for f in fetches]


def _check(found: list[Any], name: str) -> None:
    for got, want in zip(found, VALUES[name], strict=True):
        assert (got is None) == (want is None)
        if np.asarray(got).dtype == object and got is not None:
            assert [v.decode() for v in got] == want
        elif want is not None:
            np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", PROGRAMS)
def test_tensorflow_runs_ours(name: str) -> None:
    _check(_run(tensorflow, tensorflow.GraphDef, *_built(sparkflow, name)), name)


@pytest.mark.parametrize("name", PROGRAMS)
def test_we_run_theirs(name: str) -> None:
    if name.startswith("rnn_") and not CELLS:
        pytest.skip("this TensorFlow has no recurrent cells: they are in tf_keras")
    serialized, feeds, fetches = _built(tensorflow, name)
    _check(_run(tensorflow, tensorflow.GraphDef, serialized, feeds, fetches), name)  # the values are TensorFlow's
    _check(_run(sparkflow, GraphDef, serialized, feeds, fetches), name)


# ---------------------------------------------------------------------- random programs

ARRAYS = "'array'"
SEEDS = [s for s in range(40) if ARRAYS not in repr(generate(s, 8))][:16]

NOT_BUILT = (18,)  # TensorFlow's own gradients fail there on a loop variable whose shape is not known


def _random(tf: Any, seed: int, orders: int) -> tuple[bytes, dict[str, Any], list[str | None]]:
    with tf.Graph().as_default() as graph:
        feeds, loss, xs = build(tf, generate(seed, 8))
        fetches = gradients(tf, loss, xs, orders)
        names = [None if f is None else f.name for f in fetches]
        return graph.as_graph_def().SerializeToString(), {k.name: v for k, v in feeds.items()}, names


def _check_random(found: list[Any], seed: int) -> None:
    wanted = evaluate(generate(seed, 8), len(found) - 1)
    np.testing.assert_allclose([0.0 if f is None else f for f in found], wanted, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_tensorflow_runs_our_second_derivatives(seed: int) -> None:
    _check_random(_run(tensorflow, tensorflow.GraphDef, *_random(sparkflow, seed, 2)), seed)


@pytest.mark.parametrize("seed", [*(s for s in SEEDS if s not in NOT_BUILT), *range(100, 108)])
def test_we_run_their_derivatives(seed: int) -> None:
    """TensorFlow has no second derivatives of such loops."""
    _check_random(_run(sparkflow, GraphDef, *_random(tensorflow, seed, 1)), seed)


@pytest.fixture
def functions() -> Iterator[None]:
    """TensorFlow writes If and While nodes, whose functions have lists of tensors for arrays and for gradients."""
    tensorflow.enable_control_flow_v2()
    yield
    tensorflow.disable_control_flow_v2()


@pytest.mark.parametrize("seed", range(16))
def test_we_run_derivatives_of_their_functions(seed: int, functions: None) -> None:
    _check_random(_run(sparkflow, GraphDef, *_random(tensorflow, seed, 2)), seed)


@pytest.mark.parametrize("seed", range(16))
def test_we_differentiate_their_functions(seed: int, functions: None) -> None:
    with tensorflow.Graph().as_default() as graph:
        feeds, loss, xs = build(tensorflow, generate(seed, 8))
        serialized, values = graph.as_graph_def().SerializeToString(), {k.name: v for k, v in feeds.items()}
    with sparkflow.Graph().as_default() as ours:
        sparkflow.import_graph_def(GraphDef.FromString(serialized), name="")
        inputs = [ours.get_tensor_by_name(x.name) for x in xs]
        fetches = gradients(sparkflow, ours.get_tensor_by_name(loss.name), inputs, 2)
        with sparkflow.Session() as session:
            found = iter(session.run([f for f in fetches if f is not None], values))
        _check_random([None if f is None else next(found) for f in fetches], seed)


@pytest.mark.parametrize("seed", [*range(8), 27])
def test_theirs_is_differentiated_here(seed: int) -> None:
    """A MetaGraph of theirs without gradients; 27 has a loop that back_prop=False was said of."""
    made = generate(seed, 6)
    with tensorflow.Graph().as_default():
        feeds, loss, xs = build(tensorflow, made)
        meta = sparkflow.MetaGraphDef.FromString(tensorflow.train.export_meta_graph().SerializeToString())
        values = {tensor.name: value for tensor, value in feeds.items()}
        names = [tensor.name for tensor in (loss, *xs)]
    with sparkflow.Graph().as_default() as graph, sparkflow.Session(graph=graph) as session:
        sparkflow.train.import_meta_graph(meta)
        loss, *xs = map(graph.get_tensor_by_name, names)
        fetches = gradients(sparkflow, loss, xs, 2)
        found = iter(session.run([f for f in fetches if f is not None], values))
    found_or_zero = [0.0 if f is None else next(found) for f in fetches]
    np.testing.assert_allclose(found_or_zero, evaluate(made, 2), rtol=1e-8, atol=1e-9)
