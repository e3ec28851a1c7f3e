"""The values of a segment as Python expressions: which local variable, slot or constant stands for an edge."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.accumulate import accumulating, by_rows
from sparkflow_runtime.kernels.control_flow import truth
from sparkflow_runtime.kernels.registry import Kernel
from sparkflow_runtime.wire import control_flow as cf
from sparkflow_runtime.wire.control_flow import DEAD, Atom, Liveness, Path
from sparkflow_runtime.wire.devices import on_cpu
from sparkflow_runtime.wire.edges import data_inputs, node_name, parse
from sparkflow_runtime.wire.protos import NodeDef
from sparkflow_runtime.worker.codegen import read

HANDS_ON = {"Identity", "StopGradient", "PreventGradient", "Switch", "Enter", "Exit", "NextIteration", cf.LOOP_COND}
HANDS_ON |= {"RefIdentity", "RefSwitch", "RefEnter", "RefExit", "RefNextIteration"}
_DOES_NOTHING = {"NoOp", cf.TRIGGER}


class Irregular(Exception):
    """Why this control flow has no native form."""


@dataclass
class Parts:
    """What the plan's compiler knows of the segment. A tensor that another unit makes, or a feed, is in a slot."""

    live: Liveness
    nodes: Sequence[NodeDef]  # of this segment, producers first
    kernels: dict[str, Kernel]
    function: Callable[[NodeDef, Kernel], Any]  # binds a node; a str is an expression of its inputs
    where: Callable[[str], tuple[int | None, Any]]  # of a tensor from elsewhere: (slot or None, constant)
    constants: dict[str, Any]  # Const node -> value, with control inputs or without
    stores: dict[str, list[tuple[int, int]]]  # node -> (slot, port) that outlive the segment
    stop: int | None  # the slot whose list is not empty once the step is cancelled
    numbers: Collection[str] = ()  # nodes that likely compute single numbers: their constants are numpy's scalars


@dataclass(frozen=True)
class Value:
    text: str
    uses: frozenset[str] = frozenset()


class Values:
    def __init__(self, parts: Parts):
        self.parts, self.live, self.loops = parts, parts.live, parts.live.loops
        self.own = {n.name: i for i, n in enumerate(parts.nodes)}
        self.named = {f"t{i}": n for i, n in enumerate(parts.nodes)}
        self.position = {n.name: i for i, n in enumerate(self.loops.order)}
        self.names: dict[str, Any] = {"read": read, "truth": truth, "DEAD": DEAD}
        self.loaded: dict[int, str] = {}  # slot -> local name
        self.lazy: set[str] = set()  # nodes that compute the same in every iteration of their loop
        self.used = self._used_tensors()
        self.used_nodes = {parse(t)[0] for t in self.used}
        self.readers = self._find_readers()
        self.postponed: dict[str, NodeDef] = {}  # sum -> the node that computes what it adds, where that may wait

    # ------------------------------------------------------------------ what a node is

    def _used_tensors(self) -> set[str]:
        used = {"{}:{}".format(*parse(e)) for n in self.parts.nodes for e in data_inputs(n)}
        return used | {f"{name}:{port}" for name, ports in self.parts.stores.items() for _, port in ports}

    def _is_own(self, e: str) -> bool:
        return node_name(e) in self.own and not self.loops.is_fed(e)

    def _hands_on(self, node: NodeDef) -> bool:
        """A node that makes no code. One that reads a variable does, as the value is that of this moment."""
        if node.op in _DOES_NOTHING or node.name in self.parts.constants:
            return True
        return node.op in HANDS_ON and (node.op.startswith("Ref") or not self._is_reference(node.input[0]))

    def _is_reference(self, e: str) -> bool:
        """Whether the edge may carry a variable itself."""
        if self.loops.is_fed(e):
            return False
        node = self.loops.nodes[parse(e)[0]]
        if node.op in HANDS_ON or node.op in cf.MERGE:
            return node.op.startswith("Ref")
        row = self.parts.kernels.get(node.name)
        return row is not None and row.gives_variables

    def _is_loop_variable(self, node: NodeDef) -> bool:
        return node.op in cf.MERGE and any(
            cf.is_back_edge(node, self.loops.nodes[node_name(e)]) for e in node.input if not self.loops.is_fed(e)
        )

    def _level(self, node: NodeDef) -> Path:
        """The frame in which a node's code stands: what an Enter or Exit reads of a variable, it reads outside."""
        path = self.loops.owner[node.name]
        return path[:-1] if node.op in cf.ENTER | cf.EXIT and not self._hands_on(node) else path

    # ------------------------------------------------------------------ values

    def _value(self, e: str) -> Value:
        while True:
            if not self._is_own(e):
                return self._from_elsewhere(e)
            node = self.loops.nodes[parse(e)[0]]
            if node.name in self.parts.constants:
                return self._constant(node.name, self.parts.constants[node.name])
            if not self._hands_on(node):
                break
            e = node.input[0]
        name, port = f"t{self.own[node.name]}", parse(e)[1]
        if node.op in cf.MERGE:
            name += "i" if port else ""
            return Value(name, frozenset({name}))
        row = self.parts.kernels[node.name]
        return Value(f"{name}[{port}]" if row.multi else name, frozenset({name}))

    def _from_elsewhere(self, e: str) -> Value:
        slot, constant = self.parts.where(e)
        if slot is None:
            return self._constant(parse(e)[0], constant)
        name = self.loaded.setdefault(slot, f"v{slot}")
        return Value(name, frozenset({name}))

    def _constant(self, node: str, value: Any) -> Value:
        name = f"c{self.position[node]}"
        self.names[name] = value
        return Value(name)

    def _read(self, e: str, deref: bool = True) -> Value:
        value = self._value(e)
        return Value(f"read({value.text})", value.uses) if deref and self._is_reference(e) else value

    def _number(self, value: Value) -> Value:
        """A constant as a scalar; anything else as it is."""
        if value.uses or value.text not in self.names:
            return value
        self.names[f"{value.text}s"] = self.names[value.text][()]
        return Value(f"{value.text}s")

    def _test(self, atom: Atom, *, check: bool = True) -> Value:
        """The predicate as an expression that is true when the atom's positive form holds."""
        if atom[0].startswith("?"):
            value = self._value(atom[0][1:])
            return Value(f"{value.text} is not DEAD", value.uses)
        value = self._read(atom[0])
        return Value(f"truth({value.text})" if check else value.text, value.uses)

    # ------------------------------------------------------------------ what loops need to know

    def _find_readers(self) -> dict[str, list[NodeDef]]:
        """Local name -> the nodes whose code reads it."""
        found: dict[str, list[NodeDef]] = {}
        for node in self.parts.nodes:
            for e in () if self._hands_on(node) else data_inputs(node):
                for name in self._value(e).uses:
                    found.setdefault(name, []).append(node)
        return found

    def _is_invariant(self, e: str, path: Path) -> bool:
        """Whether an edge carries the same array in all iterations of a loop."""
        if not self._is_own(e):
            return not self._is_reference(e)
        node = self.loops.nodes[parse(e)[0]]
        if node.name in self.parts.constants or node.name in self.lazy:
            return True
        if self._is_reference(e):
            return False
        if node.op in cf.ENTER:
            return cf.is_invariant(node) or self.loops.owner[node.name] != path
        return self._hands_on(node) and self._is_invariant(node.input[0], path)

    def _is_sum(self, node: NodeDef, path: Path) -> bool:
        """Whether a node adds to a loop's variable that nothing else in the loop reads."""
        data = data_inputs(node)
        name = self._value(data[0]).text if len(data) == 2 else ""
        variable = self.named.get(name)
        if variable is None or self.loops.owner[variable.name] != path or not self._is_loop_variable(variable):
            return False
        inside = [n for n in self.readers[name] if self.loops.owner[n.name][: len(path)] == path]
        begin = next(e for e in variable.input if not cf.is_back_edge(variable, self.loops.nodes[node_name(e)]))
        source = self.live.source(self.loops.nodes[node_name(begin)].input[0])
        constant = self.loops.nodes.get(parse(source)[0])
        is_scalar = (
            constant is not None and constant.op == "Const" and not constant.attr["value"].tensor.tensor_shape.dim
        )
        return inside == [node] and not is_scalar

    def _find_postponed(self) -> dict[str, NodeDef]:
        """Sums over a loop's iterations, of values that nothing else reads and that are made of rows by themselves."""
        found = {}
        for node in self.parts.nodes:
            path = self.loops.owner[node.name]
            adds = accumulating(self.parts.kernels[node.name]) is not None and on_cpu(node.device)
            if path and adds and self._is_sum(node, path):
                made = self._made_for(node, path)
                if made is not None:
                    found[node.name] = made
        return found

    def _made_for(self, node: NodeDef, path: Path) -> NodeDef | None:
        value = self._value(data_inputs(node)[1])
        made = self.named.get(value.text)
        if made is None or not self._adds_rows(made) or self.loops.owner[made.name] != path:
            return None
        if {made.name, node.name} & self.parts.stores.keys() or self.readers[value.text] != [node]:
            return None
        held = self._value(data_inputs(node)[0]).text
        return made if [f"t{self.own[n.name]}" for n in self.readers[f"t{self.own[node.name]}"]] == [held] else None

    def _adds_rows(self, node: NodeDef) -> bool:
        attr, data = node.attr, data_inputs(node)
        if not by_rows(node.op, attr["transpose_a"].b, attr["transpose_b"].b):
            return False
        if node.op == "MatMul":
            return True
        axes = self._value(data[1])
        return not (axes.uses or attr["keep_dims"].b) and np.ravel(self.names[axes.text]).tolist() == [0]
