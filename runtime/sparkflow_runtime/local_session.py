"""A session whose master is in this process, of its own or of a Server that lives here."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

import sparkflow_runtime.kernels.table  # noqa: F401  (fills the kernel table)
from sparkflow_runtime.dialling import PATIENCE_S
from sparkflow_runtime.gpus import gpu_indices
from sparkflow_runtime.hosting import Host, check_cluster
from sparkflow_runtime.kernels.memories import gpu_bytes
from sparkflow_runtime.master.compiled import Compiled
from sparkflow_runtime.master.master import Master
from sparkflow_runtime.master.passes import Report, Settings
from sparkflow_runtime.memory import keep_freed_memory, limit_bytes
from sparkflow_runtime.partial import PartialRun
from sparkflow_runtime.threads import inter_op
from sparkflow_runtime.wire.devices import LOCAL_TASK, DeviceSpec
from sparkflow_runtime.wire.errors import CancelledError, OpError
from sparkflow_runtime.wire.protos import ConfigProto, GraphDef, NodeDef, RunMetadata, RunOptions
from sparkflow_runtime.wire.sessions import new_session
from sparkflow_runtime.wire.sizes import UNKNOWN_SIZE
from sparkflow_runtime.wire.waiting import within
from sparkflow_runtime.worker.worker import Worker


class DeviceAttributes(NamedTuple):
    """A device of a session. memory_limit_bytes: of its machine, as far as this process knows. incarnation: another
    one for each device, and in each process that is a session's master (of each session that has none elsewhere)."""

    name: str
    device_type: str
    memory_limit_bytes: int
    incarnation: int = 0


class RuntimeSession:
    """A session with a master in this process.

    host: the Server whose cluster it runs in; None for a session of its own.
    """

    def __init__(self, host: Host | None = None, config: ConfigProto | None = None):
        keep_freed_memory()
        if host is not None and config is not None:
            check_cluster(host, config)
        config = _merged(host.config if host else None, config)
        timeout_s = config.operation_timeout_in_ms / 1000 or None
        options: dict[str, Any] = {
            "soft_placement": config.allow_soft_placement,
            "timeout_s": timeout_s,
            "cost_steps": config.graph_options.build_cost_model,
            "log_placement": _print_placement if config.log_device_placement else None,
            "passes": replace(Settings.of(config), memory_limit_bytes=limit_bytes()),
            "processors": config.device_count.get("CPU", 1),
            "session": new_session(config.isolate_session_state),
            "gpus": partial(gpu_indices, config),
        }
        self._own = host is None
        self._process = host.process if host else secrets.token_hex(8)
        self._worker = host.worker if host else Worker(LOCAL_TASK, lanes=inter_op)
        tasks = host.tasks(list(config.device_filters), min(PATIENCE_S, timeout_s or PATIENCE_S)) if host else {}
        self._master = Master(self._worker, tasks, **options)

    def extend(self, graph: GraphDef, again: bool = False) -> None:
        """again: some of the nodes may be there already."""
        self._master.extend(graph, again)

    def extend_unwritten(
        self, ops: Sequence[tuple[str, str, str]], write: Callable[[str, NodeDef], None], again: bool = False
    ) -> None:
        """The nodes (name, op, device) of a graph in this process, which is whole: `write` makes an empty NodeDef the
        node of a name, when a run first needs it. again: some of them may be there already."""
        self._master.extend_unwritten(ops, write, again)

    def run(
        self,
        feeds: dict[str, np.ndarray],
        fetches: Sequence[str],
        targets: Sequence[str],
        options: RunOptions | None = None,
        metadata: RunMetadata | None = None,
        step_id: int | None = None,
    ) -> list[Any]:
        """The values of `fetches` ('name:port'), after the nodes `targets` ran. feeds: 'name:port' -> array.

        metadata: filled with what `options` asks for: step stats of a traced run, the graphs of the parts.
        """
        signature, values = (tuple(feeds), tuple(fetches), tuple(targets)), list(feeds.values())
        if options is None:
            return self._master.run(self._master.compile(*signature), values, None, step_id)
        timeout_s = options.timeout_in_ms / 1000 or None
        with within(timeout_s):
            return self._run_with(options, signature, values, timeout_s, metadata, step_id)

    def _run_with(
        self,
        options: RunOptions,
        signature: tuple[Any, Any, Any],
        values: list[Any],
        timeout_s: float | None,
        metadata: RunMetadata | None,
        step_id: int | None,
    ) -> list[Any]:
        if not (options.trace_level or options.output_partition_graphs):
            return self._master.run(self._master.compile(*signature), values, timeout_s, step_id)
        compiled = self._master.compile(*signature, trace=bool(options.trace_level))
        metadata = RunMetadata() if metadata is None else metadata
        metadata.Clear()
        if options.output_partition_graphs:
            metadata.partition_graphs.extend(compiled.graphs.values())
        if not options.trace_level:
            return self._master.run(compiled, values, timeout_s, step_id)
        fetched, stats = self._master.run_traced(compiled, values, timeout_s, step_id)
        for task in stats:
            metadata.step_stats.MergeFrom(task)
        nodes = [node for graph in compiled.graphs.values() for node in graph.node]
        metadata.cost_graph.CopyFrom(self._master.costs.as_cost_graph(nodes))
        return fetched

    def prepare(self, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str]) -> Callable[..., list[Any]]:
        """A function of the feed values, compiled now: `f([array, ...], options, metadata) -> [value, ...]`."""
        compiled, run = self._master.compile(tuple(feeds), tuple(fetches), tuple(targets)), self._master.run

        def call(
            values: list[Any], options: RunOptions | None = None, metadata: RunMetadata | None = None
        ) -> list[Any]:
            if options is None and metadata is None:
                return run(compiled, values)
            return self.run(dict(zip(feeds, values)), fetches, targets, options, metadata)

        return call

    def prepare_to_cancel(self, target: str) -> tuple[Callable[[], object], Callable[[], None]]:
        """(run, cancel) of a node: cancel() has the run of another thread raise CancelledError, and the next one if
        there is none."""
        compiled, steps = self._master.compile((), (), (target,)), [self.new_step_id()]

        def run() -> None:
            try:
                self._master.run(compiled, [], None, steps[0])
            finally:
                steps[0] = self.new_step_id()

        return run, lambda: self.cancel(steps[0], CancelledError("The program gave the step up"))

    def compile_ahead(self, wanted: Iterable[tuple[Sequence[str], Sequence[str]]]) -> None:
        """Have these (fetches, targets), which will be run without feeds, compiled when nobody else compiles. In a
        session that has no other task to wait for, nothing is done."""
        if not self._own:
            self._master.compile_ahead(((), tuple(fetches), tuple(targets)) for fetches, targets in wanted)

    def begin_partial(
        self, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str], handle: str = ""
    ) -> PartialRun:
        return PartialRun(self._master, self._worker, tuple(feeds), tuple(fetches), tuple(targets), handle)

    # ------------------------------------------------------------------ on behalf of a client

    def new_step_id(self) -> int:
        """For a step that may have to be cancelled."""
        return self._master.new_step_id()

    def compiled(self, signature: tuple[Any, Any, Any]) -> Compiled | None:
        """What this (feeds, fetches, targets) is compiled to already."""
        return self._master.compiled(signature)

    def is_straight(self, compiled: Compiled) -> bool:
        """Whether a step of it runs here and waits for nothing."""
        own = compiled.own
        return own is not None and compiled.all_here and self._worker.is_straight(own.handle)

    def run_compiled(self, compiled: Compiled, values: list[Any]) -> list[Any]:
        """As `run_values`, of a signature that is compiled."""
        return self._master.run(compiled, values, lent=True)

    def run_values(self, signature: tuple[Any, Any, Any], values: list[Any], step_id: int | None = None) -> list[Any]:
        """As `run`, with the values of the feeds in order, for a client to whom they are sent at once: what is fetched
        may be memory of variables."""
        return self._master.run(self._master.compile(*signature), values, None, step_id, True)

    def cancel(self, step_id: int, error: OpError) -> None:
        """End that step with `error`, unless it has ended or cannot be ended."""
        self._master.cancel(step_id, error)

    @property
    def session_id(self) -> str:
        return self._master.session_id

    def devices(self) -> list[DeviceAttributes]:
        return [_attributes(name, self._process) for name in self._master.devices]

    def explain(
        self, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str], unknown: int = UNKNOWN_SIZE
    ) -> Report:
        """What the passes do to the graph of a signature, and its plan of memory, in which an open dimension counts as
        `unknown`; nothing runs."""
        return self._master.explain(feeds, fetches, targets, unknown)

    def close(self) -> None:
        """What nobody can run any more lets its resources go; a Server's outlive its sessions."""
        self._master.close()
        if self._own:
            self._worker.resources.clear()


def _merged(usual: ConfigProto | None, config: ConfigProto | None) -> ConfigProto:
    merged = ConfigProto()
    for one in (usual, config):
        if one is not None:
            merged.MergeFrom(one)
    return merged


def _attributes(name: str, process: str) -> DeviceAttributes:
    spec = DeviceSpec.from_string(name)
    incarnation = int.from_bytes(blake2b(f"{process} {name}".encode(), digest_size=8).digest()) >> 1 or 1
    if spec.device_type == "GPU":
        return DeviceAttributes(name, "GPU", gpu_bytes(spec.device_index or 0), incarnation)
    return DeviceAttributes(name, "CPU", limit_bytes(), incarnation)


def _print_placement(line: str) -> None:
    print(line, file=sys.stderr)
