"""The door: what the front end may ask of the runtime. Names, GraphDefs, arrays and errors cross here, nothing else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import sparkflow_runtime.kernels  # noqa: F401  (fills the kernel table)
from sparkflow_runtime.master.master import Master
from sparkflow_runtime.server import Server, server_at
from sparkflow_runtime.wire.protos import ConfigProto, GraphDef, RunMetadata, RunOptions
from sparkflow_runtime.worker.worker import Worker

LOCAL_TASK = "/job:localhost/replica:0/task:0"


class RuntimeSession:
    """A session with a master in this process.

    target: "" for a session of its own, or the target of a Server of this process.
    """

    def __init__(self, target: str = "", config: ConfigProto | None = None):
        config = config or ConfigProto()
        timeout_s = config.operation_timeout_in_ms / 1000 or None
        options: dict[str, Any] = {
            "soft_placement": config.allow_soft_placement,
            "timeout_s": timeout_s,
            "cost_steps": config.graph_options.build_cost_model,
            "log_placement": _print_placement if config.log_device_placement else None,
        }
        if target:
            server: Server = server_at(target)
            self._master = Master(server.worker, server.tasks(list(config.device_filters)), **options)
        else:
            self._master = Master(Worker(LOCAL_TASK), {}, **options)

    def extend(self, graph: GraphDef) -> None:
        self._master.extend(graph)

    def run(
        self,
        feeds: dict[str, np.ndarray],
        fetches: Sequence[str],
        targets: Sequence[str],
        options: RunOptions | None = None,
        metadata: RunMetadata | None = None,
    ) -> list[Any]:
        """The values of `fetches` ('name:port'), after the nodes `targets` ran. feeds: 'name:port' -> array.

        metadata: filled with what `options` asks for: step stats of a traced run, the graphs of the parts.
        """
        signature, values = (tuple(feeds), tuple(fetches), tuple(targets)), list(feeds.values())
        timeout_s = None if options is None else options.timeout_in_ms / 1000 or None
        if options is None or not (options.trace_level or options.output_partition_graphs):
            return self._master.run(self._master.compile(*signature), values, timeout_s)
        compiled = self._master.compile(*signature, trace=bool(options.trace_level))
        metadata = RunMetadata() if metadata is None else metadata
        metadata.Clear()
        if options.output_partition_graphs:
            metadata.partition_graphs.extend(compiled.graphs.values())
        if not options.trace_level:
            return self._master.run(compiled, values, timeout_s)
        fetched, stats = self._master.run_traced(compiled, values, timeout_s)
        for task in stats:
            metadata.step_stats.MergeFrom(task)
        nodes = [node for graph in compiled.graphs.values() for node in graph.node]
        metadata.cost_graph.CopyFrom(self._master.costs.as_cost_graph(nodes))
        return fetched

    def prepare(self, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str]) -> Callable[..., list[Any]]:
        """A function of the feed values, compiled now: `f([array, ...]) -> [value, ...]`."""
        compiled, run = self._master.compile(tuple(feeds), tuple(fetches), tuple(targets)), self._master.run
        return lambda values: run(compiled, values)

    def devices(self) -> list[str]:
        return self._master.devices

    def close(self) -> None:
        self._master.close()


def _print_placement(line: str) -> None:
    print(line, file=sys.stderr)
