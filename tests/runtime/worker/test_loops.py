"""Loops by both executors, with kernels made for the purpose: errors, cancelling, memory, iterations in flight."""

from __future__ import annotations

import threading
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import sparkflow_runtime.kernels.table  # noqa: F401
from sparkflow_runtime.kernels import registry
from sparkflow_runtime.kernels.registry import Node, asynchronous, bound, kernel
from sparkflow_runtime.wire.dtypes import float32
from sparkflow_runtime.wire.errors import CancelledError, DeadlineExceededError, InternalError, InvalidArgumentError
from sparkflow_runtime.worker.frame_plan import FramePlan
from sparkflow_runtime.worker.step import Step
from sparkflow_runtime.worker.worker import Worker

FRAME = {"frame_name": "loop", "parallel_iterations": 3}
CALLS: dict[str, int] = {}
PARKED: list[tuple[str, Callable[[], None]]] = []


@pytest.fixture(autouse=True)
def _kernels() -> Iterator[None]:
    registry.load_all()
    before = dict(registry._KERNELS)
    CALLS.clear()
    PARKED.clear()

    @kernel("TSeen")
    def _seen(xp: Any, x: Any) -> Any:
        CALLS["TSeen"] = CALLS.get("TSeen", 0) + 1
        return x + 0

    kernel("TFail")(lambda xp, x: np.reshape(x, (7, 7)))

    @bound("TCount")
    def _count(node: Node) -> Any:
        calls = iter(range(1000))
        return lambda *inputs: np.float32(next(calls))

    @asynchronous("TWait")
    def _wait(node: Node) -> Any:
        def wait(step: Any, done: Any, *inputs: Any) -> None:
            token = step.on_cancel(lambda error: done(error, ()))

            def go() -> None:
                step.off_cancel(token)
                done(None, inputs)

            PARKED.append((node.name, go))

        return wait

    yield
    registry._KERNELS.clear()
    registry._KERNELS.update(before)


@pytest.fixture(params=[True, False], ids=["native", "frames"])
def worker(request: Any) -> Worker:
    made = Worker("/job:localhost/replica:0/task:0")
    made.native_loops = request.param
    return made


def const(node: Any, name: str, value: Any, *inputs: str) -> Any:
    return node(name, "Const", *inputs, value=np.asarray(value, np.float32))


def loop(node: Any, limit: float, *body: Any, start: Any = 1.0, result: str = "s1") -> list[Any]:
    """for i in range(limit): s = body(s), where the body reads 'sb' and 'i1' and makes `result`."""
    return [
        const(node, "zero", 0),
        const(node, "start", start),
        const(node, "limit", limit),
        node("i0", "Enter", "zero", **FRAME),
        node("s0", "Enter", "start", **FRAME),
        node("n", "Enter", "limit", is_constant=True, **FRAME),
        node("i", "Merge", "i0", "i2"),
        node("s", "Merge", "s0", "s2"),
        node("less", "Less", "i", "n"),
        node("again", "LoopCond", "less"),
        node("si", "Switch", "i", "again"),
        node("ss", "Switch", "s", "again"),
        node("ib", "Identity", "si:1"),
        node("sb", "Identity", "ss:1"),
        const(node, "one", 1, "^ib"),
        node("i1", "AddV2", "ib", "one"),
        *body,
        node("i2", "NextIteration", "i1"),
        node("s2", "NextIteration", result),
        node("count", "Exit", "si"),
        node("out", "Exit", "ss"),
    ]


def run(worker: Worker, graph: Any, *fetches: str, timeout_s: float | None = 20) -> list[Any]:
    return begin(worker, graph, *fetches).run(timeout_s)


def begin(worker: Worker, graph: Any, *fetches: str) -> Step:
    handle = worker.register("session", graph, [], list(fetches))
    return worker.begin(handle, len(worker._parts), [])


def test_a_loop_counts(worker: Worker, node: Any, graph_def: Any) -> None:
    graph = graph_def(*loop(node, 5, node("s1", "Mul", "sb", "i1")))
    assert run(worker, graph, "out:0", "count:0") == [120, 5]
    handle = worker.register("session", graph, [], ["out:0"])
    assert isinstance(worker._plan(handle), FramePlan) != worker.native_loops


def test_errors_name_the_node_of_the_loop(worker: Worker, node: Any, graph_def: Any) -> None:
    graph = graph_def(*loop(node, 5, node("bad", "TFail", "sb"), result="bad"))
    with pytest.raises(InvalidArgumentError, match=r"\[\[node bad \(TFail\)") as caught:
        run(worker, graph, "out:0")
    assert caught.value.node_def.name == "bad"


def test_a_body_that_never_runs_cannot_fail(worker: Worker, node: Any, graph_def: Any) -> None:
    """Not even with what is the same in every iteration."""
    body = [const(node, "c", 3, "^ib"), node("bad", "TFail", "c"), node("s1", "AddV2", "sb", "bad")]
    assert run(worker, graph_def(*loop(node, 0, *body)), "out:0") == [1]
    with pytest.raises(InvalidArgumentError, match="node bad"):
        run(worker, graph_def(*loop(node, 1, *body)), "out:0")


def test_what_is_the_same_in_every_iteration(worker: Worker, node: Any, graph_def: Any) -> None:
    body = [const(node, "c", 3, "^ib"), node("seen", "TSeen", "c"), node("s1", "AddV2", "sb", "seen")]
    assert run(worker, graph_def(*loop(node, 4, *body)), "out:0") == [13]
    assert CALLS["TSeen"] == (1 if worker.native_loops else 4)


def test_stateful_kernels_run_in_every_iteration(worker: Worker, node: Any, graph_def: Any) -> None:
    body = [node("drawn", "TCount", "^ib"), node("s1", "AddV2", "sb", "drawn")]
    graph = graph_def(*loop(node, 4, *body, start=0))
    assert run(worker, graph, "out:0") == [0 + 1 + 2 + 3]
    assert run(worker, graph, "out:0") == [4 + 5 + 6 + 7], "the plans of a session share the kernel's state"


def test_sums_are_not_seen_to_change(worker: Worker, node: Any, graph_def: Any) -> None:
    """The loop adds in place where it may: not to its first value, nor to one that a stack or an array still holds."""
    start = np.ones((3, 2))
    body = [
        node("handle", "Enter", "array", is_constant=True, **FRAME),
        node("flow", "Enter", "array:1", is_constant=True, **FRAME),
        node("kept", "TensorArrayWriteV3", "handle", "at", "sb", "flow"),
        node("s1", "AddV2", "sb", "by", "^kept"),
        const(node, "by", start * 2, "^ib"),
        node("at", "Const", "^ib", value=np.array(0, np.int32)),
    ]
    nodes = loop(node, 1, *body, start=start)
    more = [
        node("size", "Const", value=np.array(1, np.int32)),
        node("array", "TensorArrayV3", "size", dtype=float32, dynamic_size=False),
        node("first", "Const", "^out", value=np.array(0, np.int32)),
        node("held", "TensorArrayReadV3", "array", "first", "array:1", "^out", dtype=float32),
        node("again_start", "Identity", "start", "^out"),
    ]
    out, held, first = run(worker, graph_def(*nodes, *more), "out:0", "held:0", "again_start:0")
    assert (out == 3).all() and (held == 1).all() and (first == 1).all()
    plain = [const(node, "by", start * 2, "^ib"), node("s1", "AddV2", "sb", "by")]
    nodes = loop(node, 50, *plain, start=start)
    out, first = run(
        worker, graph_def(*nodes, node("again_start", "Identity", "start", "^out")), "out:0", "again_start:0"
    )
    assert (out == 101).all() and (first == 1).all()


def test_the_values_of_an_iteration_are_released(worker: Worker, node: Any, graph_def: Any) -> None:
    body = [const(node, "by", 1, "^ib"), node("t", "AddV2", "sb", "by"), node("s1", "Mul", "t", "by")]
    graph = graph_def(*loop(node, 300, *body, start=np.zeros(100_000)))
    step = begin(worker, graph, "out:0")
    tracemalloc.start()
    try:
        out = step.run(60)[0]
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert out[0] == 300
    assert peak_bytes < 20 * out.nbytes, "not one array an iteration"


def test_a_loop_without_end_is_cancelled(worker: Worker, node: Any, graph_def: Any) -> None:
    graph = graph_def(*loop(node, np.inf, node("s1", "Mul", "sb", "one")))
    with pytest.raises(DeadlineExceededError, match=r"not done in 0.2 s"):
        run(worker, graph, "out:0", timeout_s=0.2)
    step = begin(worker, graph, "out:0")
    threading.Timer(0.1, step.cancel, [CancelledError("Session has been closed.")]).start()
    with pytest.raises(CancelledError, match="Session has been closed"):
        step.run()


def test_fetches_and_feeds_stay_outside_of_loops(worker: Worker, node: Any, graph_def: Any) -> None:
    graph = graph_def(*loop(node, 5, node("s1", "Mul", "sb", "i1")))
    with pytest.raises(InvalidArgumentError, match="Fetch 's1:0' is in a loop"):
        worker.register("session", graph, [], ["s1:0"])
    with pytest.raises(InvalidArgumentError, match="'sb:0' cannot be fed: 's1' reads it in a loop"):
        worker.register("session", graph, ["sb:0"], ["out:0"])


# ---------------------------------------------------------------------- what only frames can run


def frames(node: Any, graph_def: Any, nodes: list[Any]) -> Step:
    worker = Worker("/job:localhost/replica:0/task:0")
    return begin(worker, graph_def(*nodes), "out:0")


def test_iterations_overlap_as_far_as_the_loop_allows(node: Any, graph_def: Any) -> None:
    """The counter runs ahead of what waits, three iterations (parallel_iterations) at most."""
    body = [node("wait", "TWait", "ib"), node("s1", "AddV2", "sb", "wait")]
    step = frames(node, graph_def, loop(node, 6, *body, start=0))
    step._drain()
    assert len(PARKED) == 3
    released = 0
    while PARKED:
        PARKED.pop(0)[1]()
        released += 1
        step._drain()
        assert len(PARKED) <= 3
    assert released == 6
    assert step.run(10) == [15]


def test_who_waits_in_a_loop_is_named(node: Any, graph_def: Any) -> None:
    body = [node("wait", "TWait", "ib"), node("s1", "AddV2", "sb", "wait")]
    step = frames(node, graph_def, loop(node, 6, *body))
    with pytest.raises(DeadlineExceededError, match="Waiting in TWait 'wait', TWait 'wait', TWait 'wait'"):
        step.run(0.1)
    assert len(PARKED) == 3
    PARKED[0][1]()  # too late: nothing happens


def test_a_wait_in_a_branch_of_a_loop(node: Any, graph_def: Any) -> None:
    """Only even iterations wait."""
    body = [
        const(node, "two", 2, "^ib"),
        node("rest", "FloorMod", "ib", "two"),
        const(node, "none", 0, "^ib"),
        node("even", "Equal", "rest", "none"),
        node("branch", "Switch", "sb", "even"),
        node("wait", "TWait", "branch:1"),
        node("both", "Merge", "branch", "wait"),
        node("s1", "AddV2", "both", "one"),
    ]
    step = frames(node, graph_def, loop(node, 5, *body, start=0))
    threads = 0
    step._drain()
    while PARKED:
        threads += 1
        PARKED.pop()[1]()
        step._drain()
    assert threads == 3 and step.run(10) == [5]


def test_a_loop_of_another_shape(node: Any, graph_def: Any) -> None:
    """Its Exit leaves from the other side of the Switch, in every iteration but the last: the first one counts."""
    nodes = loop(node, 5, node("s1", "Mul", "sb", "i1"))
    by_name = {n.name: n for n in nodes}
    by_name["out"].input[0] = "s"
    del by_name["count"]
    step = frames(node, graph_def, list(by_name.values()))
    assert isinstance(step.plan, FramePlan)
    assert step.run(10)[0] in (1, 120)


def test_what_can_never_run_is_an_error_not_a_hang(node: Any, graph_def: Any) -> None:
    nodes = loop(node, 5, node("s1", "Mul", "sb", "i1"))
    by_name = {n.name: n for n in nodes}
    by_name["again"].op = "Identity"
    by_name["i"].input[0] = "i2"
    by_name["i"].input[1] = "s2"
    with pytest.raises((InternalError, InvalidArgumentError)):
        frames(node, graph_def, list(by_name.values())).run(5)


@pytest.mark.parametrize("worker", [False], ids=["frames"], indirect=True)
def test_a_step_in_which_a_wait_has_just_ended_is_not_stuck(
    worker: Worker, node: Any, graph_def: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who ends the wait is held up before it can wake the step, while the last of what was ready runs."""
    ended, over = threading.Event(), threading.Event()
    advance = Step._advance

    def held_up(step: Step, *units: Any) -> None:
        ended.set()
        over.wait(30)
        advance(step, *units)

    @kernel("TBeside")
    def _beside(xp: Any, x: Any) -> Any:
        threading.Thread(target=PARKED[0][1]).start()
        assert ended.wait(30)
        return x

    monkeypatch.setattr(Step, "_advance", held_up)
    body = [node("w", "TWait", "sb"), node("later", "Identity", "ib"), node("beside", "TBeside", "later")]
    step = begin(worker, graph_def(*loop(node, 1, *body, node("s1", "AddV2", "w", "w"))), "out:0")
    threading.Timer(0.2, over.set).start()
    assert step.run(20) == [2]
