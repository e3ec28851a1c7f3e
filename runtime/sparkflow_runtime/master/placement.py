"""Where the nodes of a session's runs are, and what is remembered of that from run to run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from sparkflow_runtime.kernels import memories, registry
from sparkflow_runtime.master.compiled import Compiled
from sparkflow_runtime.master.cost_model import CostModel
from sparkflow_runtime.master.place import homes, place
from sparkflow_runtime.master.simulate import simulate
from sparkflow_runtime.wire.devices import DeviceSpec, on_cpu, task_of
from sparkflow_runtime.wire.node_list import NodeList
from sparkflow_runtime.wire.protos import GraphDef, NodeDef

_log = logging.getLogger(__name__)


class Placement:
    """Of one session's graph. Whatever part of it runs, what keeps state is in one place.

    devices: that there are, the default first. log: called with a line for every node that is placed anew. Not for
    several threads. gpus: the names of those that a task has; asked of a task once a node asks for one there.
    """

    def __init__(
        self,
        devices: Sequence[str],
        soft: bool,
        log: Callable[[str], None] | None,
        gpus: Callable[[str], Sequence[str]] = lambda task: (),
    ):
        self.devices, self._soft, self._log, self._gpus = devices, soft, log, gpus
        self._asking: dict[str, None] = {}  # tasks whose GPUs nodes ask for, and which have not been asked
        self._held: dict[str, str] = {}  # what keeps state -> where it is, in a session with GPUs
        self._said: dict[str, str] = {}  # node -> the device that was logged
        self._new: list[str] = []  # nodes that keep state, and have not been looked at
        self._free: dict[str, str] = {}  # those that ask for no task -> their device, "" where none is known
        self._looked_at = 0

    def learn(self, ops: Iterable[tuple[str, str, str]]) -> None:
        """(name, op, device) of nodes that are new in the graph."""
        named: dict[tuple[str, str], list[str]] = {}
        for name, op, device in ops:
            named.setdefault((op, device), []).append(name)
        for (op, device), names in named.items():
            if registry.keeps_state(op) and _leaves_task_open(device):
                self._new += names
            if _asks_for_gpu(op, device):
                self._asking.setdefault(self._whole(device).task_name)

    def _whole(self, device: str) -> DeviceSpec:
        return DeviceSpec.from_string(device).merged_over(DeviceSpec.from_string(self.devices[0]))

    def find_gpus(self) -> bool:
        """Ask the tasks whose GPUs are asked for; whether there are more now."""
        asked: set[str] = {task_of(device) for device in self.devices if not on_cpu(device)}
        found = [gpu for task in self._asking if task not in asked for gpu in self._gpus(task)]
        self.devices = [*self.devices, *found]  # before they are no longer asked: an interrupt may come between
        self._asking.clear()
        return bool(found)

    @property
    def has_gpus(self) -> bool:
        return not all(map(on_cpu, self.devices))

    def settle(self, pruned: NodeList, nodes: Mapping[str, NodeDef]) -> None:
        """Have what keeps state in one run ask for the devices that the whole graph gives it."""
        if len(self.devices) == 1:
            return
        new = dict.fromkeys((n for n in self._new if n not in self._free and _asks_for_no_task(nodes[n])), "")
        self._free |= new
        self._new = []  # once they are there: an interrupt may come before
        if not self._free:
            return
        if self._looked_at < len(nodes):  # an update that was made since may ask for a task
            unknown = {name for name, device in self._free.items() if not device}
            if unknown:
                self._free |= homes([nodes[n] for n in nodes], unknown, self.devices, self.devices[0], self._soft)
            self._looked_at = len(nodes)
        if self.has_gpus:  # a group may be elsewhere than its members ask
            self._held = {name: device for name, device in self._free.items() if device} | self._held
            return
        for i, node in enumerate(pruned.node):
            if (device := self._free.get(node.name)) and device != node.device:
                pruned.node[i] = copy = NodeDef()
                copy.CopyFrom(node)
                copy.device = device

    def with_named(self, nodes: Mapping[str, NodeDef]) -> Placement:
        """The same where all tasks and GPUs are there that nodes name. A session of no cluster would not be the master
        then: the first of them that is no parameter server is, if one is named."""
        named = {task_of(node.device) for node in nodes.values() if DeviceSpec.from_string(node.device).job}
        tasks = sorted(named, key=lambda task: (task.startswith("/job:ps/"), task))
        alone = sum(map(on_cpu, self.devices)) == 1 and any(not task.startswith("/job:ps/") for task in tasks)
        own = [] if alone else self.devices
        found = Placement(list(dict.fromkeys([*own, *(f"{task}/device:CPU:0" for task in tasks)])), True, None)
        gpus = dict.fromkeys(found._whole(n.device) for n in nodes.values() if _asks_for_gpu(n.op, n.device))
        upto = [replace(gpu, device_index=i).to_string() for gpu in gpus for i in range((gpu.device_index or 0) + 1)]
        found.devices = list(dict.fromkeys([*found.devices, *upto]))
        found._new = [*self._new, *self._free]
        return found

    def place(self, graph: GraphDef, costs: CostModel | None) -> GraphDef:
        placed = place(graph, self.devices, self.devices[0], self._soft, costs, self._held)
        if self.has_gpus:
            self._held.update((n.name, n.device) for n in placed.node if n.op in registry.VARIABLES)
        return placed

    def log(self, pruned: GraphDef, costs: CostModel | None) -> None:
        """Say where the nodes are that the user made, as in TensorFlow."""
        for node in self.place(pruned, costs).node if self._log is not None else ():
            if self._said.get(node.name) != node.device and self._log is not None:
                self._said[node.name] = node.device
                self._log(f"{node.name}: ({node.op}): {node.device}")


def compare(placed: GraphDef, traced: Compiled | None, costs: CostModel) -> None:
    """Say how well the simulator foretells a step: the traced ones, and those to come."""
    if traced is not None and traced.measured_s:
        from statistics import median  # dear to import

        measured_s = median(traced.measured_s)
        told_s, now_s = (simulate(graph, costs).makespan_s for graph in (traced.placed, placed))
        _log.info(
            "Placed %d nodes by their cost: traced steps took %.3g ms, simulated %.3g ms; simulated now %.3g ms",
            len(placed.node), 1e3 * measured_s, 1e3 * told_s, 1e3 * now_s,
        )  # fmt: skip


def _asks_for_no_task(node: NodeDef) -> bool:
    """Whether what it takes from nobody may be anywhere."""
    return not node.input and _leaves_task_open(node.device)


def _asks_for_gpu(op: str, device: str) -> bool:
    return not on_cpu(device) and not memories.is_left_to_host(op)


def _leaves_task_open(device: str) -> bool:
    spec = DeviceSpec.from_string(device)
    return spec.job is None or spec.task is None
