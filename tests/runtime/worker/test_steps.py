"""Plans and steps with kernels made for the purpose: segments, waits, errors, deadlines, cancellation."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.kernels import parallel, registry
from sparkflow_runtime.kernels.registry import Node, Prompt, asynchronous, bound, kernel
from sparkflow_runtime.wire.errors import (
    AbortedError,
    CancelledError,
    DeadlineExceededError,
    InternalError,
    InvalidArgumentError,
    UnavailableError,
)
from sparkflow_runtime.worker import units
from sparkflow_runtime.worker.straight import Halted
from sparkflow_runtime.worker.worker import Worker
from tests.interrupts import interrupted

PARKED: dict[str, Callable[..., None]] = {}
READY: list[bool] = []


@pytest.fixture(autouse=True, scope="module")
def _kernels() -> Iterator[None]:
    registry.load_all()
    before = dict(registry._KERNELS)
    kernel("TAdd")(lambda xp, x, y: xp.add(x, y))
    kernel("TDot")(lambda xp, x, y: xp.matmul(x, y))
    kernel("TSplit", multi=True)(lambda xp, x, *, num: xp.split(x, num))
    kernel("TFail")(lambda xp, x: x.reshape(7, 7))

    @asynchronous("TWait")
    def _wait(node: Node) -> Any:
        def wait(step: Any, done: Any, *inputs: Any) -> None:
            token = step.on_cancel(lambda error: done(error, ()))

            def go(*values: Any) -> None:
                step.off_cancel(token)
                done(None, values or inputs)

            PARKED[node.name] = go

        return wait

    @asynchronous("TPrompt")
    def _prompt(node: Node) -> Any:
        def attempt(*inputs: Any) -> Any:
            return inputs if READY else None

        return Prompt(_wait(node), attempt)

    @bound("TCount")
    def _count(node: Node) -> Any:
        calls = iter(range(1000))
        return lambda: np.int64(next(calls))

    yield
    registry._KERNELS.clear()
    registry._KERNELS.update(before)


@pytest.fixture
def worker() -> Worker:
    return Worker("/job:localhost/replica:0/task:0")


def _const(node: Any, name: str, value: Any) -> Any:
    return node(name, "Const", value=np.asarray(value, np.float32))


def test_straight_plan(worker: Worker, node: Any, graph_def: Any) -> None:
    graph = graph_def(
        _const(node, "a", [1, 2]),
        node("b", "TAdd", "a", "a"),
        node("s", "TSplit", "b", num=2),
        node("c", "TAdd", "s:1", "s"),
    )
    handle = worker.register("s", graph, [], ["c:0", "s:1", "a:0"])
    c, s1, a = worker.run_straight(handle, [])  # type: ignore[misc]
    assert c.tolist() == [6] and s1.tolist() == [4] and a.tolist() == [1, 2]
    a[0] = 99  # a fetched constant is a copy
    assert worker.run_straight(handle, [])[2].tolist() == [1, 2]  # type: ignore[index]


def test_feeds_replace_nodes(worker: Worker, node: Any, graph_def: Any) -> None:
    graph = graph_def(_const(node, "a", [1, 2]), node("c", "TAdd", "b", "a"), node("b", "TAdd", "a", "a"))
    handle = worker.register("s", graph, ["b:0"], ["c:0"])
    assert worker.run_straight(handle, [np.float32([5, 5])])[0].tolist() == [6, 7]  # type: ignore[index]


def test_stateful_kernels_are_shared_by_the_plans_of_a_session(worker: Worker, node: Any, graph_def: Any) -> None:
    graph = graph_def(node("n", "TCount"))
    first, second = (worker.register("s", graph, [], ["n:0"]) for _ in range(2))
    other = worker.register("another session", graph, [], ["n:0"])
    drawn = [worker.run_straight(h, [])[0] for h in (first, second, first, other)]  # type: ignore[index]
    assert drawn == [0, 1, 2, 0]


def test_a_wait_splits_the_plan_and_does_not_block_what_is_independent(
    worker: Worker, node: Any, graph_def: Any
) -> None:
    graph = graph_def(
        _const(node, "a", [1]), node("w", "TWait", "a"), node("b", "TAdd", "a", "a"), node("c", "TAdd", "w", "b")
    )
    handle = worker.register("s", graph, [], ["c:0", "b:0"])
    step = worker.begin(handle, 1, [])
    step._drain()
    assert step.values[step.plan.fetches[1][0]].tolist() == [2]
    threading.Timer(0.02, lambda: PARKED["w"](np.float32([40]))).start()
    assert [v.tolist() for v in step.run(10)] == [[42], [2]]


def test_blas_is_asked_for_its_threads_only_where_a_unit_multiplies(
    worker: Worker, node: Any, graph_def: Any, monkeypatch: Any
) -> None:
    """Not whenever something has come for a step: that took a tenth of a worker's Python."""
    asked: list[int] = []

    class Asked(units.blas_alone):
        def __enter__(self) -> int:
            asked.append(1)
            return super().__enter__()

    monkeypatch.setattr(units, "blas_alone", Asked)
    monkeypatch.setattr(units, "_MULTIPLIES", {"TDot"})
    graph = graph_def(
        _const(node, "a", [1]),
        node("w", "TWait", "a"),
        node("b", "TAdd", "a", "w"),
        node("v", "TWait", "b"),
        node("c", "TDot", "m", "m"),
        node("d", "TAdd", "c", "v"),
    )
    step = worker.begin(worker.register("s", graph, ["m:0"], ["d:0"]), 1, [np.eye(2, dtype=np.float32)])
    step._drain()
    assert len(asked) == 1
    PARKED["w"](np.float32([2]))
    step._drain()
    PARKED["v"](np.float32([40]))
    assert step.run(10)[0].tolist() == [[41, 40], [40, 41]]
    assert len(asked) == 1


def _after_a_prompt_wait(worker: Worker, node: Any, graph_def: Any) -> int:
    graph = graph_def(
        _const(node, "a", [1]),
        node("n", "TCount"),
        node("w", "TPrompt", "a"),
        node("b", "TAdd", "a", "a"),
        node("c", "TAdd", "w", "b"),
    )
    return worker.register("s", graph, [], ["c:0", "n:0"])


@pytest.mark.parametrize("event", range(30))
def test_an_interrupted_step_gives_blas_its_threads_back(event: int) -> None:
    """It raises what interrupted it, and the next steps have BLAS alone as ever."""
    entered: list[Any] = []

    def run() -> None:
        try:
            units.enter((units._silent, units.blas_alone), entered)
        finally:
            try:
                units.leave(entered)
            finally:
                units.leave(entered)

    before = parallel.allowed()
    interrupted(run, event)
    interrupted(run, -1)
    assert not entered and not parallel.blas_in_use() and parallel._blas._count() == before
    with parallel.blas_alone():
        assert parallel._blas._count() == 1 and parallel.allowed() == before


def test_a_wait_that_has_its_values_is_run_straight_through(worker: Worker, node: Any, graph_def: Any) -> None:
    handle = _after_a_prompt_wait(worker, node, graph_def)
    READY.append(True)
    try:
        assert [v.tolist() for v in worker.run_straight(handle, [])] == [[3], 0]  # type: ignore[union-attr]
        assert [v.tolist() for v in worker.begin(handle, 1, []).run(5)] == [[3], 1]
    finally:
        READY.clear()


def test_a_wait_that_has_to_wait_is_gone_on_with_by_a_step(worker: Worker, node: Any, graph_def: Any) -> None:
    handle = _after_a_prompt_wait(worker, node, graph_def)
    halted = worker.run_straight(handle, [])
    assert isinstance(halted, Halted)
    step = worker.begin(handle, 1, [], halted)
    threading.Timer(0.02, lambda: PARKED["w"](np.float32([40]))).start()
    assert [v.tolist() for v in step.run(5)] == [[42], 0]
    with pytest.raises(DeadlineExceededError, match=r"Waiting in TPrompt 'w'"):
        worker.begin(handle, 2, [], worker.run_straight(handle, [])).run(0.02)  # type: ignore[arg-type]


def test_remote_steps_run_in_the_thread_that_completes_them(worker: Worker, node: Any, graph_def: Any) -> None:
    graph = graph_def(_const(node, "a", [1]), node("w", "TWait", "a"), node("c", "TAdd", "w", "a"))
    ended: list[Any] = []
    handle = worker.register("s", graph, [], ["c:0"])
    worker.start(handle, 5, [], lambda error, values: ended.append((error, values, threading.current_thread().name)))
    assert not ended
    thread = threading.Thread(target=lambda: PARKED["w"](np.float32([2])), name="completer")
    thread.start()
    thread.join()
    (error, values, name) = ended[0]
    assert error is None and values[0].tolist() == [3] and name == "completer"


def test_a_part_gets_a_thread_of_its_own_once_it_takes_long(worker: Worker, node: Any, graph_def: Any) -> None:
    """A single step of a few milliseconds may have waited for a processor: such a part stays with who reads."""
    plan = worker._plan(worker.register("s", graph_def(_const(node, "a", [1])), [], ["a:0"]))
    wanted = []
    for took_s in (1e-3, 8e-3, 1e-3, 8e-3, 8e-3, 1e-3, 0.2, 1e-3):
        plan.took(took_s)
        wanted.append(plan.wants_thread)
    assert wanted == [False, False, False, False, True, False, True, False]


def test_errors_name_the_node(worker: Worker, node: Any, graph_def: Any) -> None:
    graph = graph_def(
        _const(node, "a", [1, 2]), node("b", "TAdd", "a", "a"), node("bad", "TFail", "b", device="/device:CPU:0")
    )
    handle = worker.register("s", graph, [], ["bad:0"])
    with pytest.raises(
        InvalidArgumentError, match=r"cannot reshape.*\n.*\[\[node bad \(TFail\) on /device:CPU:0\]\]"
    ) as caught:
        worker.run_straight(handle, [])
    assert caught.value.node_def.name == "bad"
    assert isinstance(caught.value.__cause__, ValueError)


def test_deadline_says_who_waits(worker: Worker, node: Any, graph_def: Any) -> None:
    graph = graph_def(_const(node, "a", [1]), node("patient", "TWait", "a"))
    step = worker.begin(worker.register("s", graph, [], ["patient:0"]), 2, [])
    with pytest.raises(DeadlineExceededError, match=r"not done in 0.05 s. Waiting in TWait 'patient'"):
        step.run(0.05)


def test_cancel_withdraws_parked_operations(worker: Worker, node: Any, graph_def: Any) -> None:
    graph = graph_def(_const(node, "a", [1]), node("w", "TWait", "a"), node("c", "TAdd", "w", "a"))
    ended: list[Any] = []
    worker.start(worker.register("s", graph, [], ["c:0"]), 6, [], lambda error, values: ended.append(error))
    worker.rendezvous.abort(6, CancelledError("enough"))
    assert len(ended) == 1 and isinstance(ended[0], CancelledError)
    PARKED["w"](np.float32([2]))  # too late: nothing happens
    assert len(ended) == 1


def test_a_step_that_was_over_before_it_began_keeps_nothing(worker: Worker, node: Any, graph_def: Any) -> None:
    graph = graph_def(_const(node, "a", [1]), node("w", "TWait", "a"))
    handle = worker.register("s", graph, [], ["w:0"])
    told: list[Any] = []

    def late() -> None:
        worker.rendezvous.abort(6, CancelledError("enough"))

        def finish(error: Any, values: Any) -> None:
            told.append(error)

        kept.append(weakref.ref(finish))
        worker.start(handle, 6, [], finish)

    kept: list[Any] = []
    gc.disable()
    try:
        late()
        assert isinstance(told[0], CancelledError) and kept[0]() is None
    finally:
        gc.enable()


def test_bundles_may_come_before_their_step(worker: Worker, node: Any, graph_def: Any) -> None:
    attrs = {"tensor_name": "x:0", "send_device": "/job:ps/replica:0/task:0", "recv_device": worker.name, "_bundle": 3}
    graph = graph_def(node("r", "_Recv", **attrs), node("c", "TAdd", "r", "r"))
    handle = worker.register("s", graph, [], ["c:0"])
    worker.rendezvous.deliver(11, 3, [np.float32([4])])
    assert worker.begin(handle, 11, []).run(5)[0].tolist() == [8]
    step = worker.begin(handle, 12, [])
    with pytest.raises(DeadlineExceededError, match="nothing yet from /job:ps/replica:0/task:0"):
        step.run(0.02)
    step = worker.begin(handle, 13, [])
    worker.rendezvous.deliver(13, 9, [np.float32([4])])
    with pytest.raises(InternalError, match="bundle 9 of 1 tensors is not expected"):
        step.run(5)


def test_an_abort_between_the_look_and_the_beginning_of_a_step_ends_it(
    worker: Worker, node: Any, graph_def: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what it was aborted with: a peer that has lost its data may tell so before the master says to begin."""
    begin, why = worker.rendezvous.begin, list[Any]()

    def late(step_id: int, step: Any) -> Any:
        worker.rendezvous.abort(step_id, why[0])  # comes by another connection
        worker.rendezvous.abort(step_id, AbortedError("told again"))
        return begin(step_id, step)

    monkeypatch.setattr(worker.rendezvous, "begin", late)
    graph = graph_def(_const(node, "a", [1]), node("w", "TWait", "a"))
    handle, ended = worker.register("s", graph, [], ["w:0"]), list[Any]()
    why.append(CancelledError("enough"))
    worker.start(handle, 7, [], lambda error, values: ended.append(error))
    assert ended == why
    with pytest.raises(CancelledError, match="enough"):
        worker.begin(handle, 8, []).run(20)
    monkeypatch.undo()
    worker.rendezvous.end(9)
    with pytest.raises(AbortedError, match="before it began"):
        worker.begin(handle, 9, []).run(20)


def test_a_worker_that_stops_ends_its_steps_and_those_that_begin_at_that_moment(
    worker: Worker, node: Any, graph_def: Any
) -> None:
    graph = graph_def(_const(node, "a", [1]), node("w", "TWait", "a"))
    handle = worker.register("s", graph, [], ["w:0"])
    running, plan = worker.begin(handle, 1, []), worker._plan
    stopping = threading.Timer(0.05, worker.stop, (UnavailableError("the server stopped"),))
    stopping.start()
    with pytest.raises(UnavailableError, match="the server stopped"):
        running.run(20)
    stopping.join(20)  # it ends the steps first, and forgets the graphs then
    worker._plan = lambda handle: running.plan  # type: ignore[method-assign]  # found before the stop
    with pytest.raises(UnavailableError, match="the server stopped"):
        worker.begin(handle, 2, []).run(20)
    worker._plan = plan  # type: ignore[method-assign]
    with pytest.raises(AbortedError, match="has no graph"):
        worker.begin(handle, 3, [])
