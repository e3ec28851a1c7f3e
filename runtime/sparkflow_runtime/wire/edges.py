"""How an input of a NodeDef is written: 'name', 'name:1', '^control'."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache

from sparkflow_runtime.wire.errors import InvalidArgumentError
from sparkflow_runtime.wire.protos import GraphDef, NodeDef

KEPT_READ = "_kept_read"  # attribute of an Identity of a variable that keeps its value when the variable changes
CARRIED = "_carried_as"  # attribute of a node: the dtype in which its float32 values travel between tasks
_REMEMBERED = 1 << 15  # edges: every pass asks for each of them again
CARRIED_AS = ("float32", "bfloat16", "float16")  # the first: as they are


def check_carried(value: object, what: str) -> str:
    """The attribute's value, "" where there is none. Raises InvalidArgumentError on another dtype."""
    name = value.decode() if isinstance(value, bytes) else str(value or "")
    if name and name not in CARRIED_AS:
        raise InvalidArgumentError(f"{what}: float32 cannot travel as {name!r}; expected one of {CARRIED_AS}")
    return name


def is_control(edge: str) -> bool:
    return edge.startswith("^")


@lru_cache(_REMEMBERED)
def node_name(edge: str) -> str:
    return edge.lstrip("^").partition(":")[0]


@lru_cache(_REMEMBERED)
def parse(edge: str) -> tuple[str, int]:
    """('name', port) of a data edge."""
    name, _, port = edge.partition(":")
    return name, int(port or 0)


@lru_cache(_REMEMBERED)
def colocated(label: bytes) -> str:
    """The node that an entry of `_class` names."""
    return label.decode().removeprefix("loc:@")


def edge(name: str, port: int) -> str:
    return name if port == 0 else f"{name}:{port}"


def both_spellings(edges: Iterable[str]) -> set[str]:
    """Data edges as 'name:port', and as inputs name them too: 'name' for port 0."""
    return {spelling for e in edges for spelling in (e, edge(*parse(e)))}


def data_inputs(node: NodeDef) -> list[str]:
    inputs = list(node.input)
    if not inputs or inputs[-1][0] != "^":  # control inputs are the last ones
        return inputs
    return [e for e in inputs if e[0] != "^"]


def with_inputs(node: NodeDef, inputs: Sequence[str]) -> NodeDef:
    """The node with these inputs: a copy, where it has others."""
    if list(inputs) == list(node.input):
        return node
    copy = NodeDef()
    copy.CopyFrom(node)
    copy.input[:] = inputs
    return copy


def verify(graph: GraphDef, known: Collection[str] = ()) -> GraphDef:
    """The graph itself; `known` are names that inputs may refer to besides its own nodes.

    Raises InvalidArgumentError on a duplicate node, a missing input, or a control edge before a data edge.
    """
    names: set[str] = set()
    for node in graph.node:
        name = node.name
        if name in names or name in known:
            raise InvalidArgumentError(f"GraphDef: two nodes are called {name!r}")
        names.add(name)
    for node in graph.node:
        controlled = False
        for e in node.input:
            source, control = (e[1:], True) if e[:1] == "^" else (e, False)
            if source not in names and node_name(e) not in names and node_name(e) not in known:
                raise InvalidArgumentError(
                    node, None, f"Node {node.name!r} ({node.op}): its input {e!r} is not in the graph"
                )
            if controlled and not control:
                raise InvalidArgumentError(node, None, f"Node {node.name!r}: control inputs must follow data inputs")
            controlled = control
    return graph


def topological(nodes: Sequence[NodeDef], cut: Iterable[str] = ()) -> list[NodeDef]:
    """The nodes with every producer before its consumers, otherwise in their given order.

    cut: edges ('name:port') that are fed and so wait for nobody; nor does a Merge wait for a NextIteration.
    Raises InvalidArgumentError on a cycle that no NextIteration closes.
    """
    by_name, fed = {n.name: n for n in nodes}, both_spellings(cut)
    if _is_in_order(by_name, fed):
        return list(by_name.values())

    def waits(name: str) -> list[str]:
        node = by_name[name]
        found = [node_name(e) for e in node.input if e not in fed]
        if node.op not in ("Merge", "RefMerge"):
            return found
        return [m for m in found if by_name[m].op not in ("NextIteration", "RefNextIteration")]

    return [by_name[name] for name in sort_by(list(by_name), waits, "Node")]


def sort_by(names: Sequence[str], waits: Callable[[str], Sequence[str]], what: str) -> list[str]:
    """The names, each after all of `waits(name)`, otherwise in their given order. `what` names them in an error.

    Raises InvalidArgumentError that shows the cycle where there is one.
    """
    placed: set[str] = set()
    ordered: list[str] = []
    for root in names:
        stack = [root]
        path: dict[str, None] = {}  # those begun, outermost first
        while stack:
            name = stack[-1]
            if name in placed:
                path.pop(stack.pop(), None)
                continue
            left = [m for m in waits(name) if m not in placed]
            if not left:
                path.pop(stack.pop(), None)
                placed.add(name)
                ordered.append(name)
                continue
            path[name] = None
            again = next((m for m in left if m in path), None)
            if again is not None:
                begun = list(path)
                cycle = [*begun[begun.index(again) :], again]
                raise InvalidArgumentError(f"{what} {name!r} lies on a cycle: {' <- '.join(cycle[-8:])}")
            stack += reversed(left)
    return ordered


def _is_in_order(nodes: Mapping[str, NodeDef], fed: Collection[str]) -> bool:
    """As the nodes of graphs without loops mostly are."""
    seen: set[str] = set()
    for name, node in nodes.items():
        for e in node.input:
            if e not in seen and e not in fed and node_name(e) not in seen:
                return False
        seen.add(name)
    return True
