"""import_graph_def: nodes of a GraphDef become nodes of the current graph."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sparkflow.framework.apply import constant, convert_to_tensor
from sparkflow.framework.dataset_nodes import without_dataset
from sparkflow.framework.functions import Call, calls_functions, expand
from sparkflow.framework.graph import Graph, Operation, Tensor, get_default_graph
from sparkflow.framework.node_checks import check_attrs, check_inputs, check_nodes, check_versions, known_op
from sparkflow.framework.older_ops import modern
from sparkflow.framework.resource_variables import handle, referring
from sparkflow.framework.shapes import Dims, compatible, merge
from sparkflow_runtime.wire.attrs import encode, node_attrs
from sparkflow_runtime.wire.edges import parse
from sparkflow_runtime.wire.errors import InvalidArgumentError
from sparkflow_runtime.wire.protos import FunctionDef, GraphDef, NodeDef

_CONTEXTS: list[Callable[[Sequence[NodeDef]], Any]] = []


def finds_contexts(factory: Callable[[Sequence[NodeDef]], Any]) -> Callable[[Sequence[NodeDef]], Any]:
    """Register what knows, of the nodes of one import, which loop or branch each is in."""
    _CONTEXTS[:] = [factory]
    return factory


_NEXT = ("NextIteration", "RefNextIteration")


def import_graph_def(
    graph_def: GraphDef,
    input_map: Mapping[str, Any] | None = None,
    return_elements: Sequence[str] | None = None,
    name: str | None = None,
    op_dict: Any = None,
    producer_op_list: Any = None,
) -> list[Any] | None:
    """Add the nodes under the scope `name` ("import" by default, "" for none, "a/" for that scope once more).

    input_map replaces tensors by name, those of nodes that the GraphDef has no more too. Nodes may stand in any order;
    only loops (NextIteration into Merge) may close a cycle. What calls functions of the GraphDef's library (If, While,
    Case, PartitionedCall) is replaced by their nodes, and so are ops of older versions; what iterators give becomes
    placeholders. Loops have gradients, where they are as while_loop makes them. Variables that are resources become
    those that ops refer to. A name that the graph has already gets a number. Devices, control dependencies, the cond
    and the loop around the call are those of the new nodes too. Raises InvalidArgumentError on a node that is no whole
    one, NotFoundError on an op that is not known, TypeError and ValueError where input_map or return_elements are not,
    or name what the GraphDef does not have. op_dict and producer_op_list are not looked at: the ops are the table's.
    """
    if not isinstance(graph_def, GraphDef):
        raise TypeError(f"Argument `graph_def` must be a GraphDef proto, got {type(graph_def).__name__}")
    if not isinstance(input_map or {}, Mapping) or not all(isinstance(key, str) for key in input_map or {}):
        raise TypeError(f"Argument `input_map` must be a dictionary with names as keys, got {input_map!r}")
    if not all(isinstance(element, str) for element in return_elements or ()):
        raise TypeError(f"Argument `return_elements` must be a list of strings, got {return_elements!r}")
    graph = get_default_graph()
    if graph.finalized:
        raise RuntimeError("Graph is finalized and cannot be modified.")
    check_versions(graph_def)
    library = {function.signature.name: function for function in graph_def.library.function}
    check_nodes(graph_def.node)
    mapped = {_with_port(key) for key in input_map or {}}
    ordered, back_edges = _in_order(graph_def, library, mapped, _variables(input_map or {}))
    adding = _Import(_prefix(graph, "import" if name is None else name), input_map or {}, library, ordered)
    adding.check_names(return_elements or ())
    with graph._unfinished, _no_controls(graph):
        for node in ordered:
            adding.add(node, back_edges.get(node.name, set()))
        for node in ordered:
            adding.close_loop(node, back_edges.get(node.name, set()))
        adding.contexts.complete()
        adding.follow_devices()
    return None if return_elements is None else [adding.element(e) for e in return_elements]


def _prefix(graph: Graph, scope: str) -> str:
    if not scope or scope.endswith("/"):
        return scope
    return f"{graph.unique_name(scope)}/"


@contextmanager
def _no_controls(graph: Graph) -> Iterator[None]:
    """Nodes made inside wait for nothing but what they are told to; they stay in the cond or loop around."""
    stack, graph._control_stack = graph._control_stack, []
    try:
        yield
    finally:
        graph._control_stack = stack


class _Import:
    """One call: where the nodes go, and which tensors stand for theirs."""

    def __init__(
        self, prefix: str, input_map: Mapping[str, Any], library: Mapping[str, FunctionDef], nodes: Sequence[NodeDef]
    ):
        self.graph, self.prefix, self.library = get_default_graph(), prefix, library
        self.replaced = {_with_port(key): convert_to_tensor(value) for key, value in input_map.items()}
        self.edges = {_with_port(edge) for node in nodes for edge in _data(node)} if self.replaced else set()
        self.waits_for = [op for group in self.graph._control_stack for op in group]
        self.names = self._new_names([node.name for node in nodes])
        self.renamed = any(prefix + name != made for name, made in self.names.items())
        self.in_groups: list[Operation] = []
        self.shapes_hold = True
        self.contexts = _CONTEXTS[0](nodes)
        self.frames: dict[str, str] = {}

    def _new_names(self, names: Sequence[str]) -> dict[str, str]:
        """The name in this graph of each node. Those that are free keep theirs, and functions and renamed nodes take
        others."""
        wanted = {name: self.prefix + name for name in names}
        self.graph._used_names.update({made.lower(): 1 for made in wanted.values() if made not in self.graph._ops})
        return {
            name: self.graph.unique_name(made) if made in self.graph._ops else made for name, made in wanted.items()
        }

    def check_names(self, elements: Sequence[str]) -> None:
        """Raises ValueError where the GraphDef has not what is to be replaced or returned."""
        unknown = [key for key in self.replaced if _source(key) not in self.names]
        if missing := [key for key in unknown if key not in self.edges]:
            raise ValueError(f"Attempted to map inputs that were not found in graph_def: {missing}")
        if missing := [element for element in elements if _source(element) not in self.names]:
            raise ValueError(f"Requested return_elements were not found in graph_def: {missing}")

    def element(self, name: str) -> Any:
        op = self.graph.get_operation_by_name(self.names[_source(name)])
        return self._output(op, name) if ":" in name else op

    def _output(self, op: Operation, edge: str) -> Tensor:
        _, port = parse(_with_port(edge))
        if port >= len(op.outputs):
            raise InvalidArgumentError(
                f"import_graph_def: {edge!r} is not there: node {op.name!r} ({op.type}) has {len(op.outputs)} output(s)"
            )
        return op.outputs[port]

    def _tensor(self, edge: str) -> Tensor:
        edge = _with_port(edge)
        if edge in self.replaced and _source(edge) not in self.names:
            return self.replaced[edge]
        op = self.graph.get_operation_by_name(self.names[_source(edge)])
        if edge not in self.replaced:
            return self._output(op, edge)
        given, own = self.replaced[edge], op.outputs[parse(edge)[1] :][:1]
        if own and own[0].dtype.base_dtype is not given.dtype.base_dtype:
            raise ValueError(
                f"import_graph_def: input_map gives {given.dtype.name} for {edge!r}, which is {own[0].dtype.name}"
            )
        return given

    def add(self, node: NodeDef, later: set[str]) -> None:
        """later: its inputs that are not made yet; another input stands for them until close_loop."""
        name, data = self.names[node.name], _data(node)
        first = next((i for i in data if i not in later), "")
        inputs = [self._tensor(first if i in later else i) for i in data]
        controls = [self.graph.get_operation_by_name(self.names[i[1:]]) for i in node.input if i.startswith("^")]
        if not controls and all(_with_port(i) in self.replaced for i in data):  # the others run after these
            controls = list(self.waits_for)
        outer = self.contexts.enter(node, inputs, controls)
        try:
            if calls_functions(node, self.library):
                self._expand(node, inputs, controls, name)
                return
            added = self._add_node(node, inputs, controls, name, bool(later))
        finally:
            self.graph._set_control_flow_context(outer)
        self.contexts.made(added)

    def _add_node(
        self, node: NodeDef, inputs: list[Tensor], controls: list[Operation], name: str, begins_loop: bool = False
    ) -> Operation:
        spec = known_op(node)
        attrs = {**spec.defaults, **node_attrs(node)}
        told = attrs.pop("_output_shapes", ())
        check_attrs(node, spec, attrs)
        op = Operation(self.graph, node.op, name, inputs, attrs, spec)
        check_inputs(op)
        op._device, op.control_inputs = node.device, controls
        if groups := attrs.get("_class"):
            attrs["_class"] = [self._group(group) for group in groups]
            self.in_groups.append(op)
        if not groups or self.graph._colocation_stack:
            self.graph._apply_scopes(op)
        if "frame_name" in attrs:  # two copies of a loop are two loops
            copy = f"_{self.graph.version}" if self.renamed else ""
            attrs["frame_name"] = self.frames.setdefault(attrs["frame_name"], self.prefix + attrs["frame_name"] + copy)
        self.graph._used_names[name.lower()] = 1
        self.graph._take_in(op)
        if begins_loop:
            op.outputs[0]._shape = None  # what comes back may have another shape
        if told and self.shapes_hold:
            self._learn(op, [shape.dims for shape in told])
        return op

    def _learn(self, op: Operation, told: list[Dims]) -> None:
        """Static shapes that the GraphDef tells: those that loops keep, and what set_shape said. Once one does not
        hold, as input_map may change them, none is believed."""
        self.shapes_hold = all(compatible(t._shape, dims) for t, dims in zip(op.outputs, told))
        if self.shapes_hold and op.type != "Placeholder":
            for tensor, dims in zip(op.outputs, told):
                tensor._shape = merge(tensor._shape, dims)

    def _group(self, group: str) -> str:
        name = group.removeprefix("loc:@")
        return group if name == group else f"loc:@{self.names.get(name, self.prefix + name)}"

    def follow_devices(self) -> None:
        """What stands beside another node is on its device."""
        for op in self.in_groups:
            for group in op.attrs["_class"]:
                beside = self.graph._ops.get(group.removeprefix("loc:@"))
                if beside is not None and beside is not op:
                    op._device = beside.device

    def _expand(self, node: NodeDef, inputs: list[Tensor], controls: list[Operation], name: str) -> None:
        """The nodes of the functions, under the caller's name, and one of that very name for what comes out."""
        call, graph = Call(node, inputs, self.library), self.graph
        with graph.control_dependencies(controls), graph.device(node.device), graph.name_scope(f"{name}/"):
            outputs = [constant(False) if t.dtype.is_ref else t for t in expand(call)]  # who asks has the variable
        last = NodeDef(name=name, op="IdentityN" if call.has_outputs else "NoOp", device=node.device)
        if call.has_outputs:
            last.attr["T"].CopyFrom(encode([t.dtype.base_dtype for t in outputs]))
            self._add_node(last, outputs, controls, name)
        else:
            self._add_node(last, [], [*controls, *(t.op for t in outputs)], name)

    def close_loop(self, node: NodeDef, later: set[str]) -> None:
        if later:
            merged = self.graph.get_operation_by_name(self.names[node.name])
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


def _variables(input_map: Mapping[str, Any]) -> dict[str, NodeDef]:
    """What stands for resources there: by the name of the node that a variable is given for, its handle."""
    refs = {_source(key): given for key, given in input_map.items() if isinstance(given, Tensor) and given.dtype.is_ref}
    return {name: handle(name, given.dtype.base_dtype, given.shape.as_proto()) for name, given in refs.items()}


def _in_order(
    graph_def: GraphDef, library: Mapping[str, FunctionDef], mapped: Collection[str], variables: Mapping[str, NodeDef]
) -> tuple[list[Any], dict[str, set[str]]]:
    """(the nodes with every input before its consumer, the edges left out: those that close loops).

    mapped: edges whose source need not be there; variables: those that input_map gives. Raises
    InvalidArgumentError on a missing input or another cycle.
    """
    producer = graph_def.versions.producer
    given = [without_dataset(modern(n, producer)) for n in graph_def.node]
    found = referring(given, lambda node: calls_functions(node, library), variables)
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
            if mapped:
                edges = zip(needed, (i for i in nodes[name].input if i not in later))
                needed = [n for n, i in edges if n in nodes or _with_port(i) not in mapped]
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
