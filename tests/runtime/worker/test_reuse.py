"""Outputs in the memory of inputs that nobody else has, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
import sparkflow_runtime.kernels.table  # noqa: F401  (fills the kernel table)
from sparkflow_runtime.kernels import fused_machine, registry
from sparkflow_runtime.worker import reuse
from sparkflow_runtime.worker.codegen import Call, compile_segment

N = reuse.REUSED_BYTES // 4
FULL = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)


def new_bytes(session: Any, fetches: Any, feed: Any = None) -> dict[str, int]:
    """Node -> the bytes it allocated in a traced step."""
    metadata = tf.RunMetadata()
    session.run(fetches, feed, FULL, metadata)
    return {n.node_name: n.memory[0].total_bytes for d in metadata.step_stats.dev_stats for n in d.node_stats}


@pytest.fixture
def plain() -> Any:
    """No pass makes one node of several."""
    return _plain()


def test_this_interpreter_tells_who_holds_an_array() -> None:
    assert reuse._counts() is not None


def test_a_chain_takes_one_array(graph: Any, plain: Any) -> None:
    x = tf.placeholder(tf.float32, [None, N // 64], name="x")
    h = tf.exp(x, name="a")
    for name in "bcd":
        h = tf.negative(h, name=name)
    with tf.Session(config=plain) as session:
        value = np.linspace(-1, 1, 4 * N).astype(np.float32).reshape(-1, N // 64)
        kept = value.copy()
        took = new_bytes(session, [tf.reduce_sum(h)], {x: value})
        assert [took[name] for name in "abcd"] == [4 * value.size, 0, 0, 0]
        np.testing.assert_array_equal(session.run(h, {x: value}), -np.exp(value))
    np.testing.assert_array_equal(value, kept)


def test_drawn_values_are_scaled_where_they_lie(graph: Any, plain: Any) -> None:
    h = tf.negative(tf.random_uniform([4 * N], 1.0, 3.0, name="drawn"), name="h")
    with tf.Session(config=plain) as session:
        took = new_bytes(session, tf.reduce_sum(h))
        assert took["drawn/RandomUniform"] == 16 * N and took["h"] == took["drawn/mul"] == took["drawn"] == 0


def test_small_arrays_are_not_asked_about(graph: Any, plain: Any) -> None:
    h = tf.negative(tf.exp(tf.random_uniform([N - 1]), name="a"), name="b")
    with tf.Session(config=plain) as session:
        assert new_bytes(session, h)["b"] == 4 * (N - 1)


def test_what_others_have_is_not_written_over(graph: Any, plain: Any) -> None:
    """A variable, a constant, a feed, a fetch, a value used later, a view of one, one used twice."""
    v = tf.Variable(tf.ones([N]), name="v")
    c = tf.constant(np.ones(N, np.float32))
    x = tf.placeholder(tf.float32, [N])
    fetched = tf.exp(x, name="fetched")
    later = tf.exp(x + 1.0, name="later")
    view = tf.reshape(later, [2, -1])
    outs = {
        "of_variable": tf.negative(v, name="of_variable"),
        "of_read": tf.negative(tf.identity(v), name="of_read"),
        "of_constant": tf.negative(c, name="of_constant"),
        "of_feed": tf.negative(x, name="of_feed"),
        "of_fetched": tf.negative(fetched, name="of_fetched"),
        "of_later": tf.negative(later, name="of_later"),
        "twice": tf.multiply(view, view, name="twice"),
    }
    fed = np.full(N, 0.5, np.float32)
    with tf.Session(config=plain) as session:
        session.run(v.initializer)
        took = new_bytes(session, [fetched, *outs.values()], {x: fed})
        assert {name: took[name] for name in outs} == dict.fromkeys(outs, 4 * N)
        for _ in range(2):
            got = session.run([fetched, *outs.values(), v, c], {x: fed})
            e = np.exp(fed)
            wanted = [e, -np.ones(N), -np.ones(N), -np.ones(N), -fed, -e, -np.exp(fed + 1), np.exp(fed + 1) ** 2]
            for mine, his in zip(got, [*wanted, np.ones(N), np.ones(N)]):
                np.testing.assert_array_equal(np.ravel(mine), his.astype(np.float32))


def test_a_view_of_all_of_a_free_array_is_free(graph: Any, plain: Any) -> None:
    whole = tf.reshape(tf.random_uniform([2, N]), [-1])
    part = tf.reshape(tf.random_uniform([2, N])[0], [-1])
    outs = [tf.negative(whole, name="whole"), tf.negative(part, name="part")]
    with tf.Session(config=plain) as session:
        took = new_bytes(session, [tf.reduce_sum(o) for o in outs])
    assert took["whole"] == 0 and took["part"] == 4 * N


def test_a_value_in_a_queue_stays(graph: Any, plain: Any) -> None:
    queue = tf.FIFOQueue(2, [tf.float32], [[N]])
    value = tf.exp(tf.zeros([N]))
    put = queue.enqueue([value])
    with tf.control_dependencies([put]):
        other = tf.negative(value)
    with tf.Session(config=plain) as session:
        session.run(other)
        np.testing.assert_array_equal(session.run(queue.dequeue()), np.ones(N))


def test_an_initial_value_becomes_the_variables_memory(graph: Any) -> None:
    v = tf.Variable(tf.random_uniform([4 * N], seed=1), name="v")
    held = tf.random_uniform([4 * N], seed=1)
    w = tf.Variable(held, name="w")
    with tf.Session() as session:
        took = new_bytes(session, v.initializer)
        assert took["v/Assign"] == 0
        first, _ = session.run([held, w.initializer])
        before = first.copy()
        session.run(w.assign_add(tf.ones([4 * N])))
        np.testing.assert_array_equal(first, before)
        np.testing.assert_array_equal(session.run(w), before + 1)


@pytest.mark.parametrize("other", [np.float32(2), np.ones(8, np.float32), np.ones((N // 8, 8), np.float32)])
def test_inputs_that_broadcast_to_it_fit(other: Any) -> None:
    x = np.ones((N // 8, 8), np.float32)
    assert reuse._fits(x, (x, other))


@pytest.mark.parametrize(
    "other", [np.float64(2), np.ones((2, N // 8, 8), np.float32), np.ones((N // 8, 1), np.float64)]
)
def test_inputs_that_would_change_type_or_shape_do_not(other: Any) -> None:
    x = np.ones((N // 8, 8), np.float32)
    assert not reuse._fits(x, (x, other))


def test_each_output_of_several_is_free_on_its_own() -> None:
    """Not when the last of them is."""
    seen: list[tuple[int, ...]] = []
    alive: list[Callable[[], Any]] = []

    def make() -> list[np.ndarray]:
        import weakref

        made = [np.ones(3), np.ones(3)]
        alive.extend(weakref.ref(m) for m in made)
        return made

    def look(x: Any) -> None:
        seen.append(tuple(ref() is not None for ref in alive))

    calls = [
        Call("m", make, []),
        Call("a", look, [("item", 0, 0)]),
        Call("b", look, [("item", 0, 1)]),
        Call("c", look, [("const", 0)]),
    ]
    compile_segment(calls).run([])
    assert seen == [(True, True), (False, True), (False, False)]


def test_a_slot_is_free_when_its_only_reader_is_done(graph: Any) -> None:
    """What waits for a queue's element does not keep what another unit has read."""
    from sparkflow_runtime.worker.units import SEGMENT

    queue = tf.FIFOQueue(1, [tf.float32], [[]])
    big = tf.exp(tf.zeros([4]), name="big")
    with tf.control_dependencies([big]):
        one = queue.dequeue()
    y = tf.reduce_sum(big * one)
    with tf.Session() as session:
        session.run(queue.enqueue(2.0))
        assert session.run(y) == 8
        plans = [p.plan for p in session._runtime._worker._parts.values()]
    plan = next(p for p in plans if len([u for u in p.units if u.kind == SEGMENT]) == 2)
    assert sum(len(u.frees) for u in plan.units) == 2


def _rows() -> list[Any]:
    names = [op for op in registry.registered() if registry.has_kernel(op, "CPU")]
    rows = [registry.find(op, "CPU") for op in names]
    return [
        r
        for r in rows
        if r.in_place and r.op not in ("Assign", "_Fused", "_FusedBatchNorm") and not r.op.startswith("Logical")
    ]


_OF_BITS = ("Invert", "BitwiseAnd", "BitwiseOr", "BitwiseXor")
_CASES = [(r, t) for r in _rows() for t in ((tf.int32, tf.int64) if r.op in _OF_BITS else (tf.float32, tf.float64))]


@pytest.mark.parametrize(("row", "dtype"), _CASES, ids=lambda x: getattr(x, "op", ""))
def test_every_kernel_gives_the_same_bits_in_place(row: Any, dtype: Any) -> None:
    """In the memory of each of its inputs that it may take; the others stay as they are."""
    rng = np.random.default_rng(0)
    unary = len(row.in_place) == 1 and row.op not in ("BiasAdd", "ReluGrad", "Relu6Grad", "Atan2", *_OF_BITS[1:])
    shape = (3, 1000, 7, 13)
    inputs = [rng.normal(scale=3, size=shape).astype(dtype.np) for _ in range(1 if unary else 2)]
    if row.op not in _OF_BITS:
        inputs[0].ravel()[:4] = [np.nan, np.inf, -0.0, 0.0]
    if row.op == "BiasAdd":
        inputs[1] = inputs[1][0, 0, 0].copy()
    attrs = {"T": dtype, "N": len(inputs)}
    function = row.factory(registry.Node("n", row.op, attrs, "", np, None, "", ("x", "y")[: len(inputs)]))  # type: ignore[arg-type]
    assert fused_machine.wait(120)  # what works step by step is in place from then on
    with np.errstate(all="ignore"):
        plain = function(*inputs)
        for i in row.in_place:
            given = [x.copy() for x in inputs]
            out = function(*given, out=given[i])
            assert out is given[i] and out.tobytes() == plain.tobytes()
            others = [(x, y) for k, (x, y) in enumerate(zip(inputs, given)) if k != i]
            assert all(x.tobytes() == y.tobytes() for x, y in others)


def test_a_fused_normalisation_takes_the_memory_of_what_it_normalises(graph: Any) -> None:
    image = tf.reshape(tf.matmul(tf.random_uniform([N // 16, 64], seed=1), tf.ones([64, 16])), [1, 1, N // 16, 16])
    near, ones = tf.cos(tf.range(16.0)), tf.ones(16)
    a = tf.add(image, 1.0, name="a")
    y = tf.nn.relu(tf.nn.fused_batch_norm(a, ones, near, near, ones, is_training=False)[0], name="y")
    fetch = tf.reduce_sum(y, [0, 1, 2])
    with tf.Session() as session, tf.Session(config=_plain()) as other:
        assert session.run(fetch).tobytes() == other.run(fetch).tobytes()
        took = new_bytes(session, fetch)
    assert took["y"] == 0


def test_a_fused_node_takes_an_input_that_it_reads_no_more(graph: Any) -> None:
    """Of two outputs, the one that comes after the last step that reads the input."""
    assert fused_machine.wait(120)
    a = tf.matmul(tf.random_uniform([N // 16, 64], seed=1), tf.ones([64, 64]), name="a")
    b = tf.exp(tf.multiply(a, 0.001), name="b")
    c = tf.add(b, a, name="c")
    fetches = [tf.reduce_sum(b), tf.reduce_sum(c)]
    with tf.Session() as session:
        took = new_bytes(session, fetches)
        found = session.run(fetches)
        with tf.Session(config=_plain()) as other:
            assert [x.tobytes() for x in found] == [x.tobytes() for x in (other.run(fetches), other.run(fetches))[1]]
    assert took["a"] == 16 * N and took["c"] == 16 * N, "two outputs, one of them in the memory of a"


def _plain() -> Any:
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return config
