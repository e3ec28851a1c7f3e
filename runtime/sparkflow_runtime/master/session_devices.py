"""The devices of one session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

from sparkflow_runtime.kernels import registry
from sparkflow_runtime.master.compiled import Task
from sparkflow_runtime.wire import py_functions
from sparkflow_runtime.wire.devices import DeviceSpec
from sparkflow_runtime.wire.errors import UnimplementedError
from sparkflow_runtime.wire.node_list import NodeList
from sparkflow_runtime.wire.protos import NodeDef


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

    def call_home(self, pruned: NodeList) -> None:
        """Have Python functions, which do not travel, called by the own task, whatever task their nodes ask for. Those
        that are not in this process are the client's; in TensorFlow iterators of datasets travel.

        Raises UnimplementedError on an iterator with a shared_name: each process would have its own."""
        for i, node in enumerate(pruned.node):
            if node.op not in registry.CALLING_OUT:
                continue
            known = py_functions.knows(node.attr["token"].s.decode())
            if known and self._is_here(DeviceSpec.from_string(node.device)):
                continue
            self._check_own(node)
            pruned.node[i] = copy = NodeDef()
            copy.CopyFrom(node)
            copy.device = self.processors[0]
            if not known:
                copy.op = py_functions.ELSEWHERE

    def _check_own(self, node: NodeDef) -> None:
        """For what is called in another process than its task's."""
        state = node.attr[py_functions.STATE].s.decode() if py_functions.STATE in node.attr else ""
        if state.startswith(py_functions.SHARED):
            name = state.removeprefix(py_functions.SHARED)
            raise UnimplementedError(
                f"{node.name}: an iterator with a shared_name, {name!r}, would be on {node.device or self._own}, and "
                "its dataset is in another process: not all that name it so would share it. Leave the shared_name out, "
                "or let the iterator be on a task of the process that makes the dataset"
            )

    def _is_here(self, asked: DeviceSpec) -> bool:
        """Whether the device that is asked for is in this process, or none is, or nowhere."""
        if asked.fits_task(self._own):
            return True
        return all(task.is_here for name, task in self._tasks.items() if asked.fits_task(name))
