"""Variables filled side by side: which lines belong together, the bits, and who fails."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
import sparkflow_runtime.kernels.table  # noqa: F401  (fills the kernel table)
from sparkflow_runtime import threads
from sparkflow_runtime.kernels.registry import find
from sparkflow_runtime.wire.attrs import kernel_attrs
from sparkflow_runtime.worker import adapt, strands
from sparkflow_runtime.worker.strands import Strand, dealt


@pytest.fixture
def two_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strands, "_WORTH_BYTES", 1)
    monkeypatch.setattr(threads, "_inter_op", [2])


def _found(build: Callable[[], Any], worth: int, monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """The names of the nodes of each strand, constants left out as plans leave them."""
    monkeypatch.setattr(strands, "_WORTH_BYTES", worth)
    with tf.Graph().as_default() as graph:
        build()
    nodes = [n for n in graph.as_graph_def(add_shapes=True).node if n.op != "Const"]
    kernels = {n.name: find(n.op, "CPU") for n in nodes}
    found = strands.strands(nodes, kernels, {n.name: kernel_attrs(n) for n in nodes})
    return [{nodes[line].name for line in strand.lines} for strand in found]


def _two() -> None:
    for name in "ab":
        tf.get_variable(name, [64], initializer=tf.random_uniform_initializer(seed=1))
    tf.global_variables_initializer()


def test_each_variable_is_a_strand(monkeypatch: pytest.MonkeyPatch) -> None:
    def grouped() -> None:
        _two()
        tf.group(tf.group(tf.get_default_graph().get_operation_by_name("init")), name="whole")

    a, b, *done = _found(grouped, 1, monkeypatch)
    assert a == {"a", "a/Assign", "a/read", "a/Initializer/random_uniform/RandomUniform"}
    assert b == {"b" + name[1:] for name in a} and {"init"} in done and {"whole"} in done


def test_what_waits_or_is_shared_is_one_strand(monkeypatch: pytest.MonkeyPatch) -> None:
    def waits() -> None:
        a = tf.get_variable("a", [64], initializer=tf.random_uniform_initializer(seed=1))
        b = tf.get_variable("b", [64], initializer=tf.zeros_initializer())
        with tf.control_dependencies([a.initializer]):
            tf.assign(b, tf.random_uniform([64]))

    def shared() -> None:
        _two()
        graph = tf.get_default_graph()
        for name in "ab":
            graph.get_operation_by_name(name).attrs["shared_name"] = "one"

    assert any({"a", "b"} <= strand for strand in _found(waits, 1, monkeypatch))
    assert any({"a", "b"} <= strand for strand in _found(shared, 1, monkeypatch))


def test_little_work_and_other_effects_stay_in_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def counts() -> None:
        _two()
        tf.assign_add(tf.get_variable("n", [], initializer=tf.zeros_initializer()), 1.0)

    assert _found(_two, 1 << 20, monkeypatch) == []
    assert _found(counts, 1, monkeypatch) == []


def test_lanes_have_about_as_much() -> None:
    found = [Strand(size, [2 * i, 2 * i + 1]) for i, size in enumerate([1, 5, 2, 4, 3, 0])]
    lanes = dealt(found, 2)
    assert sorted(line for lane in lanes for line in lane) == list(range(12))
    assert all(lane == sorted(lane) for lane in lanes)
    loads = [sum(s.num_bytes for s in found if s.lines[0] in lane) for lane in lanes]
    assert max(loads) - min(loads) <= 1
    assert dealt(found[:1], 2) == [[0, 1]]


def _initialized(count: int) -> list[Any]:
    with tf.Graph().as_default(), tf.Session() as session:
        made = [
            tf.get_variable(f"v{i}", [100, 8], initializer=tf.random_uniform_initializer(-1, 1, seed=i))
            for i in range(count)
        ]
        made += [tf.get_variable(f"n{i}", [50, 8], initializer=tf.truncated_normal_initializer(seed=i)) for i in (1, 2)]
        session.run(tf.global_variables_initializer())
        return session.run(made)


def test_same_bits_in_two_threads(two_lanes: None, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: set[int] = set()
    interpret = adapt.interpret

    def seen(*args: Any) -> None:
        ran.add(threading.get_ident())
        interpret(*args)

    monkeypatch.setattr(adapt, "interpret", seen)
    found = _initialized(30)
    assert len(ran) == 2
    monkeypatch.setattr(threads, "_inter_op", [1])
    ran.clear()
    for a, b in zip(found, _initialized(30), strict=True):
        np.testing.assert_array_equal(a, b)
    assert len(ran) == 1


def test_an_error_names_its_node(two_lanes: None) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        for i in range(20):
            tf.get_variable(f"v{i}", [100, 8], initializer=tf.random_uniform_initializer(seed=i))
        size = tf.placeholder_with_default([100, 9], [2])
        bad = tf.assign(tf.get_variable("bad", [100, 8]), tf.random_uniform(size), name="wrong", validate_shape=True)
        with pytest.raises(tf.errors.InvalidArgumentError, match="wrong") as raised:
            session.run(tf.group(bad, tf.global_variables_initializer()))
        assert raised.value.op is bad.op


def test_processors_that_blas_leaves_to_others_fill_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_inter_op", [])
    monkeypatch.setattr(threads, "allowed", lambda: 1)
    monkeypatch.setattr(threads, "filling", lambda: 2)
    assert (threads.inter_op(), threads.inter_op(True)) == (1, 2)
    monkeypatch.setattr(threads, "_inter_op", [1])
    assert threads.inter_op(True) == 1
