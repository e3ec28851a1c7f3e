"""Timeline: a traced step as a picture, in the format that Perfetto (ui.perfetto.dev) and chrome://tracing open."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_LABEL = re.compile(r"^(?P<name>.*) = (?P<op>[^(]+)\((?P<inputs>.*)\)$", re.DOTALL)


class Timeline:
    """Draws `step_stats` (of RunMetadata, after a run with trace_level=FULL_TRACE).

    A device is a process of the picture, a thread of it a row, a kernel a bar; arrows lead from a kernel to those that
    use its output.
    """

    def __init__(self, step_stats: Any, graph: Any = None):
        self._stats, self._graph = step_stats, graph
        self._begin_us = min((n.all_start_micros for d in step_stats.dev_stats for n in d.node_stats), default=0)

    def generate_chrome_trace_format(self, show_dataflow: bool = True, show_memory: bool = False) -> str:
        """The trace as JSON text. show_memory: a counter of the bytes that the step's own tensors hold, by device."""
        events: list[dict[str, Any]] = []
        for pid, device in enumerate(self._stats.dev_stats):
            events.append(_process_name(pid, device.device))
            events += self._bars(pid, device)
            if show_memory:
                events += self._memory(pid, device)
        if show_dataflow:
            events += self._arrows()
        return json.dumps({"traceEvents": events}, indent=1)

    def _bars(self, pid: int, device: Any) -> Iterator[dict[str, Any]]:
        rows = _rows(device)
        for node in device.node_stats:
            name, op, inputs = parts_of(node)
            args = {"name": name, "op": op, **{f"input{i}": e for i, e in enumerate(inputs)}}
            yield {
                "ph": "X", "cat": "Op", "name": op, "pid": pid, "tid": rows[node.thread_id], "args": args,
                "ts": self._start(node), "dur": _duration(node),
            }  # fmt: skip

    def _start(self, node: Any) -> float:
        """Microseconds since the step's first kernel began."""
        return float((node.all_start_nanos / 1000 or node.all_start_micros) - self._begin_us)

    def _memory(self, pid: int, device: Any) -> Iterator[dict[str, Any]]:
        for node in sorted(device.node_stats, key=lambda n: self._start(n) + _duration(n)):
            held, at = sum(m.allocator_bytes_in_use for m in node.memory), self._start(node) + _duration(node)
            yield {"ph": "C", "name": "bytes in use", "pid": pid, "tid": 0, "ts": at, "args": {"bytes": held}}

    def _arrows(self) -> Iterator[dict[str, Any]]:
        """One flow per data edge between two bars."""
        places: dict[str, tuple[int, int, float, Any]] = {}
        for pid, device in enumerate(self._stats.dev_stats):
            rows = _rows(device)
            for node in device.node_stats:
                places.setdefault(node.node_name, (pid, rows[node.thread_id], self._start(node), node))
        serial = 0
        for pid, tid, start, node in list(places.values()):
            for source in {e.split(":")[0] for e in parts_of(node)[2]} & places.keys():
                from_pid, from_tid, from_start, made_by = places[source]
                common = {"cat": "DataFlow", "name": source, "id": serial}
                end = from_start + _duration(made_by)
                yield {"ph": "s", "pid": from_pid, "tid": from_tid, "ts": end, **common}
                yield {"ph": "t", "pid": pid, "tid": tid, "ts": start, **common}
                serial += 1


def parts_of(node: Any) -> tuple[str, str, list[str]]:
    """(name, op, inputs) of a NodeExecStats, from its label 'name = Op(inputs)'."""
    found = _LABEL.match(node.timeline_label)
    if found is None:
        return node.node_name, node.node_name, []
    return found["name"], found["op"], [e for e in found["inputs"].split(", ") if e]


def _duration(node: Any) -> float:
    return float(node.all_end_rel_nanos / 1000 or node.all_end_rel_micros)


def _rows(device: Any) -> dict[int, int]:
    threads = dict.fromkeys(node.thread_id for node in device.node_stats)
    return {thread: row for row, thread in enumerate(threads)}


def _process_name(pid: int, device: str) -> dict[str, Any]:
    return {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": device}}
