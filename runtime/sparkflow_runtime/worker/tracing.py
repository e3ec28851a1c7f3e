"""Step traces: when each kernel of one step ran and what it put out, as TensorFlow's StepStats.

Only the plan of a traced run pays: its kernels are bound through `Recorder.wrap`. Starts are times of the wall clock,
reckoned from one reading of it by the monotonic clock, so that the spans of a task never run backwards. A GPU is waited
for after each of its kernels, which otherwise run on while the next are told to it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.memories import until_done
from sparkflow_runtime.kernels.registry import Kernel
from sparkflow_runtime.resources.variables import Variable
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.devices import DeviceSpec, on_cpu
from sparkflow_runtime.wire.edges import data_inputs
from sparkflow_runtime.wire.protos import NodeDef, StepStats
from sparkflow_runtime.worker.ledger import Ledger, Memory, is_array

Bind = Callable[[NodeDef, Kernel, dict[str, Any]], Callable[..., Any]]
_Span = tuple[str, str, str, int, int, int, list[tuple[str, tuple[int, ...], int]], Memory]


class Recorder:
    """What one step did. Thread-safe; `collect` hands the spans over and forgets them."""

    def __init__(self, task: str) -> None:
        self._task = task
        self._spans: list[_Span] = []  # list.append is atomic
        self._wall_us = time.time_ns() // 1000
        self._zero_ns = time.perf_counter_ns()
        self._ledger = Ledger()

    def clear(self) -> None:
        """Forget a step that failed."""
        self._spans, self._ledger = [], Ledger()

    def wrap(self, bind: Bind) -> Bind:
        """The same binder, whose functions leave a span at every call."""

        def traced(node: NodeDef, row: Kernel, attrs: dict[str, Any]) -> Callable[..., Any]:
            function = bind(node, row, attrs)
            label = f"{node.name} = {node.op}({', '.join(data_inputs(node))})"
            if row.is_async:
                return self._asynchronous(node, label, function)
            return self._synchronous(node, label, function, row.multi)

        return traced

    def _synchronous(self, node: NodeDef, label: str, function: Callable[..., Any], multi: bool) -> Callable[..., Any]:
        finish = until_done(node.device)

        def call(*inputs: Any, **options: Any) -> Any:
            ledger = self._ledger
            traced = ledger.before(inputs)
            start = time.perf_counter_ns()
            out = function(*inputs, **options)
            if finish is not None:
                finish()
            end, outputs = time.perf_counter_ns(), out if multi else (out,)
            self._add(node.name, label, node.device, start, outputs, end, ledger.after(outputs, traced, node.device))
            return out

        return call

    def _asynchronous(self, node: NodeDef, label: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(step: Any, done: Callable[..., None], *inputs: Any) -> None:
            self._ledger.before(inputs)
            start = time.perf_counter_ns()

            def ended(error: Any, outputs: Any = ()) -> None:
                self._add(node.name, label, node.device, start, outputs or ())
                done(error, outputs)

            function(step, ended, *inputs)

        return call

    def transfer(self, what: str, bundle: int, peer: str, start_ns: int, tensors: Any) -> None:
        """A bundle that was sent, or that arrived (a moment: `start_ns` is now)."""
        name = f"{what}/{bundle}"
        self._add(name, f"{name} = {what}({peer})", f"{self._task}/device:CPU:0", start_ns, tensors)

    def _add(
        self,
        name: str,
        label: str,
        device: str,
        start_ns: int,
        outputs: Any,
        end_ns: int | None = None,
        memory: Memory | None = None,
    ) -> None:
        end_ns = time.perf_counter_ns() if end_ns is None else end_ns
        memory = self._ledger.after(outputs or (), -1, device) if memory is None else memory
        described = [_describe(value) for value in outputs or ()]
        self._spans.append((name, label, device, threading.get_ident(), start_ns, end_ns, described, memory))

    def collect(self) -> np.ndarray:
        """A serialized StepStats as bytes in an array, so that it travels like a fetched tensor."""
        spans, self._spans = self._spans, []
        self._ledger = Ledger()
        stats, devices = StepStats(), {}
        for name, label, device, thread, start_ns, end_ns, outputs, memory in spans:
            if device not in devices:
                devices[device] = stats.dev_stats.add(device=device)
            node = devices[device].node_stats.add(node_name=name, timeline_label=label, thread_id=thread & 0x7FFFFFFF)
            node.all_start_micros = self._wall_us + (start_ns - self._zero_ns) // 1000
            node.all_start_nanos = self._wall_us * 1000 + start_ns - self._zero_ns
            node.op_end_rel_micros = node.all_end_rel_micros = max((end_ns - start_ns) // 1000, 1)
            node.op_end_rel_nanos = node.all_end_rel_nanos = max(end_ns - start_ns, 1)
            for slot, (dtype, shape, num_bytes) in enumerate(outputs):
                new_bytes = memory.new_bytes[slot] if slot < len(memory.new_bytes) else 0
                _fill_output(node.output.add(slot=slot), dtype, shape, num_bytes, new_bytes, _allocator(device))
            _fill_memory(node, memory, _allocator(device))
        return np.frombuffer(stats.SerializeToString(), np.uint8)


def _describe(value: Any) -> tuple[str, tuple[int, ...], int]:
    if type(value) is Variable and value.initialized:
        value = value.read()
    if isinstance(value, np.generic) or is_array(value):
        return value.dtype.name, value.shape, value.nbytes
    return "", (), 0  # a variable, a queue


def _allocator(device: str) -> str:
    """TensorFlow's name of what gives out a device's memory."""
    return "cpu" if on_cpu(device) else f"GPU_{DeviceSpec.from_string(device).device_index or 0}_bfc"


def _fill_memory(node: Any, memory: Memory, allocator: str) -> None:
    """What the kernel took (`total_bytes`), at most and in the end, and what the step's tensors hold then."""
    new_bytes = sum(memory.new_bytes)
    used = node.memory.add(allocator_name=allocator, total_bytes=new_bytes + memory.scratch_bytes)
    used.peak_bytes, used.live_bytes = new_bytes + memory.scratch_bytes, new_bytes
    used.allocator_bytes_in_use = memory.in_use_bytes
    node.memory_stats.temp_memory_size = memory.scratch_bytes


def _fill_output(
    output: Any, dtype: str, shape: tuple[int, ...], num_bytes: int, new_bytes: int, allocator: str
) -> None:
    """allocated_bytes is 0 where the output lies in memory that was there before."""
    found = output.tensor_description
    if dtype:
        found.dtype = dtypes.as_dtype("string" if dtype == "object" else dtype).as_datatype_enum
        for size in shape:
            found.shape.dim.add(size=size)
    found.allocation_description.requested_bytes = num_bytes
    found.allocation_description.allocated_bytes = new_bytes
    found.allocation_description.allocator_name = allocator
