"""Where variables, queues and tables are that ask for no task themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sparkflow_runtime.kernels import registry
from sparkflow_runtime.master.place import homes
from sparkflow_runtime.wire.devices import DeviceSpec
from sparkflow_runtime.wire.protos import GraphDef, NodeDef


class Homes:
    """Of one session's graph: whatever part of it runs, what keeps state is in one place.

    default: the device of what nobody asks a device for. Not for several threads.
    """

    def __init__(self, default: str, soft: bool):
        self._default, self._soft = default, soft
        self._new: list[str] = []  # nodes that keep state, and have not been looked at
        self._free: dict[str, str] = {}  # those that ask for no task -> their device, "" where none is known
        self._looked_at = 0

    def learn(self, ops: Iterable[tuple[str, str]]) -> None:
        """(name, op) of nodes that are new in the graph."""
        named: dict[str, list[str]] = {}
        for name, op in ops:
            named.setdefault(op, []).append(name)
        self._new += [name for op, names in named.items() if registry.keeps_state(op) for name in names]

    def settle(self, pruned: GraphDef, nodes: Mapping[str, NodeDef], devices: Sequence[str]) -> None:
        """Have the nodes of one run ask for the devices that the whole graph gives them."""
        new, self._new = self._new, []
        self._free |= dict.fromkeys((name for name in new if _asks_for_no_task(nodes[name])), "")
        if not self._free:
            return
        if self._looked_at < len(nodes):  # an update that was made since may ask for a task
            self._looked_at = len(nodes)
            unknown = {name for name, device in self._free.items() if not device}
            if unknown:
                self._free |= homes([nodes[n] for n in nodes], unknown, devices, self._default, self._soft)
        for node in pruned.node:
            node.device = self._free.get(node.name) or node.device


def _asks_for_no_task(node: NodeDef) -> bool:
    """Whether what it takes from nobody may be anywhere."""
    spec = DeviceSpec.from_string(node.device)
    return not node.input and (spec.job is None or spec.task is None)
