"""replica_device_setter: variables on the parameter servers, everything else on the worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.graph import Operation
from sparkflow_runtime.wire.cluster import ClusterSpec
from sparkflow_runtime.wire.devices import DeviceSpec, merge

PS_OPS = ("Variable", "VariableV2", "AutoReloadVariable", "MutableHashTable", "MutableHashTableV2",
          "MutableHashTableOfTensors", "MutableHashTableOfTensorsV2", "MutableDenseHashTable",
          "MutableDenseHashTableV2", "VarHandleOp", "BoostedTreesEnsembleResourceHandleOp")  # fmt: skip


class _RoundRobin:
    """Tasks in turn, in the order the variables are made."""

    def __init__(self, num_tasks: int):
        self._num_tasks, self._next = num_tasks, 0

    def __call__(self, op: Operation) -> int:
        task, self._next = self._next, (self._next + 1) % self._num_tasks
        return task


class GreedyLoadBalancingStrategy:
    """The task with the least load so far; load_fn(op) says how much a variable adds."""

    def __init__(self, num_tasks: int, load_fn: Callable[[Operation], float]):
        if num_tasks < 1:
            raise ValueError(f"GreedyLoadBalancingStrategy: num_tasks must be positive, got {num_tasks}")
        self._loads, self._load_fn = [0.0] * num_tasks, load_fn

    def __call__(self, op: Operation) -> int:
        task = self._loads.index(min(self._loads))
        self._loads[task] += self._load_fn(op)
        return task


def byte_size_load_fn(op: Operation) -> int:
    """The bytes of a variable. Raises ValueError where op has several outputs or an unknown shape."""
    if len(op.outputs) != 1:
        raise ValueError(f"Op {op.name!r} must have a single output, it has {len(op.outputs)}")
    dims = op.attrs["shape"].dims if "shape" in op.attrs else op.outputs[0]._shape
    if not shapes.fully_known(dims):
        raise ValueError(f"Op {op.name!r}: its size is not known, its shape is {shapes.show(dims)}")
    return shapes.product(dims) * op.outputs[0].dtype.base_dtype.size


def replica_device_setter(
    ps_tasks: int = 0,
    ps_device: str = "/job:ps",
    worker_device: str = "/job:worker",
    merge_devices: bool = True,
    cluster: Any = None,
    ps_ops: Sequence[str] | None = None,
    ps_strategy: Callable[[Operation], int] | None = None,
) -> Callable[[Operation], str] | None:
    """A function for tf.device: puts ps_ops (variables) on parameter servers and other ops on worker_device.

    cluster: a ClusterSpec or what makes one; its number of tasks of ps_device's job replaces ps_tasks.
    ps_strategy: chooses the task of a variable; in turn by default. merge_devices: keep what outer tf.device blocks and
    the op itself say beyond that. Returns None where there are no parameter servers. Raises TypeError on a strategy
    that cannot be called.
    """
    if cluster is not None:
        job = DeviceSpec.from_string(ps_device).job or "ps"
        spec = ClusterSpec(cluster)
        ps_tasks = spec.num_tasks(job) if job in spec.jobs else 0
    if ps_tasks == 0:
        return None
    strategy = _RoundRobin(ps_tasks) if ps_strategy is None else ps_strategy
    if not callable(strategy):
        raise TypeError(f"ps_strategy must be callable, got {ps_strategy!r}")
    wanted = PS_OPS if ps_ops is None else tuple(ps_ops)

    def device(op: Operation) -> str:
        if not merge_devices and op.device:
            return op.device
        if op.type not in wanted or not ps_device:
            return merge(op.device, worker_device or "")
        own = DeviceSpec.from_string(op.device)
        target = DeviceSpec.from_string(ps_device)
        if own.job in (None, target.job):  # the turn passes even where the task was named, as in TensorFlow
            target = DeviceSpec(task=strategy(op)).merged_over(target)
        return merge(op.device, target.to_string())

    return device
