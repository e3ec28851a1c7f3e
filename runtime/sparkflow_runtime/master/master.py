"""Master: turns (feeds, fetches, targets) into parts registered with tasks, and runs them step by step.

What a task is reached by is a `Task`: in this process or over a channel. The master decides; it waits only in
`StepRun`.
"""

from __future__ import annotations

import itertools
import logging
import secrets
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from threading import Event, Lock
from typing import Any

from sparkflow_runtime.kernels import registry
from sparkflow_runtime.master.compiled import Compiled, OwnTask, Part, Task, forget_parts
from sparkflow_runtime.master.cost_model import CostModel
from sparkflow_runtime.master.crossings import settle_on_hosts
from sparkflow_runtime.master.later_reads import later_reads
from sparkflow_runtime.master.lifetimes import compare_peaks
from sparkflow_runtime.master.mailboxes import with_mailboxes
from sparkflow_runtime.master.memories import across_memories
from sparkflow_runtime.master.nodes import Nodes, Write
from sparkflow_runtime.master.partition import partition
from sparkflow_runtime.master.passes import Optimizer, Report, Settings
from sparkflow_runtime.master.place import of_gpus_or_hosts
from sparkflow_runtime.master.placement import Placement, compare
from sparkflow_runtime.master.prune import fed_among, prune
from sparkflow_runtime.master.registrar import Registrar
from sparkflow_runtime.master.session_devices import SessionDevices
from sparkflow_runtime.master.signatures import Signatures
from sparkflow_runtime.master.step_run import StepRun
from sparkflow_runtime.master.turns import Latch, Turns
from sparkflow_runtime.wire.collector import paused
from sparkflow_runtime.wire.devices import task_of
from sparkflow_runtime.wire.edges import is_control, parse
from sparkflow_runtime.wire.errors import AbortedError, CancelledError, DeadlineExceededError, OpError
from sparkflow_runtime.wire.protos import GraphDef, NodeDef, StepStats
from sparkflow_runtime.wire.sizes import UNKNOWN_SIZE

_MOST_CANCELLED = 1024

_log = logging.getLogger(__name__)
Signature = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]  # feeds, fetches, targets


class Master:
    """One session's graph, and what was compiled of it.

    tasks: name -> Task of every task of the cluster but the own one. Thread-safe: many threads may run steps at once.
    cost_steps: trace that many steps of a signature, then place its free nodes by what they cost. log_placement: called
    with a line for every node when it is placed. processors: CPU devices that the own task shows. session: its name.
    gpus: the indices of those that the own task shows; to ask may mean to import what drives them.
    """

    def __init__(
        self,
        own: OwnTask,
        tasks: Mapping[str, Task],
        soft_placement: bool = False,
        timeout_s: float | None = None,
        cost_steps: int = 0,
        log_placement: Callable[[str], None] | None = None,
        passes: Settings | None = None,
        processors: int = 1,
        session: str = "",
        gpus: Callable[[], Sequence[int]] = tuple,
    ):
        self._own, self._tasks = own, tasks
        self._resets = own.resets
        self._timeout_s, self._cost_steps = timeout_s, cost_steps
        self._settings = passes or Settings()
        self.costs = CostModel()
        self._traced_steps: dict[Any, int] = {}
        self._nodes = Nodes()
        self._devices = SessionDevices(own.name, tasks, processors, gpus)
        self._placement = Placement(self._devices.processors, soft_placement, log_placement, self._devices.gpus_of)
        self._compiled: Signatures[Compiled] = Signatures()
        self._begun: dict[Any, Callable[[], Compiled]] = {}  # signatures compiled ahead of their first run
        self._in_use = Latch()  # somebody waits for a signature, or has one
        self._turns, self._keeping = Turns(), Lock()
        self._optimizer = Optimizer(self._settings, give_way=self._turns.give_way)
        self.session_id = session or secrets.token_hex(8)
        self._open = Event()
        self._open.set()
        self._registrar = Registrar(self.session_id, own, tasks, self._open, self._nodes.write_ahead)
        self._step_ids = itertools.count(secrets.randbits(62) & ~0xFFFFFFFF)
        self._active: set[StepRun] = set()
        self._cancelled: dict[int, OpError] = {}
        self._closed = False

    @property
    def nodes(self) -> Mapping[str, NodeDef]:
        return self._nodes

    @property
    def timeout_s(self) -> float | None:
        """Of every step that is given none of its own."""
        return self._timeout_s

    @property
    def devices(self) -> list[str]:
        """Of the GPUs of other tasks, those that the graph has asked for."""
        return self._devices.known(self._placement.devices)

    def extend(self, graph: GraphDef, again: bool = False) -> None:
        """Add nodes. again: an interrupt may have come when some of them were there. Raises InvalidArgumentError on a
        name that is taken or an input that is nowhere."""
        with self._turns:
            self._nodes.add(graph, again)
            self._placement.learn((n.name, n.op, n.device) for n in graph.node)
        registry.prepare(n.op for n in graph.node)

    def extend_unwritten(self, ops: Sequence[tuple[str, str, str]], write: Write, again: bool = False) -> None:
        """The same for nodes (name, op, device) of a graph in this process, written when they are first needed."""
        with self._turns:
            self._nodes.add_unwritten([name for name, _, _ in ops], write, again)
            self._placement.learn(ops)
        registry.prepare(op for _, op, _ in ops)

    def compile(
        self, feeds: tuple[str, ...], fetches: tuple[str, ...], targets: tuple[str, ...], trace: bool = False
    ) -> Compiled:
        """The registered parts of a signature; compiled at first use, then cached. Traced ones are parts of their
        own."""
        learned = not self._cost_steps or self._learned((feeds, fetches, targets), not trace)
        key = (feeds, fetches, targets, trace or not learned, learned)
        return self._compiled.get(key) or self._kept(key, lambda: self._compile(self._nodes, *key))

    def compile_ahead(self, signatures: Iterable[Signature]) -> None:
        """Compile these one after the other, whenever nobody else compiles, and have the tasks begin to register their
        parts; the first run waits for what is left. What goes wrong is for that run to say. Begins behind the session's
        first run, which has the tasks busy."""
        self._in_use.wait()
        for signature in signatures if not self._cost_steps else ():
            try:
                self._begin_ahead((*signature, False, True))
            except OpError as error:
                _log.debug("Not compiled ahead: %s", error)
            finally:
                self._forget_if_closed()

    def _begin_ahead(self, key: tuple[Any, ...]) -> None:
        def begin() -> object:
            with paused(), self._turns.unhurried():
                self._begun[key] = self._compile(self._nodes, *key)
            return self._begun

        self._turns.once(key, lambda: self._compiled.get(key) or self._begun.get(key), begin)

    def compiled(self, signature: tuple[Any, Any, Any]) -> Compiled | None:
        """What `compile` would give for a signature, where nothing would have to be compiled or learned for it."""
        return None if self._cost_steps else self._compiled.get((*signature, False, True))

    def compile_partial(self, feeds: tuple[str, ...], fetches: tuple[str, ...], targets: tuple[str, ...]) -> Compiled:
        """A signature whose feeds come from and whose fetches go to mailboxes of the step."""
        key = ("partial", feeds, fetches, targets)

        def make() -> Callable[[], Compiled]:
            nodes, boxes = with_mailboxes(self._nodes, feeds, fetches, targets, f"{self._own.name}/device:CPU:0")
            return self._compile(nodes, (), (), tuple(boxes), False, True)

        return self._compiled.get(key) or self._kept(key, make)

    def _kept(self, key: Any, make: Callable[[], Callable[[], Compiled]]) -> Compiled:
        """make: what to do in a turn; what it returns waits for other tasks, when others may have theirs."""

        def kept() -> Compiled:
            finish = self._begun.pop(key, None)
            try:
                with paused():
                    if finish is None:
                        with self._turns:
                            self._in_use.set()
                            finish = make()
                    made = finish()
                with self._keeping:
                    dropped = self._compiled.put(key, made, len(made.placed.node))
                del dropped  # without the lock: their parts are forgotten now, or when their last user goes
            except (AbortedError, DeadlineExceededError) as error:
                if finish is not None and isinstance(error, DeadlineExceededError):
                    self._begun[key] = finish  # tasks go on compiling, and the next run waits for what is left
                self._raise_if_closed()
                raise
            finally:
                self._forget_if_closed()
            self._raise_if_closed()
            return made

        return self._turns.once(key, lambda: self._compiled.get(key), kept)

    def _learned(self, signature: Any, counts: bool) -> bool:
        """Whether enough of its steps were traced to place the signature by their cost."""
        with self._turns:
            seen = self._traced_steps[signature] = self._traced_steps.get(signature, 0) + counts
        return seen > self._cost_steps

    def _compile(
        self,
        nodes: Mapping[str, NodeDef],
        feeds: tuple[str, ...],
        fetches: tuple[str, ...],
        targets: tuple[str, ...],
        trace: bool,
        learned: bool,
    ) -> Callable[[], Compiled]:
        """Has the tasks register their parts; what comes back waits for those of other tasks."""
        self._raise_if_closed()
        if self._own.resets != self._resets:
            raise AbortedError(f"{self._own.name} was reset, which ended this session. Make a new one")
        direct = fed_among(fetches, feeds)
        pruned = prune(nodes, feeds, fetches, targets)
        self._turns.give_way()
        if self._placement.find_gpus():
            self._compiled.clear()  # what ran on CPUs may be on a GPU now, and its variables with it
        self._placement.settle(pruned, self._nodes)
        self._devices.call_home(pruned)
        costs = self.costs if (by_cost := learned and self._cost_steps > 0) else None
        self._placement.log(pruned, costs)
        placed = self._placed(pruned, (feeds, fetches, targets), self._placement, costs)
        if by_cost and not trace:
            compare(placed, self._compiled.get((feeds, fetches, targets, True, False)), self.costs)
        self._turns.give_way()
        home = {n.name: task_of(n.device) for n in placed.node}
        found = self._optimizer.optimize_placed(placed, feeds, fetches, targets, costs)
        self._turns.give_way()
        found, on_host = across_memories(found, feeds, fetches)
        home.update((parse(f)[0], home[parse(asked)[0]]) for asked, f in on_host.items())
        named = [on_host.get(f, f) for f in fetches]
        parts = partition(found, feeds, self._settings.carried)
        begun: dict[str, Callable[[], Part]] = {}
        for task, graph in parts.items():
            used = {"{}:{}".format(*parse(e)) for n in graph.node for e in n.input if not is_control(e)}
            feed_at = [i for i, f in enumerate(feeds) if f in used]
            fetch_at = [i for i, f in enumerate(named) if i not in direct and home[parse(f)[0]] == task]
            begun[task] = self._registrar.register(task, graph, feeds, named, feed_at, fetch_at, trace)
        own = begun.pop(self._own.name)() if self._own.name in begun else None  # the tasks compile at the same time
        made = partial(Compiled, own, num_feeds=len(feeds), num_fetches=len(fetches), direct=direct, graphs=parts,
                       placed=placed, one_at_a_time=Lock() if trace else None, edges=(feeds, fetches))  # fmt: skip
        return lambda: self._finish(made, own, [finish() for finish in begun.values()])

    def _finish(self, make: Callable[..., Compiled], own: Part | None, others: list[Part]) -> Compiled:
        made = make(others=others)
        if own is not None:
            made.opening = self._own.opening_peers(own.handle) & {p.name for p in others}
            weakref.finalize(made, forget_parts, self._open, [(self._own, own.handle)]).atexit = False
        return made

    def _placed(
        self, pruned: GraphDef, edges: tuple[Sequence[str], Sequence[str], Sequence[str]], placement: Placement,
        costs: CostModel | None = None, report: Report | None = None,
    ) -> GraphDef:  # fmt: skip
        if placement.has_gpus:  # passes ask what a node runs on
            placed = placement.place(pruned, costs)
            settle_on_hosts(placed, edges[0])
            return later_reads(of_gpus_or_hosts(self._optimizer.optimize(placed, *edges, False, self._nodes, report)))
        graph = self._optimizer.optimize(pruned, *edges, len(placement.devices) == 1, self._nodes, report)
        return later_reads(placement.place(graph, costs))

    def explain(
        self, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str], unknown: int = UNKNOWN_SIZE
    ) -> Report:
        """What the passes do to a signature; in its plan of memory an open dimension counts as `unknown`. Tasks and
        GPUs that the graph's devices name need not exist. Raises NotFoundError on a name that the graph has not."""
        with self._turns:
            pruned = prune(self._nodes, feeds, fetches, targets)
            report = Report(len(self._nodes), len(pruned.node))
            placement = self._placement.with_named(self._nodes)
            placement.settle(pruned, self._nodes)
            placed = self._placed(pruned, (feeds, fetches, targets), placement, report=report)
            placed = self._optimizer.optimize_placed(placed, feeds, fetches, targets, report=report)
            placed, _ = across_memories(placed, feeds, fetches)
            report.of_result(placed)
            report.plan_memory(placed, feeds, fetches, self.costs, unknown)
            return report

    # ------------------------------------------------------------------ steps

    def run(
        self,
        compiled: Compiled,
        feeds: list[Any],
        timeout_s: float | None = None,
        step_id: int | None = None,
        lent: bool = False,
    ) -> list[Any]:
        """The fetched values in order. Raises the first error of any task as itself. step_id: for `cancel`. lent: they
        are sent at once and not kept, so that they may be memory of variables."""
        if compiled.all_here:
            found = self._run_straight(compiled.own, feeds, lent)  # type: ignore[arg-type]
            if type(found) is list:
                return found
            ((_, values),) = self._run_step(compiled, feeds, step_id or self.new_step_id(), timeout_s, found)
            return values
        if compiled.one_at_a_time is not None:
            return self.run_traced(compiled, feeds, timeout_s, step_id)[0]
        return compiled.assemble(feeds, self._results(compiled, feeds, timeout_s, step_id))

    def run_traced(
        self, compiled: Compiled, feeds: list[Any], timeout_s: float | None = None, step_id: int | None = None
    ) -> tuple[list[Any], list[StepStats]]:
        """As `run`, of a traced signature; also what every task recorded."""
        with compiled.one_at_a_time or nullcontext():
            begun_s = time.perf_counter()
            results = self._results(compiled, feeds, timeout_s, step_id)
            compiled.measured_s.append(time.perf_counter() - begun_s)
        stats = [StepStats.FromString(values[-1].tobytes()) for _, values in results]
        with self._turns:
            for task in stats:
                self.costs.record(task)
            if _log.isEnabledFor(logging.INFO):
                _log.info(compare_peaks(stats, compiled.graphs.values(), *compiled.edges, self.costs))
        return compiled.assemble(feeds, [(part, values[:-1]) for part, values in results]), stats

    def _results(
        self, compiled: Compiled, feeds: list[Any], timeout_s: float | None, step_id: int | None
    ) -> Sequence[tuple[Part, list[Any]]]:
        """What each part fetched."""
        own, halted = compiled.own, None
        if own is not None and not compiled.others:
            halted = self._run_straight(own, [feeds[i] for i in own.feeds])
            if type(halted) is list:
                return [(own, halted)]
        return self._run_step(compiled, feeds, step_id or self.new_step_id(), timeout_s, halted)

    def _run_straight(self, own: Part, feeds: list[Any], lent: bool = False) -> Any:
        """The part's values; how far it came before it had to wait; or None, where it does not run this way."""
        try:
            return self._own.run_straight(own.handle, feeds, lent)
        except AbortedError:
            self._raise_if_closed()
            raise

    def _raise_if_closed(self) -> None:
        """Where that was a moment ago, the parts of a step that begins are gone."""
        if self._closed:
            raise CancelledError("Session has been closed.") from None

    def new_step_id(self) -> int:
        return next(self._step_ids)

    def run_partial(self, compiled: Compiled, step_id: int) -> None:
        """A step with mailboxes, to its end: until the last feed has come."""
        self._run_step(compiled, [], step_id, None)

    def _run_step(
        self, compiled: Compiled, feeds: list[Any], step_id: int, timeout_s: float | None, halted: Any = None
    ) -> Sequence[tuple[Part, list[Any]]]:
        """halted: how far `_run_straight` came with it."""
        step = StepRun(self._own, compiled, feeds, step_id, halted)
        self._active.add(step)
        try:
            self._raise_if_closed()
            cancelled = self._cancelled.pop(step_id, None)
            if cancelled is not None:
                raise cancelled
            return step.run(timeout_s or self._timeout_s)
        except AbortedError:
            self._raise_if_closed()
            raise
        finally:
            self._active.discard(step)

    def cancel(self, step_id: int, error: OpError) -> None:
        """End a step with `error`; one that has not begun will end at once."""
        found = next((step for step in list(self._active) if step.step_id == step_id), None)
        if found is None:
            self._cancelled[step_id] = error
            for old in list(self._cancelled)[:-_MOST_CANCELLED]:  # of steps that had ended already
                self._cancelled.pop(old, None)
            found = next((step for step in list(self._active) if step.step_id == step_id), None)
        if found is not None:
            found.abort(error)

    def close(self) -> None:
        """Cancel the steps that run and forget the session's parts everywhere; variables, and what has a shared_name,
        stay with their tasks."""
        self._closed = True
        self._in_use.set()
        self._open.clear()
        for step in list(self._active):
            step.abort(CancelledError("Session has been closed."))
        self._deregister()

    def _forget_if_closed(self) -> None:
        """After a compile: when the session was closed meanwhile, not all of the parts were there to be forgotten."""
        if self._closed:
            self._deregister()

    def _deregister(self) -> None:
        self._own.deregister(self.session_id)
        for name in list(self._registrar.asked):
            self._tasks[name].deregister(self.session_id)
        self._begun.clear()
        self._compiled.clear()
