"""Segments whose calls run side by side: schedules, generated functions, what happens when one fails, who decides."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime import threads
from sparkflow_runtime.worker import adapt, lane_threads
from sparkflow_runtime.worker.codegen import Call, Segment, compile_segment
from sparkflow_runtime.worker.lane_code import compile_lanes
from sparkflow_runtime.worker.lane_schedule import Cost, schedule
from tests.interrupts import interrupted


def _calls(rows: Sequence[tuple[Sequence[int], bool]]) -> list[Call]:
    """rows: the lines whose values a call adds up, and whether it is pure. Each adds 1, and stores its value."""
    return [
        Call(f"n{i}", lambda *xs: sum(xs) + 1, [("local", j) for j in inputs], [(i, None)], (), pure)
        for i, (inputs, pure) in enumerate(rows)
    ]


def _lanes_of(calls: Sequence[Call], seconds: Sequence[float], lanes: int = 2) -> list[list[list[int]]]:
    return schedule(calls, [Cost(s) for s in seconds], lanes)


def test_two_long_chains_go_to_two_lanes() -> None:
    calls = _calls([((), True), ((0,), True), ((), True), ((2,), True), ((1, 3), True)])
    ((first, second),) = _lanes_of(calls, [1e-3] * 4 + [1e-6])
    assert sorted([first[:2], second[:2]]) == [[0, 1], [2, 3]]
    assert sorted(first + second) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("rows", "seconds", "why"),
    [
        ([((), True), ((0,), True), ((1,), True)], [1e-3] * 3, "a chain"),
        ([((), True), ((), True)], [3e-5] * 2, "too short"),
        ([((), True), ((), True)], [5e-3, 1e-5], "nothing to run beside the long one"),
        ([((), False), ((), False)], [1e-3] * 2, "effects stay in their order"),
    ],
)
def test_what_stays_in_one_thread(rows: Any, seconds: list[float], why: str) -> None:
    regions = _lanes_of(_calls(rows), seconds)
    assert [len(lanes) for lanes in regions] == [1], why
    assert regions[0][0] == list(range(len(rows)))


def test_calls_that_use_all_threads_are_not_put_beside_others() -> None:
    calls = _calls([((), True), ((), True)])
    assert schedule(calls, [Cost(1e-3, True), Cost(1e-3, True)], 2) == [[[0, 1]]]


def test_effects_divide_regions_and_names_come_first() -> None:
    calls = _calls([((), True), ((), True), ((0, 1), False), ((2,), True), ((2,), True)])
    calls.append(Call("v", lambda: 7, [], [(5, None)], (), False, is_name=True))
    regions = _lanes_of(calls, [1e-3] * 6)
    assert [sorted(line for lane in lanes for line in lane) for lanes in regions] == [[5], [0, 1], [2], [3, 4]]
    assert [len(lanes) for lanes in regions] == [1, 2, 1, 2]


def _random_calls(rng: random.Random, size: int) -> list[Call]:
    """Integer arithmetic of one, several and no outputs; what is not pure writes into a log that later ones read."""
    log = [0]

    def pure(*xs: Any) -> Any:
        return (sum(int(x) for x in xs) * 31 + len(xs)) % 1_000_003

    def pair(*xs: Any) -> Any:
        return pure(*xs), pure(*xs, 5)

    def effect(*xs: Any) -> Any:
        log[0] = (log[0] * 17 + pure(*xs)) % 1_000_003
        return log[0]

    calls: list[Call] = []
    pairs: set[int] = set()
    for i in range(size):
        args: list[tuple[Any, ...]] = [("const", rng.randrange(100))]
        for j in rng.sample(range(i), min(i, rng.randrange(4))):
            args.append(("item", j, rng.randrange(2)) if j in pairs else ("local", j))
        args += [("slot", 0)] * rng.randrange(2)
        kind = rng.random()
        stores = [] if rng.random() < 0.6 else [(i + 1, 1 if kind < 0.3 else None)]
        if kind < 0.3:
            pairs.add(i)
        function: Callable[..., Any] = pair if kind < 0.3 else pure if kind < 0.9 else effect
        calls.append(Call(f"n{i}", function, args, stores, (), function is not effect))
    calls.append(Call("reset", lambda: log.__setitem__(0, 0), [], [], (), False))
    return calls


@pytest.mark.parametrize("seed", range(60))
def test_lanes_compute_what_the_straight_function_does(seed: int) -> None:
    rng = random.Random(seed)
    calls = _random_calls(rng, rng.randrange(2, 60))
    costs = [Cost(rng.choice([1e-6, 1e-5, 5e-4, 2e-3]), rng.random() < 0.1) for _ in calls]
    segment = compile_segment(calls)
    regions = schedule(calls, costs, rng.choice([2, 3, 4]))
    assert sorted(line for lanes in regions for lane in lanes for line in lane) == list(range(len(calls)))
    run = compile_lanes(calls, regions, segment)
    found = []
    for form in (segment.run, run, run):
        values: list[Any] = [3] + [None] * len(calls)
        form(values)
        found.append(values)
    assert found[0] == found[1] == found[2]


def test_without_free_threads_a_region_runs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_threads._mates, "take", lambda count, most: None)
    calls = _calls([((), True), ((), True), ((0, 1), True)])
    run = compile_lanes(calls, [[[0, 2], [1]]], compile_segment(calls))
    values: list[Any] = [None] * 3
    run(values)
    assert values == [1, 1, 3]


def _failing(first: bool) -> tuple[list[Call], Segment, Callable[[list[Any]], None]]:
    def fail() -> Any:
        raise ValueError("no such row")

    calls = _calls([((), True), ((), True), ((0, 1), True), ((2,), True)])
    calls[0 if first else 1].function = fail
    segment = compile_segment(calls)
    return calls, segment, compile_lanes(calls, [[[0, 2, 3], [1]]], segment)


@pytest.mark.parametrize("first", [True, False])
def test_an_error_ends_all_lanes_and_is_found_at_its_node(first: bool) -> None:
    _, segment, run = _failing(first)
    for _ in range(50):  # whoever is first
        with pytest.raises(ValueError, match="no such row") as caught:
            run([None] * 4)
        lines = [t.tb_lineno for t in _frames(caught.value) if t.tb_frame.f_code.co_filename == segment.filename]
        assert segment.nodes[lines[0 if len(lines) == 1 else -1]] == ("n0" if first else "n1")


def _frames(error: BaseException) -> list[Any]:
    found, at = [], error.__traceback__
    while at is not None:
        found.append(at)
        at = at.tb_next
    return found


@pytest.mark.parametrize("event", range(45))
def test_an_interrupted_region_is_over(event: int) -> None:
    """No lane of it runs on beside the next step, and none waits for ever."""
    running: list[int] = []

    def lane(values: list[Any], between: list[Any], take: Any, give: Any) -> None:
        running.append(1)
        try:
            time.sleep(0.005)
            give(1)
            take(0)
        finally:
            running.pop()

    def first(values: list[Any], between: list[Any], take: Any, give: Any) -> None:
        give(0)
        take(1)

    interrupted(lambda: lane_threads.meet([], [], first, [first, lane], [0, 1]), event)
    assert not running
    lane_threads.meet([], [], lambda *_: None, [first, lane], [0, 1])


def test_arrays_are_free_when_a_region_is_over() -> None:
    import weakref

    class Large:
        pass

    seen: list[Any] = []

    def make() -> Large:
        one = Large()
        seen.append(weakref.ref(one))
        return one

    calls = [
        Call("a", make, [], (), (), True),
        Call("b", make, [], (), (), True),
        Call("c", lambda a, b: 5, [("local", 0), ("local", 1)], [(0, None)], (), True),
        Call("d", lambda c: [r() is None for r in seen], [("local", 2)], [(1, None)], (), False),
    ]
    run = compile_lanes(calls, [[[0, 2], [1]], [[3]]], compile_segment(calls))
    values: list[Any] = [None, None]
    run(values)
    assert values == [5, [True, True]]


# ------------------------------------------------------------------ who decides


def _sleepy(seconds: float, seen: list[str]) -> Callable[..., Any]:
    def call(*xs: Any) -> int:
        seen.append(threading.current_thread().name)
        time.sleep(seconds)
        return sum(xs) + 1

    return call


def test_a_long_segment_takes_lanes_where_they_are_quicker() -> None:
    seen: list[str] = []
    inputs: list[list[tuple[Any, ...]]] = [[], [], [("local", 0), ("local", 1)]]
    for _ in range(10):  # one that other processes disturb while it measures may stay straight
        calls = [Call(f"n{i}", _sleepy(4e-3, seen), args, [(i, None)], (), True) for i, args in enumerate(inputs)]
        segment = adapt.adapting(calls, lambda: 2)
        for _ in range(40):
            values: list[Any] = [None] * 3
            segment.run(values)
            assert values == [1, 1, 3]
        del seen[:]
        segment.run([None] * 3)
        if any(name.startswith("sparkflow-lane") for name in seen):
            return
    raise AssertionError("No lanes in ten attempts, though they take two thirds of the time")


@pytest.mark.parametrize(("seconds", "lanes"), [(0.0, 2), (2e-3, 1)])
def test_a_short_segment_or_a_single_thread_stays_straight(seconds: float, lanes: int) -> None:
    seen: list[str] = []
    calls = [Call(f"n{i}", _sleepy(seconds, seen), [], [(i, None)], (), True) for i in range(2)]
    straight = compile_segment(calls).run.__code__.co_code
    segment = adapt.adapting(calls, lambda: lanes)
    for _ in range(40):
        segment.run([None] * 2)
    assert segment.run.__code__.co_code == straight
    assert not any(name.startswith("sparkflow-lane") for name in seen)


def test_many_threads_learn_on_one_segment() -> None:
    seen: list[str] = []
    calls = [Call(f"n{i}", _sleepy(1e-3, seen), [], [(i, None)], (), True) for i in range(3)]
    segment = adapt.adapting(calls, lambda: 3)
    failures: list[Any] = []

    def many() -> None:
        for _ in range(30):
            values: list[Any] = [None] * 3
            segment.run(values)
            if values != [1, 1, 1]:
                failures.append(values)

    runners = [threading.Thread(target=many) for _ in range(4)]
    for runner in runners:
        runner.start()
    for runner in runners:
        runner.join(60)
        assert not runner.is_alive()
    assert not failures


def test_sessions_say_how_many_threads(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(threads, "_inter_op", [])
    assert threads.inter_op() == threads.allowed()
    tf.Session(graph=tf.Graph(), config=tf.ConfigProto(inter_op_parallelism_threads=1)).close()
    tf.Session(graph=tf.Graph(), config=tf.ConfigProto(inter_op_parallelism_threads=4)).close()
    assert threads.inter_op() == 1
    assert "4 asked for; an earlier session's 1 stays" in caplog.text


def test_a_graph_of_two_towers_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sorts and sums of large arrays, with variables, updates and random numbers between them."""
    monkeypatch.setattr(threads, "_inter_op", [2])
    monkeypatch.setattr(adapt, "LONG_S", 0.0)
    monkeypatch.setattr(adapt, "_BETTER", float("inf"))  # lanes stay whether they are quicker or not

    def losses(steps: int) -> list[Any]:
        with tf.Graph().as_default(), tf.Session() as sess:
            tf.set_random_seed(3)
            v = tf.Variable(np.linspace(-1, 1, 40_000, dtype=np.float32))
            noise = tf.random_normal([40_000], seed=5)
            towers = [tf.cumsum(tf.nn.top_k(f(v + noise), 40_000).values) for f in (tf.sin, tf.cos)]
            total = tf.reduce_sum(towers[0] * towers[1] / 1e6)
            step = tf.assign(v, v * 0.9 + tf.gradients(total, v)[0] * 1e-6)
            sess.run(tf.global_variables_initializer())
            return [sess.run([total, step]) for _ in range(steps)]

    lanes = losses(30)
    monkeypatch.setattr(threads, "_inter_op", [1])
    for (a, b), (c, d) in zip(lanes, losses(30), strict=True):
        assert a == c
        np.testing.assert_array_equal(b, d)
