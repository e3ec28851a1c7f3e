"""import_graph_def: nodes of a GraphDef become nodes of the current graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparkflow.framework.apply import constant, convert_to_tensor
from sparkflow.framework.functions import Call, calls_functions, expand
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.resource_variables import referring
from sparkflow_runtime.wire.attrs import encode
from sparkflow_runtime.wire.errors import InvalidArgumentError
from sparkflow_runtime.wire.protos import FunctionDef, GraphDef, NodeDef

_NEXT = ("NextIteration", "RefNextIteration")


def import_graph_def(
    graph_def: GraphDef,
    input_map: Mapping[str, Any] | None = None,
    return_elements: Sequence[str] | None = None,
    name: str | None = None,
    op_dict: Any = None,
    producer_op_list: Any = None,
) -> list[Any] | None:
    """Add the nodes under the scope `name` ("import" by default, "" for none). input_map replaces tensors by name.

    Nodes may stand in any order; only loops (NextIteration into Merge) may close a cycle. A loop that comes in this way
    runs, but has no gradient. What calls functions of the GraphDef's library (If, While, Case, PartitionedCall) is
    replaced by their nodes, and has gradients. Variables that are resources become those that ops refer to. Raises
    InvalidArgumentError on an input that no node makes, ValueError where input_map or return_elements name what the
    GraphDef does not have. op_dict and producer_op_list are not looked at: the ops are
    the table's.
    """
    if not isinstance(graph_def, GraphDef):
        raise TypeError(f"Argument `graph_def` must be a GraphDef proto, got {type(graph_def).__name__}")
    graph = get_default_graph()
    scope = "import" if name is None else name
    library = {function.signature.name: function for function in graph_def.library.function}
    adding = _Import(f"{graph.unique_name(scope)}/" if scope else "", input_map or {}, library)
    ordered, back_edges = _in_order(graph_def, library)
    adding.check_names(ordered, return_elements or ())
    graph._used_names.update({(adding.prefix + node.name).lower(): 1 for node in ordered})  # functions take others
    with graph._unfinished:
        for node in ordered:
            adding.add(node, back_edges.get(node.name, set()))
        for node in ordered:
            adding.close_loop(node, back_edges.get(node.name, set()))
    if return_elements is None:
        return None
    return [graph.as_graph_element(adding.prefix + e) for e in return_elements]


class _Import:
    """One call: where the nodes go, and which tensors stand for theirs."""

    def __init__(self, prefix: str, input_map: Mapping[str, Any], library: Mapping[str, FunctionDef]):
        self.graph, self.prefix, self.library = get_default_graph(), prefix, library
        self.replaced = {_with_port(key): convert_to_tensor(value) for key, value in input_map.items()}

    def check_names(self, nodes: Sequence[NodeDef], elements: Sequence[str]) -> None:
        """Raises ValueError where the GraphDef has not what is to be replaced or returned."""
        known = {node.name for node in nodes}
        if missing := [key for key in self.replaced if _source(key) not in known]:
            raise ValueError(f"Attempted to map inputs that were not found in graph_def: {missing}")
        if missing := [element for element in elements if _source(element) not in known]:
            raise ValueError(f"Requested return_elements were not found in graph_def: {missing}")

    def _tensor(self, edge: str) -> Tensor:
        edge = _with_port(edge)
        if edge not in self.replaced:
            return self.graph.get_tensor_by_name(self.prefix + edge)
        given, port = self.replaced[edge], int(edge.rpartition(":")[2])
        own = self.graph._ops[self.prefix + _source(edge)].outputs[port:][:1]
        if own and own[0].dtype.base_dtype is not given.dtype.base_dtype:
            raise ValueError(
                f"import_graph_def: input_map gives {given.dtype.name} for {edge!r}, which is {own[0].dtype.name}"
            )
        return given

    def add(self, node: NodeDef, later: set[str]) -> None:
        """later: its inputs that are not made yet; another input stands for them until close_loop."""
        name = self.prefix + node.name
        if name in self.graph._ops:
            raise InvalidArgumentError(node, None, f"import_graph_def: node {name!r} is already in the graph")
        data = _data(node)
        first = next((i for i in data if i not in later), "")
        inputs = [self._tensor(first if i in later else i) for i in data]
        controls = [self.graph.get_operation_by_name(self.prefix + i[1:]) for i in node.input if i.startswith("^")]
        if calls_functions(node, self.library):
            self._expand(node, inputs, controls, name)
            return
        added = self.graph.add_node(node, inputs, controls, name)
        if "_class" in added.attrs:
            added.attrs["_class"] = [c.replace("loc:@", "loc:@" + self.prefix, 1) for c in added.attrs["_class"]]
        if "frame_name" in added.attrs:
            added.attrs["frame_name"] = self.prefix + added.attrs["frame_name"]  # two copies of a loop are two loops
        if later:
            added.outputs[0]._shape = None  # what comes back may have another shape

    def _expand(self, node: NodeDef, inputs: list[Tensor], controls: list[Operation], name: str) -> None:
        """The nodes of the functions, under the caller's name, and one of that very name for what comes out."""
        call, graph = Call(node, inputs, self.library), self.graph
        with (
            graph.control_dependencies(None),
            graph.control_dependencies(controls),
            graph.device(node.device or None),
            graph.name_scope(f"{name}/"),
        ):
            outputs = [constant(False) if t.dtype.is_ref else t for t in expand(call)]  # who asks has the variable
        last = NodeDef(name=name, op="IdentityN" if call.has_outputs else "NoOp", device=node.device)
        if call.has_outputs:
            last.attr["T"].CopyFrom(encode([t.dtype.base_dtype for t in outputs]))
            self.graph.add_node(last, outputs, controls, name)
        else:
            self.graph.add_node(last, [], [*controls, *(t.op for t in outputs)], name)

    def close_loop(self, node: NodeDef, later: set[str]) -> None:
        if later:
            merged = self.graph.get_operation_by_name(self.prefix + node.name)
            for i, edge in enumerate(_data(node)):
                if edge in later:
                    merged._update_input(i, self._tensor(edge))


def _data(node: NodeDef) -> list[str]:
    return [i for i in node.input if not i.startswith("^")]


def _with_port(name: str) -> str:
    return name if ":" in name else name + ":0"


def _back_edges(nodes: Mapping[str, Any]) -> dict[str, set[str]]:
    """Of each Merge that begins a loop, the inputs that come from the iteration before."""
    found = {}
    for name, node in nodes.items():
        if node.op in ("Merge", "RefMerge"):
            back = {i for i in node.input if _source(i) in nodes and nodes[_source(i)].op in _NEXT}
            if back and len(back) < len(node.input):
                found[name] = back
    return found


def _source(edge: str) -> str:
    return edge.lstrip("^").partition(":")[0]


def _in_order(graph_def: GraphDef, library: Mapping[str, FunctionDef]) -> tuple[list[Any], dict[str, set[str]]]:
    """(the nodes with every input before its consumer, the edges left out: those that close loops).

    Raises InvalidArgumentError on a missing input or another cycle.
    """
    found = referring(graph_def.node, lambda node: calls_functions(node, library))
    nodes = {node.name: node for node in found}
    back_edges = _back_edges(nodes)
    done: dict[str, bool] = {}
    ordered = []
    for root in found:
        stack = [root.name]
        while stack:
            name = stack[-1]
            if done.get(name):
                stack.pop()
                continue
            if name not in nodes:
                raise InvalidArgumentError(f"import_graph_def: a node needs {name!r}, which the GraphDef does not have")
            later = back_edges.get(name, ())
            needed = [_source(i) for i in nodes[name].input if i not in later]
            waiting = [n for n in needed if not done.get(n)]
            if not waiting:
                done[name] = True
                ordered.append(nodes[stack.pop()])
            elif done.get(name) is False and any(done.get(n) is False for n in waiting):
                raise InvalidArgumentError(f"import_graph_def: node {name!r} lies on a cycle")
            else:
                done[name] = False
                stack += [n for n in waiting if done.get(n) is None]
    return ordered, back_edges
