"""The part of a graph that is in one name scope, as export_meta_graph(export_scope=...) writes it: names without the
scope, and inputs from outside of it named as what an importer has to give."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import Message

from sparkflow_runtime.wire.protos import GraphDef, NodeDef

UNBOUND_INPUTS = "unbound_inputs"
"""The collection of the inputs that import_meta_graph's input_map has to give."""
_UNBOUND = "$unbound_inputs_"


def is_in(name: str, scope: str) -> bool:
    return name.removeprefix("^").startswith(f"{scope.rstrip('/')}/")


def without(name: str, scope: str) -> str:
    """A node's, an edge's or a colocation's name as it is inside the scope."""
    mark = next((m for m in ("^", "loc:@") if name.startswith(m)), "")
    return mark + name.removeprefix(mark).removeprefix(f"{scope.rstrip('/')}/")


def part_of(graph_def: GraphDef, scope: str) -> tuple[GraphDef, list[str]]:
    """The nodes in the scope, and the inputs that they have from outside, in order."""
    part = GraphDef(versions=graph_def.versions, library=graph_def.library)
    unbound: set[str] = set()
    for node in graph_def.node:
        if is_in(node.name, scope):
            part.node.append(_node(node, scope, unbound))
    return part, sorted(unbound)


def _node(node: NodeDef, scope: str, unbound: set[str]) -> NodeDef:
    made = NodeDef()
    made.CopyFrom(node)
    made.name = without(node.name, scope)
    for i, edge in enumerate(node.input):
        if is_in(edge, scope):
            made.input[i] = without(edge, scope)
        else:
            mark = "^" if edge.startswith("^") else ""
            made.input[i] = f"{mark}{_UNBOUND}{edge.removeprefix(mark)}"
            unbound.add(made.input[i])
    if "_class" in node.attr:
        beside = [s.decode() for s in node.attr["_class"].list.s]
        kept = [without(s, scope).encode() for s in beside if is_in(s.removeprefix("loc:@"), scope)]
        del made.attr["_class"]
        if kept:
            made.attr["_class"].list.s.extend(kept)
    if node.op in ("Enter", "RefEnter") and is_in(node.attr["frame_name"].s.decode(), scope):
        made.attr["frame_name"].s = without(node.attr["frame_name"].s.decode(), scope).encode()
    return made


def renamed(message: Any, scope: str) -> Any:
    """A message with all its names as they are inside the scope; None where none is in it."""
    made = type(message)()
    made.CopyFrom(message)
    return made if _rename(made, scope) else None


def _rename(message: Message, scope: str) -> bool:
    found = False
    for field, value in message.ListFields():
        if isinstance(value, Message):
            found |= _rename(value, scope)
        elif isinstance(value, str):
            found |= is_in(value, scope)
            setattr(message, field.name, without(value, scope))
        elif hasattr(value, "items"):
            found |= _rename_map(value, scope)
        elif hasattr(value, "append"):
            for i, part in enumerate(value):
                if isinstance(part, str):
                    found |= is_in(part, scope)
                    value[i] = without(part, scope)
                elif isinstance(part, Message):
                    found |= _rename(part, scope)
    return found


def _rename_map(entries: Any, scope: str) -> bool:
    """Names of values by names, as of what a branch takes from outside."""
    before = dict(entries.items())
    entries.clear()
    for key, value in before.items():
        entries[without(key, scope)] = without(value, scope) if isinstance(value, str) else value
    return any(is_in(key, scope) for key in before)
