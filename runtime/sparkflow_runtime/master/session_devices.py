"""The devices of one session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

from sparkflow_runtime.master.compiled import Task


class SessionDevices:
    """processors, gpus: what the own task shows, the GPUs by their indices; to ask for those may mean to import what
    drives them. tasks: of the cluster but the own one."""

    def __init__(self, own: str, tasks: Mapping[str, Task], processors: int, gpus: Callable[[], Sequence[int]]):
        self._own, self._tasks = own, tasks
        cpus = [f"{own}/device:CPU:{i}" for i in range(max(1, processors))]
        self.processors = [*cpus, *(f"{name}/device:CPU:0" for name in tasks)]
        self._own_gpus = cache(lambda: [f"{own}/device:GPU:{i}" for i in gpus()])

    def gpus_of(self, task: str) -> list[str]:
        """Another task is asked for them."""
        if task == self._own:
            return self._own_gpus()
        return [f"{task}/device:GPU:{i}" for i in range(self._tasks[task].gpus())] if task in self._tasks else []

    def known(self, asked_for: Sequence[str]) -> list[str]:
        """All of them, where of other tasks' GPUs those are known that were asked for."""
        return list(dict.fromkeys([*self.processors, *self._own_gpus(), *asked_for]))
