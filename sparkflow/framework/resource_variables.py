"""Graphs whose variables are resources, as TensorFlow 2 and Keras make them, with variables that ops refer to instead.

A handle becomes the variable, a read an Identity of it, and each other op the one of its family that takes a reference;
into branches, loops and functions the variable goes as a reference does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.edges import KEPT_READ, data_inputs, is_control, node_name, parse, with_inputs
from sparkflow_runtime.wire.errors import UnimplementedError
from sparkflow_runtime.wire.protos import AttrValue, NodeDef, TensorShapeProto

HANDLE = "VarHandleOp"
_LOOPS = ("While", "StatelessWhile")
_RESOURCE = dtypes.resource.as_datatype_enum
_RENAMED = {  # op -> (its name with references, what its attributes are called there, those that it must not set)
    "ReadVariableOp": ("Identity", {"dtype": "T"}, ()),
    "VarIsInitializedOp": ("IsVariableInitialized", {}, ()),
    "AssignVariableOp": ("Assign", {"dtype": "T"}, ()),
    "AssignAddVariableOp": ("AssignAdd", {"dtype": "T"}, ()),
    "AssignSubVariableOp": ("AssignSub", {"dtype": "T"}, ()),
    "VariableShape": ("Shape", {"out_type": "out_type"}, ()),
    "ResourceGather": (
        "Gather",
        {"dtype": "Tparams", "Tindices": "Tindices", "validate_indices": "validate_indices"},
        ("batch_dims",),
    ),
    "ResourceGatherNd": ("GatherNd", {"dtype": "Tparams", "Tindices": "Tindices"}, ()),
    "ResourceCountUpTo": ("CountUpTo", {"limit": "limit", "T": "T"}, ()),
    "ResourceStridedSliceAssign": ("StridedSliceAssign", None, ()),
    **{
        f"ResourceScatter{how}": (f"Scatter{how}", {"dtype": "T", "Tindices": "Tindices"}, ())
        for how in ("Add", "Sub", "Mul", "Div", "Min", "Max", "Update")
    },
    **{f"ResourceScatterNd{how}": (f"ScatterNd{how}", None, ()) for how in ("Add", "Sub", "Max", "Min", "Update")},
}
KNOWN = (HANDLE, *_RENAMED, "DisableCopyOnRead")
_INWARDS = {"Switch": "RefSwitch", "Enter": "RefEnter", "Identity": "RefIdentity"}  # what hands a handle on
OUTPUTS = {"ReadVariableOp": "value"}  # what the output is called there, where its name changes
_TYPE_OFHANDLE = {"IsVariableInitialized": "dtype", "Shape": "T"}  # attributes that only the handle knows


def is_known(op: str) -> bool:
    """Whether such a node is imported, as one that takes references."""
    return op in KNOWN or op.startswith(("ResourceApply", "ResourceSparseApply"))


def handle(name: str, dtype: dtypes.DType, shape: TensorShapeProto) -> NodeDef:
    """The node of a variable, where a graph has only a place for it (`referring`)."""
    made = NodeDef(name=name, op=HANDLE)
    made.attr["dtype"].type = dtype.as_datatype_enum
    made.attr["shape"].shape.CopyFrom(shape)
    return made


def referring(
    nodes: Iterable[NodeDef], calls: Callable[[NodeDef], bool] = lambda node: False,
    given: Mapping[str, NodeDef] | None = None,
) -> list[NodeDef]:  # fmt: skip
    """The nodes, none of which takes a handle any more; those of other graphs as they are.

    calls: which nodes call functions; these get the variable itself, and their bodies are rewritten when they are
    expanded (`with_reference`). given: what variables placeholders of resources stand for, by the placeholder's name.
    Raises UnimplementedError where a handle goes where no reference can.
    """
    nodes = _past_loops(list(nodes))
    handles = {node.name: node for node in nodes if node.op == HANDLE}
    places = {n.name: given[n.name] for n in nodes if n.name in given and _is_place(n)} if given else {}
    handles |= places
    if not handles:
        return nodes
    ways, size = [node for node in nodes if node.op in _INWARDS and _is_of_resources(node)], -1
    while size != len(handles):  # one may lead to another that stands before it
        size = len(handles)
        for node in ways:
            handle = handles.get(node_name(node.input[0]))
            if handle is not None:
                handles[node.name] = handle
    return [node if calls(node) or _takes_reference(node, places) else _node(node, handles) for node in nodes]


def _is_place(node: NodeDef) -> bool:
    return node.op == "Placeholder" and node.attr["dtype"].type == _RESOURCE


def _is_of_resources(node: NodeDef) -> bool:
    return "T" in node.attr and node.attr["T"].type == _RESOURCE


def _takes_reference(node: NodeDef, places: Mapping[str, NodeDef]) -> bool:
    """Whether it is of a graph whose variables were references, in which a place stands for one now."""
    if not places or is_known(node.op) or _is_of_resources(node):
        return False
    return any(node_name(edge) in places for edge in node.input)


def _past_loops(nodes: list[NodeDef]) -> list[NodeDef]:
    """With the handle that went into a While in place of the one that comes out, after the loop."""
    loops = {node.name: node for node in nodes if node.op in _LOOPS}

    def inwards(e: str) -> str:
        name, port = parse(e)
        while name in loops and loops[name].attr["T"].list.type[port] == _RESOURCE:
            name, port = parse(e := loops[name].input[port])
        return e

    def rewired(node: NodeDef) -> NodeDef:
        data = data_inputs(node)
        after = [f"^{node_name(e)}" for e in data if inwards(e) != e]
        controls = [e for e in node.input if is_control(e)]
        return with_inputs(node, [*map(inwards, data), *dict.fromkeys(controls + after)])

    return [rewired(node) for node in nodes] if loops else nodes


def _node(node: NodeDef, handles: Mapping[str, NodeDef]) -> NodeDef:
    if node.op == HANDLE:
        return _made(node, "VariableV2", {"dtype": "dtype", "shape": "shape"})
    if node.name in handles and _is_place(node):
        return _made(handles[node.name], "Placeholder", None)
    taken = [name for edge in node.input if (name := node_name(edge)) in handles]
    if not taken:
        if node.op not in _RENAMED:
            return node
        raise UnimplementedError(
            node,
            None,
            f"import_graph_def: {node.op} {node.name!r} takes a resource out of {node.input[0]!r}, of which it is not "
            "known which variable it is; only a loop may hand on the variables that it was given",
        )
    handle = handles[taken[0]]
    return with_reference(node, taken[0], handle.attr["dtype"], _is_known(handle))


def with_reference(node: NodeDef, variable: str, dtype: AttrValue, is_known: bool) -> NodeDef:
    """The node that does to a reference what `node` does to a handle. is_known: whether the variable's shape is whole.

    Raises UnimplementedError where there is none.
    """
    if node.op in _INWARDS:
        made = _made(node, _INWARDS[node.op], None)
        made.attr["T"].CopyFrom(dtype)
        return made
    if node.op == "DisableCopyOnRead":  # there are no copies to do without
        return NodeDef(name=node.name, op="NoOp", device=node.device, input=[f"^{e.lstrip('^')}" for e in node.input])
    of_updates = node.op.startswith(("ResourceApply", "ResourceSparseApply"))
    default = (node.op.removeprefix("Resource"), None, ()) if of_updates else None
    op, names, unset = _RENAMED.get(node.op, default) or (None, None, ())
    if op is None or any(node.attr[key] != AttrValue(i=0) for key in unset if key in node.attr):
        raise UnimplementedError(
            node,
            None,
            f"import_graph_def: {node.op} {node.name!r} takes the variable {variable!r} as a resource, which only "
            "reads, updates and functions can here. Build the graph after tf.disable_resource_variables()",
        )
    made = _made(node, op, names)
    if op in _TYPE_OFHANDLE:
        made.attr[_TYPE_OFHANDLE[op]].CopyFrom(dtype)
    if op == "Identity":
        made.attr[KEPT_READ].b = True
    if op == "Assign":  # a variable of an open shape may change it
        made.attr["validate_shape"].b = is_known
    return made


def _made(node: NodeDef, op: str, names: Mapping[str, str] | None) -> NodeDef:
    """The node as another op; names: which attributes it keeps, and what they are called, None for all."""
    made = NodeDef(name=node.name, op=op, device=node.device, input=node.input)
    for key, value in node.attr.items():
        if names is None or key in names or key == "_class":
            made.attr[key if names is None or key == "_class" else names[key]].CopyFrom(value)
    return made


def _is_known(handle: NodeDef) -> bool:
    shape = handle.attr["shape"].shape
    return not shape.unknown_rank and all(dim.size >= 0 for dim in shape.dim)
