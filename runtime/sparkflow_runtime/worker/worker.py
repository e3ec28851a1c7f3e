"""Worker: a task's resources, the graph parts registered with it, and the steps that run them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

from sparkflow_runtime.kernels.memories import arrays, on_its_device
from sparkflow_runtime.kernels.registry import Kernel, Node
from sparkflow_runtime.resources.manager import ResourceManager
from sparkflow_runtime.wire.bundles import Bundle
from sparkflow_runtime.wire.collector import paused
from sparkflow_runtime.wire.devices import LOCAL_TASK
from sparkflow_runtime.wire.edges import data_inputs
from sparkflow_runtime.wire.errors import AbortedError, CancelledError, NotFoundError, OpError
from sparkflow_runtime.wire.protos import GraphDef, NodeDef
from sparkflow_runtime.wire.tasks import new_handles
from sparkflow_runtime.worker.frame_plan import FramePlan, compile_any
from sparkflow_runtime.worker.frames import FrameStep
from sparkflow_runtime.worker.locate import bare
from sparkflow_runtime.worker.rendezvous import Rendezvous
from sparkflow_runtime.worker.step import Done, Elsewhere, Sender, Step
from sparkflow_runtime.worker.straight import Halted, run_straight
from sparkflow_runtime.worker.tracing import Recorder
from sparkflow_runtime.worker.units import Plan

Push = Callable[[str, int, Sequence[Bundle], tuple[int, ...], "float | None"], None]


_MOST_ENDED = 1000  # remembered sessions


@dataclass
class _Part:
    session: str
    plan: Plan


def one_lane(fills: bool = False) -> int:
    return 1


def _always(task: str) -> bool:
    return True


class Worker:
    """One task. `push(task, step_id, bundles, iterations, deadline)` carries bundles to another task; `lanes()` is
    how many threads a step may use for calls that do not need each other; `elsewhere(call)` has a call made by a thread
    that does nothing else meanwhile, for steps of other tasks that loop or take long; `reaches(task)` says whether a
    push goes off at once."""

    def __init__(
        self,
        name: str,
        push: Push | None = None,
        lanes: Callable[..., int] = one_lane,
        elsewhere: Elsewhere | None = None,
        reaches: Callable[[str], bool] = _always,
    ):
        self.name, self._push, self._lanes, self._elsewhere = name, push, lanes, elsewhere
        self._reaches = reaches
        self.resources = ResourceManager()
        self.rendezvous = Rendezvous()
        self.native_loops = True  # False: all control flow by the general executor, for comparisons
        self.resets = 0  # sessions that began before the last one are over
        self._lock = Lock()
        self._handles = new_handles()
        self._parts: dict[int, _Part] = {}
        self._functions: dict[tuple[str, str, str, str], Callable[..., Any]] = {}
        self._ended: dict[str, None] = {}  # the last sessions that were deregistered

    # ------------------------------------------------------------------ registration

    def register(
        self, session: str, graph: GraphDef, feeds: Sequence[str], fetches: Sequence[str], trace: bool = False
    ) -> int:
        """Compile a part once; the handle runs it at every step. The last value that a traced part returns is its
        StepStats."""

        def bind(node: NodeDef, row: Kernel, attrs: dict[str, Any]) -> Callable[..., Any]:
            return self._bind(session, node, row, attrs)

        recorder = Recorder(self.name) if trace else None
        binder, resets = recorder.wrap(bind) if recorder else bind, self.resets
        lanes = self._lanes if recorder is None else one_lane  # of a trace each call is a span of its own
        with paused():
            plan = compile_any(graph, feeds, fetches, binder, self.native_loops, recorder is None, lanes)
        plan.recorder, plan.is_served = recorder, self.name != LOCAL_TASK
        with self._lock:
            if session in self._ended or self.resets != resets:  # while its part was compiled
                self._forget_functions(session)
                self.resources.clear([self.resources.own_container(session)])
                raise AbortedError(f"{self.name}: the session was closed, or the task was reset")
            handle = next(self._handles)
            self._parts[handle] = _Part(session, plan)
        return handle

    def _bind(self, session: str, node: NodeDef, row: Kernel, attrs: dict[str, Any]) -> Callable[..., Any]:
        """Stateful kernels (random numbers, variables) are made once a session, so that all its plans share them. By
        op too: what a node becomes when graphs are optimized depends on what else a step fetches."""
        if not row.stateful:
            return on_its_device(row.factory(self._describe(node, attrs)), node.device)
        with self._lock:
            key = (session, node.name, node.op, node.device)
            if key not in self._functions:
                made = row.factory(self._describe(node, attrs, session))
                self._functions[key] = on_its_device(made, node.device)
            return self._functions[key]

    def _describe(self, node: NodeDef, attrs: dict[str, Any], session: str = "") -> Node:
        inputs = tuple(data_inputs(node))
        xp = arrays(node.device)
        return Node(node.name, node.op, attrs, node.device, xp, self.resources, self.name, inputs, session)

    def deregister(self, session: str) -> None:
        """Forget what was registered for a session, and the resources that are its own."""
        with self._lock:
            for handle in [h for h, p in self._parts.items() if p.session == session]:
                self.forget(handle)
            self._forget_functions(session)
            self._ended[session] = None
            while len(self._ended) > _MOST_ENDED:
                del self._ended[next(iter(self._ended))]
        self.resources.clear([self.resources.own_container(session)])

    def _forget_functions(self, session: str) -> None:
        self._functions = {k: f for k, f in self._functions.items() if k[0] != session}
        self.resources.end_session(session)

    def forget(self, handle: int) -> None:
        """Forget one part; steps of it that run go on to their end."""
        self._parts.pop(handle, None)

    def reset(self, containers: list[str] | None = None) -> None:
        """Drop the resources of these containers (all), and every session's parts with what they hold of them. What
        waits for a resource ends before it goes: a queue that closes would tell it of the end of data."""
        with self._lock:
            self.resets += 1
            self._handles = new_handles()
            self._parts.clear()
            self._functions.clear()
            self.resources.end_session()
        self.rendezvous.abort_all(CancelledError(f"{self.name} was reset, which ended this session. Make a new one"))
        self.resources.reset(containers)

    def stop(self, error: OpError) -> None:
        """End its steps with `error`, and let its sessions and resources go."""
        self.rendezvous.close(error)
        self.reset()

    def _plan(self, handle: int) -> Plan:
        part = self._parts.get(handle)
        if part is None:
            raise AbortedError(f"{self.name} has no graph {handle}: it was restarted, or the session was closed")
        if part.plan.recorder is not None:
            part.plan.recorder.clear()  # of a step that failed
        return part.plan

    # ------------------------------------------------------------------ steps

    def holds(self, handle: int) -> bool:
        """Whether there is such a part."""
        return handle in self._parts

    def is_straight(self, handle: int) -> bool:
        """Whether `run_straight` would run it to its end, on any thread: it has nothing to wait for."""
        part = self._parts.get(handle)
        return part is not None and part.plan.is_straight and not part.plan.wants_thread

    def run_straight(self, handle: int, feeds: list[Any], lent: bool = False) -> list[Any] | Halted | None:
        """Run a part that talks to nobody: the values it fetches, or how far it came before it had to wait; None when
        the part is not of that kind. lent: as Plan.collect has it."""
        plan = self._plan(handle)
        return None if plan.order is None else run_straight(plan, feeds, lent)

    def begin(self, handle: int, step_id: int, feeds: list[Any], halted: Halted | None = None) -> Step:
        """A step for the caller's own thread: `run()` it, then `end_step`. halted: what `run_straight` came to."""
        step = _step(self._plan(handle), step_id, feeds, self._send)
        if halted is not None:
            step.resume(halted)
        if not self.rendezvous.begin(step_id, step):
            step.cancel(self.rendezvous.why_ended(step_id))
        return step

    def opening_peers(self, handle: int) -> frozenset[str]:
        """The tasks that a part sends to before it waits for anything."""
        part = self._parts.get(handle)
        return part.plan.opening_peers if part is not None else frozenset()

    def start(
        self,
        handle: int,
        step_id: int,
        feeds: list[Any],
        finish: Done,
        bundles: Sequence[Bundle] = (),
        parting: tuple[str, list[Bundle]] | None = None,
    ) -> None:
        """A step on behalf of another task: runs in the threads that make its units ready. bundles: its first ones.

        finish(error, fetched): what is fetched may be memory of variables, and is to be sent at once. parting: that
        task, and a list for the last bundles that it is to get, before `finish`; they are sent to it where there is
        none."""
        plan = self._plan(handle)
        if plan.is_straight and not bundles:
            if plan.wants_thread and self._elsewhere is not None:
                self._elsewhere(lambda: self._run_now(plan, step_id, feeds, finish))
            else:
                self._run_now(plan, step_id, feeds, finish)
            return

        def ended(error: OpError | None, fetched: list[Any] | None) -> None:
            self.rendezvous.end(step_id)
            finish(error, fetched)

        step = _step(plan, step_id, feeds, self._send, ended)
        if parting is not None:
            step.asker, step.parting = parting
        if plan.wants_thread or not all(map(self._reaches, plan.send_peers)):  # to dial may take as long as a time-out
            step.elsewhere = self._elsewhere
        if not self.rendezvous.begin(step_id, step):
            ended(self.rendezvous.why_ended(step_id), None)
            return
        for bundle, tensors in bundles:
            step.receive(bundle, tensors)
        step.start()

    def _run_now(self, plan: Plan, step_id: int, feeds: list[Any], finish: Done) -> None:
        """A step that waits for nothing, and so meets nobody at the rendezvous."""
        error = self.rendezvous.why_ended(step_id) if self.rendezvous.ended(step_id) else None
        fetched: Any = None
        if error is None:
            begun_s = time.perf_counter()
            try:
                fetched = run_straight(plan, feeds, True)
            except OpError as raised:
                error = bare(raised)
            plan.took(time.perf_counter() - begun_s)
        finish(error, fetched)

    def _send(
        self, task: str, step_id: int, bundles: Sequence[Bundle], iterations: tuple[int, ...], deadline: float | None
    ) -> None:
        if task == self.name:
            for bundle, tensors in bundles:
                self.rendezvous.deliver(step_id, bundle, tensors, iterations)
        elif self._push is None:
            raise NotFoundError(f"{self.name} has no way to reach {task}: this session is not part of a cluster")
        else:
            self._push(task, step_id, bundles, iterations, deadline)


def _step(plan: Plan, step_id: int, feeds: list[Any], send: Sender, finish: Done | None = None) -> Step:
    if isinstance(plan, FramePlan):
        return FrameStep(plan, step_id, feeds, send, finish)
    return Step(plan, step_id, feeds, send, finish)
