"""CriticalSection: parts of a graph of which one runs at a time, over all steps and sessions that share it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from sparkflow.framework import nest
from sparkflow.framework.apply import apply_op
from sparkflow.framework.graph import Graph, Operation, Tensor, get_default_graph
from sparkflow.framework.indexed_slices import IndexedSlices
from sparkflow.framework.registry import op
from sparkflow.framework.scopes import colocate_with, control_dependencies
from sparkflow.framework.sparse_tensor import SparseTensor
from sparkflow.ops import array
from sparkflow.ops.control_flow import group
from sparkflow.ops.tensor_array import TensorArray
from sparkflow_runtime.wire import dtypes

_SECTIONS, _EXECUTIONS = "critical_sections", "critical_section_executions"
_RUNNING = "critical sections that are being built"  # in a graph's extra: their handles

op("MutexV2", "-> resource: resource", lambda op: [()], stateful=True, container="", shared_name="")
op("MutexLock", "mutex: resource -> mutex_lock: variant", lambda op: [()], stateful=True)
op("ConsumeMutexLock", "mutex_lock: variant ->", stateful=True)


class _Execution(NamedTuple):
    op: Operation  # that takes the lock
    handle: Tensor
    resources: list[Tensor]
    exclusive_resource_access: bool


class CriticalSection:
    """What execute() adds to it never runs at the same time as another part of it.

    shared_name: sections of this name are one in all sessions of a task; by default that of its name.
    Parts run in no particular order. A step that fails in a part leaves the section.
    """

    def __init__(
        self,
        name: str | None = None,
        shared_name: str | None = None,
        critical_section_def: Any = None,
        import_scope: str | None = None,
    ):
        if critical_section_def is not None:
            if name is not None:
                raise ValueError(
                    "Arguments critical_section_def and shared_name are mutually exclusive. Please only specify one "
                    "of them."
                )
            raise ValueError("CriticalSection: Argument `critical_section_def` is not supported; give a shared_name")
        graph = get_default_graph()
        with graph.name_scope(name or "CriticalSection") as scope, control_dependencies(None):
            self._handle = apply_op("MutexV2", [], {"shared_name": shared_name or scope}, scope)
        graph.add_to_collection(_SECTIONS, self)

    @property
    def name(self) -> str:
        return self._handle.op.name

    def execute(self, fn: Callable[[], Any], exclusive_resource_access: bool = True, name: str | None = None) -> Any:
        """What fn() gives, computed while nothing else runs in this section: tensors in any structure, or an operation.

        All of it is computed together, once all that fn takes from outside is there. exclusive_resource_access: that no
        other section may use a table or queue that fn uses. Raises ValueError where one does, where fn executes this
        very section, and where it gives None.
        """
        if not callable(fn):
            raise TypeError(f"CriticalSection.execute: fn must be callable, got {fn!r}")
        graph = get_default_graph()
        running = graph.extra.setdefault(_RUNNING, [])
        if self._handle in running:
            raise ValueError(
                f"Attempting to lock a CriticalSection ({self.name!r}) in which we are already running. This is "
                "illegal and may cause deadlocks."
            )
        with graph.name_scope(name or "critical_section_execute"):
            lock = apply_op("MutexLock", [self._handle])
            first = graph.version
            running.append(self._handle)
            try:
                with control_dependencies([lock]):
                    found = fn()
            finally:
                running.pop()
            made = graph.operations_since(first)
            resources = self._resources(made)
            self._check_resources(graph, resources, exclusive_resource_access)
            _wait_for_outside(lock.op, made)
            return self._released(lock, found, _Execution(lock.op, self._handle, resources, exclusive_resource_access))

    def _released(self, lock: Tensor, found: Any, execution: _Execution) -> Any:
        flat = [_same(x) for x in nest.flatten(found)]
        with control_dependencies(list(map(_one, flat))), colocate_with(self._handle.op):
            free = apply_op("ConsumeMutexLock", [lock])
        with control_dependencies([free]):
            out = list(map(_same, flat))
        get_default_graph().add_to_collection(_EXECUTIONS, execution)
        return nest.pack_sequence_as(found, out)

    def _resources(self, made: list[Operation]) -> list[Tensor]:
        own = {t for o in made for t in o.outputs}
        return list(dict.fromkeys(t for o in made for t in o.inputs if t.dtype == dtypes.resource and t not in own))

    def _check_resources(self, graph: Graph, resources: list[Tensor], exclusive: bool) -> None:
        for other in graph.get_collection(_EXECUTIONS):
            if other.handle is self._handle or not (exclusive or other.exclusive_resource_access):
                continue
            shared = [t.name for t in resources if t in other.resources]
            if shared:
                raise ValueError(
                    f"This execution would access resources: {shared}. Either this lock (CriticalSection: "
                    f"{self.name!r}) or lock {other.op.name!r} of {other.handle.op.name!r} requested exclusive "
                    "resource access of this resource. Did you mean to call execute with keyword argument "
                    "exclusive_resource_access=False?"
                )


def _one(x: Any) -> Any:
    """What there is when x has been computed."""
    return x.values if isinstance(x, (SparseTensor, IndexedSlices)) else x.flow if isinstance(x, TensorArray) else x


def _same(x: Any) -> Any:
    if isinstance(x, Operation):
        return group(x)
    if x is None:
        raise ValueError(
            "CriticalSection.execute: fn gave None. None values not supported: return a tensor or an operation"
        )
    return x.identity() if isinstance(x, TensorArray) else array.identity(x)


def _wait_for_outside(lock: Operation, made: list[Operation]) -> None:
    """The lock is taken once all is there that the part takes: what waits with a lock may wait for who waits for it."""
    inside = {*made, lock}
    outside = {t.op for o in made for t in o.inputs if t.op not in inside}
    context = lock._control_flow_context
    lock._add_control_inputs(sorted((o for o in outside if o._control_flow_context is context), key=lambda o: o.name))
