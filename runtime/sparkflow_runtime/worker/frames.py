"""The general executor: tokens flow along edges, tagged with the frame and iteration that they belong to.

A node runs when all that it waits for is there. One with a dead input is dead and puts out dead tokens, a Merge when
all its inputs are dead, so that what follows an untaken branch ends without running. Enter opens a frame or adds to it,
NextIteration hands its value to the next iteration, Exit to the frame outside; what is dead there stops, and an Exit
that never was live becomes dead outside when its frame is done. As many iterations are in flight as the loop allows.
Source: Abadi et al., "TensorFlow: a system for large-scale machine learning", 2016, section 3.4.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.control_flow import truth
from sparkflow_runtime.wire.control_flow import DEAD
from sparkflow_runtime.wire.errors import InternalError, OpError
from sparkflow_runtime.worker.codegen import read
from sparkflow_runtime.worker.frame_plan import (
    ASYNC,
    ENTER,
    EXIT,
    KERNEL,
    MERGE,
    NEXT,
    RECVS,
    SENDS,
    SWITCH,
    Entry,
    FramePlan,
)
from sparkflow_runtime.worker.frame_state import Frame, Iteration, Outputs, Token
from sparkflow_runtime.worker.frame_transfers import NOT_YET, At, Inbox, Outbox
from sparkflow_runtime.worker.locate import locate
from sparkflow_runtime.worker.step import NOTHING, Done, Sender, Step
from sparkflow_runtime.worker.units import Around


class FrameStep(Step):
    """A step of a FramePlan. All that concerns frames happens in the thread that runs the step."""

    plan: FramePlan

    def __init__(
        self, plan: FramePlan, step_id: int, feeds: list[Any], send: Sender | None, finish: Done | None = None
    ):
        super().__init__(plan, step_id, feeds, send, finish)
        self._root = Frame(None, 0, "", 0, 1)
        self._children: dict[tuple[Frame, int, str], Frame] = {}
        self._inbox, self._outbox = Inbox(), Outbox()
        self._left = 1  # until the outermost frame is done
        self._ready.clear()
        self._begin()

    def _begin(self) -> None:
        start = self._root.iterations[0]
        for entry in self.plan.entries:
            if entry.kind == RECVS and not entry.inside:
                start.busy += 1
            elif not entry.pending:
                self._make_ready(entry, self._root, 0, False)
            if entry.kind == MERGE:
                for position, slot in entry.fed:
                    self._arrive(self._root, 0, entry, position, self.values[slot], False, False)
        if not start.busy:
            self._left = 0

    # ------------------------------------------------------------------ one node

    def _around(self, token: Any) -> Around:
        return self.plan.surroundings

    def _run_unit(self, token: Any) -> None:
        try:
            outputs = token.outputs if token.is_over else self._compute(token)
            if outputs is not _LATER:
                self._propagate(token, outputs)
        except BaseException as error:
            self._fail(locate(error, token.entry.node))
            if not isinstance(error, Exception):
                self._stop_running((), False)
                raise
        with self._lock:
            self._running = False
            waits = self._ready or self._waiting or self._inbox.waiting or len(self._arrived) < len(self.plan.arriving)
            stalled = self._left and not waits and self.error is None
        if stalled:
            self._fail(InternalError(f"Step {self.step_id}: {self._stuck()}"))

    def _compute(self, token: Token) -> Any:
        """The outputs; None where they are dead, _LATER where they are not there yet."""
        entry, state = token.entry, token.frame.iterations[token.iteration]
        if entry.kind != MERGE:  # to which more may come
            state.pending.pop(entry, None)
            state.dead.pop(entry, None)
        inputs = self._inputs(entry, state)
        if entry.kind == SENDS:
            self._collect_send(token, DEAD if token.dead else inputs[0] if inputs else None)
            return ()
        if entry.kind == RECVS and entry.inside:
            return None if token.dead else self._take(token)
        if entry.kind == RECVS:
            value = self.values[entry.slot]  # type: ignore[index]
            return None if value is DEAD else (value,)
        if token.dead and not entry.triggers:
            return None
        if entry.kind == ASYNC:
            self._begin_operation(token, inputs)
            return _LATER
        return self._outputs(entry, state, inputs)

    def _inputs(self, entry: Entry, state: Iteration) -> list[Any]:
        inputs = state.inputs.pop(entry, None) or list(entry.given)
        if entry.kind != MERGE:
            for position, slot in entry.fed:
                inputs[position] = self.values[slot]
        return [read(v) if deref else v for v, deref in zip(inputs, entry.deref)] if entry.deref else inputs

    @staticmethod
    def _outputs(entry: Entry, state: Iteration, inputs: list[Any]) -> Outputs:
        if entry.kind == KERNEL:
            out = entry.function(*inputs)  # type: ignore[misc]
            return out if entry.multi else (out,)
        if entry.kind == SWITCH:
            return (DEAD, inputs[0]) if truth(inputs[1]) else (inputs[0], DEAD)
        if entry.kind == MERGE:
            chosen = state.chosen.pop(entry)
            return inputs[chosen], np.int32(chosen)
        return (inputs[0],)

    # ------------------------------------------------------------------ where outputs go

    def _propagate(self, token: Token, outputs: Outputs) -> None:
        entry, frame, number = token.entry, token.frame, token.iteration
        if entry.kind != EXIT:  # of which an earlier iteration may come later
            self._keep(entry, outputs)
        if entry.kind == ENTER:
            self._enter(entry, self._child(entry, frame, number), outputs)
        elif entry.kind == EXIT:
            self._exit(entry, frame, number, outputs)
        elif entry.kind == NEXT:
            self._next(entry, frame, number, outputs)
        else:
            self._activate(entry, frame, number, outputs)
        frame.iterations[number].busy -= 1
        self._clean(frame, number)

    def _keep(self, entry: Entry, outputs: Outputs) -> None:
        for port, slot in entry.keep:
            self.values[slot] = DEAD if outputs is None else outputs[port]

    def _activate(self, entry: Entry, frame: Frame, number: int, outputs: Outputs) -> None:
        for port, consumer, position in entry.edges:
            value = None if port < 0 or outputs is None else outputs[port]
            dead = outputs is None or value is DEAD
            if port < 0:
                if dead and position in consumer.gates:
                    frame.iterations[number].gated.add(consumer)
                position = -1
            self._arrive(frame, number, consumer, position, value, dead, entry.kind == ENTER)

    def _arrive(
        self, frame: Frame, number: int, entry: Entry, position: int, value: Any, dead: bool, from_enter: bool
    ) -> None:
        """A token comes to a node; position -1: along a control edge."""
        state = frame.iterations[number]
        pending = state.pending.get(entry, entry.pending)
        if entry.kind == MERGE:
            self._arrive_at_merge(frame, number, entry, position, value, dead, from_enter)
            return
        if dead:
            state.dead[entry] = state.dead.get(entry, 0) + 1
        elif position >= 0:
            state.inputs.setdefault(entry, list(entry.given))[position] = value
        state.pending[entry] = pending - 1
        if pending == 1:
            self._make_ready(entry, frame, number, bool(state.dead.get(entry)) and not entry.triggers)

    def _arrive_at_merge(
        self, frame: Frame, number: int, entry: Entry, position: int, value: Any, dead: bool, from_enter: bool
    ) -> None:
        """It waits for its control edges and for one live input, or for all to be dead. A dead Enter is all that comes
        in the first iteration."""
        state = frame.iterations[number]
        pending = state.pending.get(entry, entry.pending)
        if position < 0:
            pending -= 2
        elif dead:
            state.dead[entry] = entry.num_inputs if from_enter else state.dead.get(entry, 0) + 1
        elif pending & 1:
            pending -= 1
            state.inputs.setdefault(entry, list(entry.given))[position] = value
            state.chosen[entry] = position
        else:
            return  # another input was first
        state.pending[entry] = pending
        is_dead = pending == 1 and state.dead.get(entry, 0) >= entry.num_inputs
        if is_dead or (pending == 0 and (position < 0 or not dead)):
            self._make_ready(entry, frame, number, is_dead)

    def _make_ready(self, entry: Entry, frame: Frame, number: int, dead: bool) -> None:
        frame.iterations[number].busy += 1
        with self._lock:
            self._ready.append(Token(entry, frame, number, dead))  # type: ignore[arg-type]

    # ------------------------------------------------------------------ frames

    def _child(self, entry: Entry, frame: Frame, number: int) -> Frame:
        key = (frame, number, entry.frame)
        child = self._children.get(key)
        if child is None:
            around = () if frame.parent is None else (*frame.around, number)
            child = self._children[key] = Frame(frame, number, entry.frame, entry.num_enters, entry.parallel, around)
            frame.iterations[number].frames += 1
        return child

    def _enter(self, entry: Entry, child: Frame, outputs: Outputs) -> None:
        child.pending_enters -= 1
        if entry.invariant:
            child.invariants.append((entry, outputs))
            for number in list(child.iterations):
                self._activate(entry, child, number, outputs)
        else:
            self._activate(entry, child, 0, outputs)
        if 0 in child.iterations:
            self._clean(child, 0)

    def _exit(self, entry: Entry, frame: Frame, number: int, outputs: Outputs) -> None:
        if outputs is not None:
            self._keep(entry, outputs)
            self._activate(entry, frame.parent, frame.parent_iteration, outputs)  # type: ignore[arg-type]
        elif number == frame.last:
            frame.dead_exits.append(entry)

    def _next(self, entry: Entry, frame: Frame, number: int, outputs: Outputs) -> None:
        if outputs is None:
            return
        if number == frame.last:
            if len(frame.iterations) == frame.parallel:
                frame.deferred.append((entry, outputs))
                return
            self._increment(frame)
        self._activate(entry, frame, number + 1, outputs)

    def _increment(self, frame: Frame) -> None:
        """Begin another iteration."""
        frame.last += 1
        frame.iterations[frame.last] = Iteration()
        frame.dead_exits.clear()
        waiting, frame.deferred = frame.deferred, []
        for entry, outputs in (*waiting, *frame.invariants):
            self._activate(entry, frame, frame.last, outputs)

    def _clean(self, frame: Frame, number: int) -> None:
        """Forget iterations that are done, from `number` on, and the frame when all are."""
        while number in frame.iterations and frame.is_done(number):
            del frame.iterations[number]
            number += 1
            if frame.deferred:
                self._increment(frame)
        if not frame.iterations and not frame.pending_enters:
            self._close(frame)

    def _close(self, frame: Frame) -> None:
        parent, number = frame.parent, frame.parent_iteration
        if parent is None:
            with self._lock:
                self._left = 0
            return
        if self._children.pop((parent, number, frame.name), None) is None:
            return
        for entry in frame.dead_exits:
            self._keep(entry, None)
            self._activate(entry, parent, number, None)
        parent.iterations[number].frames -= 1
        self._clean(parent, number)

    # ------------------------------------------------------------------ waiting, transfers

    def _begin_operation(self, token: Token, inputs: list[Any]) -> None:
        with self._lock:
            self._waiting[id(token)] = token.entry.node.name
        held = token  # keeps its id from another token

        def done(error: OpError | None, outputs: Any = ()) -> None:
            if error is not None:
                self._fail(locate(error, held.entry.node))
            with self._lock:
                if self._waiting.pop(id(held), None) is None:
                    return
                if error is None:  # under the same lock: a step in which nothing waits and nothing is ready is stuck
                    self._ready.append(Token(held.entry, held.frame, held.iteration, False, outputs, True))  # type: ignore[arg-type]
            self._advance()

        try:
            token.entry.function(self, done, *inputs)  # type: ignore[misc]
        except Exception as error:
            done(locate(error, token.entry.node))

    def _completed(self, index: int) -> list[Any]:
        """Of a bundle that came: its nodes may run. Their share of `busy` was counted at the start."""
        found = self.plan.arriving[index]
        return [Token(entry, self._root, 0, False) for entry in found]

    @staticmethod
    def _at(token: Token) -> At:
        """Of a transfer: which bundle of the step it is part of."""
        frame = token.frame
        return token.entry.unit, () if frame.parent is None else (*frame.around, token.iteration)

    def _collect_send(self, token: Token, value: Any) -> None:
        entry, at = token.entry, self._at(token)
        members, gated = self.plan.leaving[entry.unit], token.frame.iterations[token.iteration].gated
        values = self._outbox.add(at, entry.member, value, len(members), entry in gated)
        gated.discard(entry)
        if values is None:
            return
        unit = self.plan.units[entry.unit]
        tensors = [NOTHING if v is DEAD else read(v) for v, m in zip(values, members) if m.slot is not None]
        if unit.members is not None:
            tensors.insert(0, np.array([v is not DEAD for v in values], np.uint8))
        self._push([unit], [tensors], at[1])

    def _take(self, token: Token) -> Any:
        """The output of a _Recv in a loop, or _LATER."""
        with self._lock:
            value = self._inbox.take(self._at(token), token.entry.member, token)
        return _LATER if value is NOT_YET else None if value is DEAD else (value,)

    def receive(self, bundle: int, tensors: list[Any], iterations: tuple[int, ...] = ()) -> None:
        """A bundle has arrived: of the step, or of one iteration of it."""
        index = self.plan.bundles.get(bundle)
        expected = None if index is None else self.plan.inside.get(index)
        if index is None or expected is None:
            super().receive(bundle, tensors, iterations)
            return
        unit = self.plan.units[index]
        self._record_arrival(unit, tensors)
        found = unit.unpack(tensors) if len(iterations) == expected.depth else None
        ready = None
        if found is not None:
            values = iter([value for _, value in found])
            has_data = expected.has_data if unit.arrivals is None else [True] * len(found)
            with self._lock:
                ready = self._inbox.put((index, iterations), [next(values) if data else None for data in has_data])
                self._ready.extend(ready or ())
        if ready is None:
            self._refuse(bundle, tensors, iterations)
        else:
            self._advance()

    def describe(self) -> str:
        with self._lock:
            waiting = [token.entry.node.name for tokens in self._inbox.waiting.values() for token in tokens]
            peers = {self.plan.units[unit].peer for unit, _ in self._inbox.waiting}
        if not waiting:
            return super().describe()
        return f"In a loop nothing yet from {', '.join(sorted(peers))} for {', '.join(sorted(waiting)[:4])}"

    def _stuck(self) -> str:
        names = [e.node.name for i in self._root.iterations.values() for e in i.pending]
        names += [e.node.name for f in self._children.values() for i in f.iterations.values() for e in i.pending]
        return f"nothing more can run, and these nodes lack inputs: {', '.join(sorted(names)[:8])}"


_LATER = object()
