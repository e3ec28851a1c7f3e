"""A segment's first run, without code: what the generated function does, in values, memory and errors."""

from __future__ import annotations

import random
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.worker import adapt, codegen, interpreted, reuse
from sparkflow_runtime.worker.codegen import Call, compile_segment
from sparkflow_runtime.worker.interpreted import interpret
from tests.runtime.worker.test_lanes import _random_calls


class _Large:
    """Something that can be watched."""


def _watched() -> tuple[Callable[[], _Large], list[Any]]:
    """(makes one, a weak reference to each that was made)."""
    seen: list[Any] = []

    def make() -> _Large:
        one = _Large()
        seen.append(weakref.ref(one))
        return one

    return make, seen


@pytest.mark.parametrize("seed", range(60))
def test_values_are_those_of_the_generated_function(seed: int) -> None:
    rng = random.Random(seed)
    calls = _random_calls(rng, rng.randrange(2, 60))
    found = []
    for form in (compile_segment(calls).run, lambda values: interpret(None, calls, values)):
        values: list[Any] = [3] + [None] * len(calls)
        form(values)
        found.append(values)
    assert found[0] == found[1]


def test_expressions_of_numbers() -> None:
    calls = [
        Call("a", "{} + {}", [("slot", 0), ("const", 2)]),
        Call("b", "-{}", [("local", 0)], [(1, None)]),
        Call("c", "{} * {}", [("local", 1), ("local", 1)], [(2, None)]),
    ]
    values: list[Any] = [5, None, None]
    interpret(None, calls, values)
    assert values == [5, -7, 49]


def test_values_are_dropped_after_their_last_use() -> None:
    make, seen = _watched()
    calls = [
        Call("a", make, []),
        Call("b", lambda: (make(), make()), []),
        Call("unused", make, []),
        Call("c", lambda a, b: 5, [("local", 0), ("item", 1, 1)]),
        Call("d", lambda c: [r() is None for r in seen], [("local", 3)], [(0, None)]),
        Call("e", lambda b: 1, [("item", 1, 0)]),
    ]
    values: list[Any] = [None]
    interpret(None, calls, values)
    a, first, second, unused = values[0]
    assert (a, first, second, unused) == (True, False, True, True)


def test_the_interpreter_tells_who_holds_an_array() -> None:
    assert reuse._counts(interpreted._in_turn) is not None


def test_memory_of_dying_inputs_is_taken_in_a_first_run() -> None:
    taken: list[bool] = []

    def scale(x: np.ndarray, out: Any = None) -> np.ndarray:
        taken.append(out is not None)
        return np.multiply(x, 2.0, out=out)

    calls = [
        Call("a", lambda: np.ones(1 << 15), []),
        Call("b", scale, [("local", 0)], in_place=(0,)),
        Call("c", scale, [("local", 1)], [(0, None)], in_place=(0,)),  # what it gives is stored
        Call("d", scale, [("local", 2)], in_place=(0,)),
        Call("e", lambda x: None, [("local", 3)]),
    ]
    values: list[Any] = [None]
    interpret(None, calls, values)
    assert taken == [True, True, False]
    np.testing.assert_array_equal(values[0], np.full(1 << 15, 4.0))


def test_code_is_made_for_the_second_run(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(adapt, "compile_segment", lambda *args: made.append(args) or codegen.compile_segment(*args))
    segment = adapt.adapting([Call("n", lambda x: x + 1, [("slot", 0)], [(0, None)])], lambda: 1)
    values = [0]
    for runs in range(1, 5):
        segment.run(values)
        assert values == [runs] and len(made) == (runs > 1)


def test_runs_that_begin_during_the_first_have_code() -> None:
    """A run that does not end lets others go on."""
    going, over = threading.Event(), threading.Event()

    def wait(first: bool) -> bool:
        if first:
            going.set()
            assert over.wait(20)
        return first

    segment = adapt.adapting([Call("n", wait, [("slot", 0)], [(1, None)])], lambda: 1)
    slow: list[Any] = [True, None]
    thread = threading.Thread(target=segment.run, args=(slow,))
    thread.start()
    assert going.wait(20)
    for _ in range(3):
        values: list[Any] = [False, None]
        segment.run(values)
        assert values == [False, False]
    over.set()
    thread.join(20)
    assert slow == [True, True]


def test_an_error_names_its_node_in_every_run(graph: Any) -> None:
    x = tf.placeholder(tf.float32, [None])
    y = tf.identity(tf.gather(tf.exp(x, name="before"), [7], name="culprit"), name="after")
    v = tf.get_variable("never", [2])
    with tf.Session() as session:
        for _ in range(4):
            with pytest.raises(tf.errors.InvalidArgumentError, match="culprit") as caught:
                session.run(y, {x: [1.0]})
            assert caught.value.op is not None and caught.value.op.name == "culprit"
        for _ in range(3):
            with pytest.raises(tf.errors.FailedPreconditionError, match="never"):
                session.run(v + 1.0)


def test_an_error_leaves_no_arrays_behind() -> None:
    make, seen = _watched()

    def fail(x: Any) -> None:
        raise ValueError("no")

    try:
        interpret(None, [Call("a", make, []), Call("b", fail, [("local", 0)])], [])
    except ValueError:
        assert sys.exc_info()[1] is not None
    assert seen[0]() is None
