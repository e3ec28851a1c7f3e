"""Reads of variables that were made before an assignment, and are used after it at another task or in another memory.

A read hands on the variable's own memory, so what uses it here after an assignment sees the new value, as programs of
TensorFlow have it: `with tf.control_dependencies([train]): tf.cast(global_step, tf.float32)`. To another task a value
is sent as soon as it is there, before the assignment, and into or out of a GPU's memory it is copied once for all its
users. What goes to such a user is read anew, after all that the user itself waits for.
"""

from __future__ import annotations

from collections.abc import Iterable

from sparkflow_runtime.kernels import registry
from sparkflow_runtime.wire import control_flow
from sparkflow_runtime.wire.devices import on_cpu, task_of
from sparkflow_runtime.wire.edges import KEPT_READ, is_control, node_name, parse, with_inputs
from sparkflow_runtime.wire.node_list import NodeList
from sparkflow_runtime.wire.protos import GraphDef, NodeDef

_VARIABLES = frozenset(["VariableV2", "Variable"])
_PREFIX = "LaterRead/"


def later_reads(placed: GraphDef) -> GraphDef | NodeList:
    """The placed graph with a read of its own for each user elsewhere that comes after an assignment."""
    nodes = {n.name: n for n in placed.node}
    memory = {name: task_of(n.device) if on_cpu(n.device) else n.device for name, n in nodes.items()}
    if len(set(memory.values())) == 1:
        return placed
    ops = {name: n.op for name, n in nodes.items()}
    variables = {name for name, op in ops.items() if op in _VARIABLES}
    identities = {name: nodes[name].input[0] for name, op in ops.items() if op == "Identity"}
    reads = {name: source for name, source in identities.items() if node_name(source) in variables}
    writes = [name for name, op in ops.items() if registry.ref_positions(op) and name not in reads]
    if not reads or not writes:
        return placed
    kept = {name for name in reads if KEPT_READ in nodes[name].attr}
    inputs = {name: list(map(node_name, n.input)) for name, n in nodes.items()}
    late = _after(writes, inputs)  # of any assignment: few, in a training step, and fewer use what lies elsewhere
    pairs = [
        (user, read)
        for user in late
        for read in dict.fromkeys(inputs[user])
        if read in reads and read not in kept and read not in late and memory[read] != memory[user]
    ]
    changed: dict[str, NodeDef] = {}
    added = []
    for name, read in pairs:
        user = changed.get(name, nodes[name])
        mine = [w for w in writes if node_name(reads[read]) in inputs[w]]
        after = _after(mine, inputs)
        if name in after and user.op not in control_flow.PRIMITIVES:
            added.append(_fresh(nodes[read], user, after))
            changed[name] = _with_input(user, read, added[-1].name)
    if not added:
        return placed
    return NodeList([*(changed.get(n.name, n) for n in placed.node), *added], placed.versions)


def _after(ops: Iterable[str], inputs: dict[str, list[str]]) -> dict[str, None]:
    """These, and the nodes that run after one of them."""
    found = dict.fromkeys(ops)
    while True:  # nodes stand behind their inputs but for loops, and for what passes have put at the end
        known = len(found)
        for name, of in inputs.items():
            if name not in found and not found.keys().isdisjoint(of):
                found[name] = None
        if len(found) == known:
            return found


def _fresh(read: NodeDef, user: NodeDef, after: dict[str, None]) -> NodeDef:
    """The read again, after what the user waits for."""
    fresh = NodeDef()
    fresh.CopyFrom(read)
    fresh.name = f"{_PREFIX}{read.name}/{user.name}"
    before = dict.fromkeys(node_name(e) for e in user.input if node_name(e) in after)
    fresh.input[:] = [read.input[0], *(f"^{name}" for name in before)]
    return fresh


def _with_input(user: NodeDef, old: str, new: str) -> NodeDef:
    return with_inputs(user, [new if not is_control(e) and parse(e)[0] == old else e for e in user.input])
