"""Mutexes as ops. Their handles are the mutexes themselves; what one does is in resources/mutexes."""

from __future__ import annotations

from collections.abc import Callable

from sparkflow_runtime.kernels.registry import Function, Node, asynchronous, bound
from sparkflow_runtime.resources.mutexes import Held, Mutex

_CPU = ("CPU",)


@bound("MutexV2", handle=True, devices=_CPU)
def _mutex(node: Node) -> Callable[[], Mutex]:
    name = node.resource_name
    held = node.resources.get_or_create(node.container, name, Mutex, lambda: Mutex(name))
    return lambda: held


@asynchronous("MutexLock", devices=_CPU)
def _lock(node: Node) -> Function:
    return lambda step, done, mutex: mutex.lock(done, step)


@bound("ConsumeMutexLock", devices=_CPU)
def _consume(node: Node) -> Callable[[Held], None]:
    return Held.release
