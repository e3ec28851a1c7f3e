"""Whatever the passes do to a graph, its values keep their bits: random graphs run with every pass on and off."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import sparkflow as tf
from sparkflow_runtime.kernels import fused_machine
from sparkflow_runtime.memory import LIMIT
from sparkflow_runtime.wire.protos import RewriterConfig
from sparkflow_runtime.worker import plan, reuse

TOGGLES = [
    "dependency_optimization",
    "constant_folding",
    "arithmetic_optimization",
    "common_subgraph_elimination",
    "layout_optimizer",
    "remapping",
]
ROWS, COLUMNS = 5, 6

UNARY = [
    tf.negative, tf.abs, tf.square, tf.exp, tf.tanh, tf.sigmoid, tf.nn.relu, tf.nn.relu6, tf.nn.elu, tf.nn.softplus,
    tf.floor, tf.sign, tf.identity, tf.stop_gradient, tf.zeros_like, tf.nn.leaky_relu,
    lambda x: tf.sqrt(tf.abs(x)), lambda x: tf.log1p(tf.abs(x)), lambda x: tf.reduce_sum(x, []),
    lambda x: tf.reshape(tf.reshape(x, [-1]), tf.shape(x)), lambda x: tf.reshape(x, [ROWS, COLUMNS]),
    lambda x: tf.transpose(tf.transpose(x)), lambda x: tf.transpose(tf.nn.relu(tf.transpose(x))),
    lambda x: tf.cast(tf.cast(x, tf.float64), tf.float32), lambda x: x * 1.0, lambda x: x + 0.0, lambda x: x - 0.0,
    lambda x: x / 4.0, lambda x: x / 3.0, lambda x: tf.add_n([x]), lambda x: tf.tile(x, [1, 1]),
    lambda x: x + tf.reduce_mean(x), lambda x: tf.matmul(x, x, transpose_b=True)[:, :1] * x,
]  # fmt: skip
BINARY = [
    tf.add, tf.subtract, tf.multiply, tf.maximum, tf.minimum, tf.squared_difference,
    lambda a, b: tf.where(a > b, a, b), lambda a, b: tf.add_n([a, b, a]), lambda a, b: a + -b,
    lambda a, b: tf.nn.relu(tf.matmul(a, b, transpose_b=True) + tf.reduce_sum(b, 1))[:, :1] + a,
]  # fmt: skip

STEPS = st.lists(
    st.tuples(st.integers(0, len(UNARY) + len(BINARY) - 1), st.integers(0, 30), st.integers(0, 30)),
    min_size=1,
    max_size=25,
)


def config(*off: str) -> Any:
    found = tf.ConfigProto()
    for name in off:
        setattr(found.graph_options.rewrite_options, name, RewriterConfig.OFF)
    return found


def memory(option: str) -> Any:
    found = tf.ConfigProto()
    found.graph_options.rewrite_options.memory_optimization = RewriterConfig.MemOptType.Value(option)
    return found


def build(steps: list[tuple[int, int, int]], known: bool) -> tuple[dict[Any, np.ndarray], list[Any]]:
    """Placeholders with their values, and all tensors of a graph in which each step takes earlier ones."""
    rng = np.random.default_rng(len(steps))
    shape = [ROWS if known else None, COLUMNS]
    feeds = {tf.placeholder(tf.float32, shape): rng.normal(size=(ROWS, COLUMNS)).astype(np.float32) for _ in range(2)}
    row = tf.Variable(rng.normal(size=COLUMNS).astype(np.float32))
    tensors = [*feeds, tf.constant(rng.normal(size=(ROWS, COLUMNS)).astype(np.float32)), row * tf.ones([ROWS, 1])]
    for which, a, b in steps:
        x, y = tensors[a % len(tensors)], tensors[b % len(tensors)]
        made = UNARY[which](x) if which < len(UNARY) else BINARY[which - len(UNARY)](x, y)
        tensors.append(tf.clip_by_value(made, -50.0, 50.0) if which % 3 == 0 else made)
    return feeds, tensors


def bits(values: Any) -> list[bytes]:
    return [np.asarray(v).tobytes() for v in values]


@pytest.fixture(scope="module", autouse=True)
def machine() -> None:
    assert fused_machine.wait(120), "the interpreter of fused nodes passes its own check on this machine"


@settings(max_examples=40, deadline=None)
@given(STEPS, st.booleans(), st.integers(0, 7))
def test_values_and_gradients_keep_their_bits(steps: list[tuple[int, int, int]], known: bool, seed: int) -> None:
    with tf.Graph().as_default(), np.errstate(all="ignore"):
        feeds, tensors = build(steps, known)
        last = tensors[-1]
        gradients = [g for g in tf.gradients(last, tensors[:4]) if g is not None]
        fetches = [last, *gradients, *tensors[4 + seed :: 7]]
        init = tf.global_variables_initializer()
        found = []
        for settings_ in (config(*TOGGLES), config(), *(config(*(set(TOGGLES) - {t})) for t in TOGGLES)):
            with tf.Session(config=settings_) as session:
                session.run(init)
                found.append(bits(session.run(fetches, feeds)))
        for each, other in zip(["all", *TOGGLES], found[1:]):
            assert other == found[0], f"with {each}"


@settings(max_examples=15, deadline=None)
@given(STEPS, st.integers(0, 30))
@example([*[(0, 0, 0)] * 3, (22, 0, 0), *[(0, 0, 0)] * 5, (21, 20, 0)], 1)  # transposes of one that stays
def test_any_tensor_may_be_fed(steps: list[tuple[int, int, int]], which: int) -> None:
    """Also one that the passes know, or would like to fuse."""
    with tf.Graph().as_default(), np.errstate(all="ignore"):
        feeds, tensors = build(steps, known=True)
        given_ = tensors[which % len(tensors)]
        feeds[given_] = np.full((ROWS, COLUMNS), 0.75, np.float32)
        init = tf.global_variables_initializer()
        found = []
        for settings_ in (config(*TOGGLES), config()):
            with tf.Session(config=settings_) as session:
                session.run(init)
                found.append(bits(session.run(tensors, feeds)))
        assert found[0] == found[1]


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that memory is saved by happens to small tensors too, and as much of it as can."""
    assert reuse._counts() is not None
    monkeypatch.setattr(reuse, "REUSED_BYTES", 2)
    monkeypatch.setattr(plan, "REUSED_BYTES", 2)
    passes = "sparkflow_runtime.master.passes."
    for name, value in (("swap._LEAST_BYTES", 2), ("swap._LEAST_GAP", 2), ("schedule._WORTH_BYTES", 1)):
        module, _, attribute = name.partition(".")
        monkeypatch.setattr(import_module(passes + module), attribute, value)
    monkeypatch.setenv(LIMIT, "1")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS, st.booleans(), st.integers(0, 7))
def test_options_for_memory_keep_the_bits(
    eager: None, steps: list[tuple[int, int, int]], known: bool, seed: int
) -> None:
    """Three steps that change a variable which the graph reads, by the gradient of its last tensor."""
    with tf.Graph().as_default(), np.errstate(all="ignore"):
        feeds, tensors = build(steps, known)
        (row,) = tf.global_variables()
        (gradient,) = tf.gradients(tensors[-1], [row])
        step = row.assign_add(tf.zeros([COLUMNS]) if gradient is None else tf.clip_by_value(gradient, -1.0, 1.0))
        fetches = [step, tensors[-1], *tensors[4 + seed :: 7]]
        init = tf.global_variables_initializer()
        options = [
            "NO_MEM_OPT",
            "RECOMPUTATION_HEURISTICS",
            "SWAPPING_HEURISTICS",
            "SCHEDULING_HEURISTICS",
            "HEURISTICS",
        ]
        found = []
        for option in options:
            with tf.Session(config=memory(option)) as session:
                session.run(init)
                found.append([bits(session.run(fetches[1:], feeds)) for _ in range(2)])
                for _ in range(3):
                    session.run(step.op, feeds)
                found[-1].append(bits(session.run([row, *fetches[1:]], feeds)))
        for option, other in zip(options, found):
            assert other == found[0], f"with {option}"
