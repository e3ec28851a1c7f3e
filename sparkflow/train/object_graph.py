"""Objects that hold variables, as a graph: who holds whom under which name, and the key of each variable's value.

The keys and the message are TensorFlow's (trackable_object_graph.proto), so that either reads what the other wrote:
`model/kernel/.ATTRIBUTES/VARIABLE_VALUE`, and for an optimizer's slot
`model/kernel/.OPTIMIZER_SLOT/optimizer/m/.ATTRIBUTES/VARIABLE_VALUE`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from sparkflow.framework.tracked import Tracked
from sparkflow.ops.variables import Variable
from sparkflow.train.optimizer import Optimizer, _var_key

GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"
VALUE = "VARIABLE_VALUE"


def children(value: Any) -> list[tuple[str, Any]]:
    """(name, object) of what an object holds, in the order of the names, as keys have them. Raises ValueError on an
    object that nothing can be kept of."""
    if isinstance(value, Variable):
        return []
    if isinstance(value, Mapping):
        wrong = [key for key in value if not isinstance(key, str)]
        if wrong:
            raise ValueError(f"Checkpoint: keys of a dict must be strings, got {wrong[0]!r}")
        return [(key, value[key]) for key in sorted(value) if _holds(value[key])]
    if isinstance(value, (list, tuple)):
        return [(str(i), part) for i, part in enumerate(value) if _holds(part)]
    if isinstance(value, Optimizer):
        return sorted((name, var) for (name, _), var in value._non_slot.items())
    if isinstance(value, Tracked):
        named = value._named_parts()
        if named is not None:
            return named
        held = [(name, part) for name, part in sorted(vars(value).items()) if not name.startswith("_")]
        return [(name, part) for name, part in held if value._holds_nothing_else or _holds(part)]
    raise ValueError(
        "`Checkpoint` was expecting variables, optimizers, layers, checkpoints, and lists and dicts of them, got "
        f"{value!r}"
    )


def _holds(value: Any) -> bool:
    """Whether anything can be kept of it; numbers and functions among a layer's attributes are passed over."""
    return isinstance(value, (Variable, Mapping, list, tuple, Optimizer, Tracked))


class Slot(NamedTuple):
    """One of an optimizer's variables beside another: the numbers of three nodes, and what it is called."""

    optimizer: int
    original: int
    name: str
    slot: int


class ObjectGraph:
    """The objects below a root: numbered breadth first, slots last. keys: of the variables among them, by number."""

    def __init__(self, root: Any):
        self.objects: list[Any] = [root]
        self.edges: list[list[tuple[str, int]]] = []
        self.slots: list[Slot] = []
        self.keys: dict[int, str] = {}
        self._paths = [""]
        self._numbers = {id(root): 0}
        while len(self.edges) < len(self.objects):
            self._expand(len(self.edges))
        self._add_slots()

    def _expand(self, number: int) -> None:
        value, path = self.objects[number], self._paths[number]
        if isinstance(value, Variable):
            self.keys[number] = f"{path}/.ATTRIBUTES/{VALUE}"
        found = []
        for name, part in children(value):
            if id(part) not in self._numbers:
                self._numbers[id(part)] = len(self.objects)
                self.objects.append(part)
                self._paths.append(f"{path}/{_escaped(name)}" if path else _escaped(name))
            found.append((name, self._numbers[id(part)]))
        self.edges.append(found)

    def _add_slots(self) -> None:
        for number, (value, path) in enumerate(list(zip(self.objects, self._paths))):
            if not isinstance(value, Optimizer):
                continue
            for name in value.get_slot_names():
                for original, var in enumerate(self.objects[: len(self._paths)]):
                    slot = value._slots[name].get(_var_key(var)) if isinstance(var, Variable) else None
                    if slot is not None:
                        self._add_slot(Slot(number, original, name, len(self.objects)), slot, path)

    def _add_slot(self, where: Slot, slot: Variable, path: str) -> None:
        self.slots.append(where)
        self.objects.append(slot)
        self.edges.append([])
        beside = f"{self._paths[where.original]}/.OPTIMIZER_SLOT/{path}/{_escaped(where.name)}"
        self.keys[where.slot] = f"{beside}/.ATTRIBUTES/{VALUE}"

    def message(self) -> bytes:
        """The serialized TrackableObjectGraph."""
        from tensorboard.compat.proto.trackable_object_graph_pb2 import TrackableObjectGraph

        graph = TrackableObjectGraph()
        for number, (value, edges) in enumerate(zip(self.objects, self.edges)):
            node = graph.nodes.add()
            for name, child in edges:
                node.children.add(node_id=child, local_name=name)
            if number in self.keys:
                node.attributes.add(name=VALUE, full_name=value.op.name, checkpoint_key=self.keys[number])
        for where in self.slots:
            graph.nodes[where.optimizer].slot_variables.add(
                original_variable_node_id=where.original, slot_name=where.name, slot_variable_node_id=where.slot
            )
        return graph.SerializeToString()


def keys_by_name(message: bytes) -> dict[str, str]:
    """Name of a variable when it was saved -> the key of its value."""
    from tensorboard.compat.proto.trackable_object_graph_pb2 import TrackableObjectGraph

    attributes = (a for node in TrackableObjectGraph.FromString(message).nodes for a in node.attributes)
    return {a.full_name: a.checkpoint_key for a in attributes if a.name == VALUE and a.full_name}


def _escaped(name: str) -> str:
    return name.replace(".", "..").replace("/", ".S")


class Matched(NamedTuple):
    """found: (variable, key in the checkpoint); missing: variables that have no value there; left: keys that have no
    variable here."""

    found: list[tuple[Variable, str]]
    missing: list[Variable]
    left: list[str]
    objects: int  # how many beside the root were found in the checkpoint


def matched(own: ObjectGraph, message: bytes) -> Matched:
    """Which of a checkpoint's values are whose: objects are the same when they are reached by the same names."""
    from tensorboard.compat.proto.trackable_object_graph_pb2 import TrackableObjectGraph

    theirs = TrackableObjectGraph.FromString(message).nodes
    pairs = dict(_pairs(own, theirs))  # own number -> theirs
    slots = {(s.optimizer, s.original, s.name): s.slot for s in own.slots}
    others = {number: mine for mine, number in pairs.items()}
    for mine, number in list(pairs.items()):
        for slot in theirs[number].slot_variables:
            key = (mine, others.get(slot.original_variable_node_id, -1), slot.slot_name)
            if key in slots:
                pairs[slots[key]] = slot.slot_variable_node_id
    of_node = {n: a.checkpoint_key for n, node in enumerate(theirs) for a in node.attributes if a.name == VALUE}
    found = [(own.objects[m], of_node[pairs[m]]) for m in own.keys if m in pairs and pairs[m] in of_node]
    taken = {key for _, key in found}
    missing = [own.objects[m] for m in own.keys if pairs.get(m) not in of_node]
    every = [a.checkpoint_key for node in theirs for a in node.attributes]
    return Matched(found, missing, [key for key in every if key not in taken], len(pairs) - 1)


def _pairs(own: ObjectGraph, theirs: Any) -> Iterator[tuple[int, int]]:
    waiting, seen = [(0, 0)], {0}
    while waiting:
        mine, number = waiting.pop(0)
        yield mine, number
        named = {child.local_name: child.node_id for child in theirs[number].children}
        for name, child in own.edges[mine]:
            if name in named and child not in seen:
                seen.add(child)
                waiting.append((child, named[name]))
