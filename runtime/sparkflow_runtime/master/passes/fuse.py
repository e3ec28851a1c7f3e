"""Fusion: a chain of elementwise ops as one `_Fused` node; MatMul and convolutions with bias and activation as
`_FusedMatMul` and its like; sums of many products as `_FusedSum`; batch normalisation by given statistics, with an
activation, as `_FusedBatchNorm`; a large variable's gradient that is a product as `_FusedUpdate`: never whole.

A fused node carries the nodes it stands for (`_nodes`, serialised) and runs them as they are where it has nothing
better (`kernels/fused.py`). Its name is the last one's; outputs that others need are further ports.

Groups grow along the order of nodes and run where their last member stood. So a member may only be added as long as
nobody outside has taken a value of the group: that keeps the order an order, and no path can leave a group and return.
All members are of one context: one iteration of one loop, one side of a cond. What a plan computes once for all
iterations, or adds up in place over them (kernels/accumulate.py), stays a node of its own.
All wait for the same asynchronous ops: one that another member's value must reach first would never end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from sparkflow_runtime.master.passes.bags import join_bags
from sparkflow_runtime.master.passes.contexts import OUTSIDE, once_a_loop
from sparkflow_runtime.master.passes.decayed_adam import join_adam
from sparkflow_runtime.master.passes.events import events_before
from sparkflow_runtime.master.passes.lazy_adam import join_lazy_adam
from sparkflow_runtime.master.passes.row_descent import join_row_descent
from sparkflow_runtime.master.passes.symbols import Symbols, words
from sparkflow_runtime.master.passes.view import Op, View, producer
from sparkflow_runtime.master.passes.weighted_bags import weigh_bags
from sparkflow_runtime.wire.attrs import encode
from sparkflow_runtime.wire.dtypes import DType, as_dtype
from sparkflow_runtime.wire.edges import CARRIED, edge
from sparkflow_runtime.wire.protos import NodeDef
from sparkflow_runtime.wire.sizes import SHAPES, item_bytes

ELEMENTWISE = words(
    "Neg Abs Sign Square Floor Ceil Rint Sqrt Rsqrt Reciprocal Exp Expm1 Log Log1p Tanh Sigmoid LogicalNot Add "
    "AddV2 Sub Mul RealDiv Maximum Minimum SquaredDifference LogicalAnd LogicalOr AddN Equal NotEqual Less "
    "LessEqual Greater GreaterEqual Select SelectV2 ZerosLike OnesLike Relu Relu6 Elu Selu Softplus Softsign LeakyRelu "
    "ReluGrad Relu6Grad EluGrad SeluGrad SoftplusGrad SoftsignGrad LeakyReluGrad "
    "SigmoidGrad TanhGrad SqrtGrad RsqrtGrad ReciprocalGrad"
)
_TYPES = frozenset(["float32", "float64", "int32", "int64", "bool"])
_ENUMS = frozenset(as_dtype(name).as_datatype_enum for name in _TYPES)
_HIDDEN = frozenset([SHAPES, "_class", CARRIED])
_SWAPPED = "_swap_to_host"  # says which inputs of this node, so it stays one
_MAX_MEMBERS, _MAX_INPUTS = 64, 64
_SMALL, _FEW = 1 << 14, 4  # elements, members
_LARGE = 1 << 20  # elements of a gradient that is worth taking apart
_STEPS, _SUMMED = 4, 1 << 13  # products, and elements of each, from which their sum is worth a node of its own
DENSE_UPDATES = {  # which input is the gradient
    "ApplyGradientDescent": 2,
    "ApplyMomentum": 3,
    "ApplyAdagrad": 3,
    "ApplyAdam": 9,
    "ApplyFtrl": 3,
    "ApplyFtrlV2": 3,
    "ApplyRMSProp": 7,
    "ApplyCenteredRMSProp": 8,
    "ApplyAdadelta": 6,
    "ApplyProximalGradientDescent": 4,
    "ApplyProximalAdagrad": 5,
    "ApplyAdagradDA": 3,
}
_BIAS = frozenset(["Add", "AddV2", "BiasAdd"])
_SUMS, _NEXT = frozenset(["Add", "AddV2", "AddN"]), frozenset(["NextIteration"])
_ACTIVATION = frozenset(["Relu", "Relu6", "Tanh"])
_NORMS = frozenset(["FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"])
_WITH_BIAS = {"MatMul": "_FusedMatMul", "Conv2D": "_FusedConv2D", "Conv3D": "_FusedConv3D"}
_CHANNELS_LAST = ("NHWC", "NDHWC")


@dataclass
class _Group:
    members: list[Op]
    shape: Symbols
    inputs: set[str] = field(default_factory=set)
    open: bool = True


def fuse(view: View) -> None:
    """Replace MatMul chains first, then elementwise groups where that pays."""
    join_adam(view)
    join_lazy_adam(view)
    join_row_descent(view)
    join_bags(view)
    weigh_bags(view)
    events = events_before(view)
    _fuse_sums(view, events)
    _fuse_products(view, events)
    _fuse_norms(view, events)
    _fuse_updates(view, events)
    groups = _grown(view, events)
    _replace(view, [(g.members, "_Fused") for g in groups if _pays(g)])


def _pays(group: _Group) -> bool:
    """A fused call costs as much as three or four calls of kernels, of which that many take as long as they are small
    (up to 16,384 elements, two in one: 6.3 us against 6.1; six: 22 against 29); of big arrays it saves the memory
    between."""
    small = all(isinstance(d, int) for d in group.shape) and math.prod(map(int, group.shape)) <= _SMALL
    return len(group.members) >= (_FEW if small else 2)


# ---------------------------------------------------------------------- which nodes belong together


def _grown(view: View, events: dict[str, int]) -> list[_Group]:
    """Disjoint groups, each in order."""
    of: dict[str, _Group] = {}
    groups: list[_Group] = []
    kept, apart = view.kept, view.gates | view.alone | _apart(view)
    for op in view.ops.values():
        found = [of.get(e) or of.get(producer(e)) for e in op.data]
        sources = {id(g): g for g in found if g is not None and g.open}
        joined = None
        if _fusable(op, view, apart):
            ready = [g for g in sources.values() if events[g.members[0].name] == events[op.name]]
            joined = _join(op, ready, view, of)
            if joined is None:
                joined = _Group([op], view.shapes.of(op.name) or (), set(op.data))
                groups.append(joined)
            of[op.name] = joined
            joined.open = op.name not in kept
        for group in sources.values():
            if group is not joined:
                group.open = False
    return [g for g in groups if g.members]


def _apart(view: View) -> set[str]:
    """Nodes of loops that are better left alone."""
    if len(view.free) == len(view.ops):
        return set()
    users = view.consumers()

    def adds_up(op: Op) -> bool:
        return op.op in _SUMS and view.context(op.name) != OUTSIDE and {u.op for u in users[op.name]} <= _NEXT

    return {*once_a_loop(view.ops, dict(view.inside)), *(op.name for op in view.ops.values() if adds_up(op))}


def _fusable(op: Op, view: View, apart: set[str]) -> bool:
    if op.op not in ELEMENTWISE or op.control or view.context(op.name) is None or op.name in view.feeds:
        return False
    if _SWAPPED in op.proto.attr:
        return False
    shape = view.shapes.of(op.name)
    if shape is None or shape == ():  # single numbers are fast as they are (kernels/scalars.py)
        return False
    return op.name not in apart and _has_loops(op)


def _has_loops(op: Op) -> bool:
    if "T" in op.changed or "T" not in op.proto.attr:
        return _type_of(op) in _TYPES
    return op.proto.attr["T"].type in _ENUMS


def _type_of(op: Op) -> str:
    kind = op.attr("T")
    return kind.name if isinstance(kind, DType) else "bool"  # LogicalAnd and its like have no T


def _join(op: Op, sources: list[_Group], view: View, of: dict[str, _Group]) -> _Group | None:
    """Put an op into the groups its inputs come from, made one; None where that cannot be."""
    shape = view.shapes.of(op.name)
    fitting = [g for g in sources if shape is not None and _may_be_equal(g.shape, shape)]
    fitting = [g for g in fitting if _together(g.members[0], op, view)]
    if not fitting:
        return None
    first, *others = sorted(fitting, key=lambda g: -len(g.members))
    for other in others:
        if len(first.members) + len(other.members) < _MAX_MEMBERS and _may_be_equal(first.shape, other.shape):
            _merge(first, other, of)
    new = {e for e in op.data if e not in first.inputs and of.get(producer(e)) is not first}
    if len(first.members) >= _MAX_MEMBERS or len(first.inputs) + len(new) > _MAX_INPUTS:
        return None
    first.members.append(op)
    first.inputs |= new
    return first


def _together(a: Op, b: Op, view: View) -> bool:
    """Whether both run on one device, and always together."""
    return view.same_place(a, b) and view.context(a.name) == view.context(b.name)


def _merge(first: _Group, other: _Group, of: dict[str, _Group]) -> None:
    for member in other.members:
        of[member.name] = first
    first.members += other.members
    first.inputs |= other.inputs
    other.members, other.open = [], False


def _may_be_equal(a: Symbols, b: Symbols) -> bool:
    """Same rank, and no two known sizes that differ; whether unknown ones are equal is seen at run time."""
    return len(a) == len(b) and all(x == y or isinstance(x, str) or isinstance(y, str) for x, y in zip(a, b))


def _may_begin(op: Op, view: View, apart: set[str]) -> bool:
    """Whether a chain that becomes one node may begin with it."""
    known = not op.control and view.context(op.name) is not None and op.name not in view.feeds
    return known and op.name not in apart and _SWAPPED not in op.proto.attr


def _only_consumers(view: View, events: dict[str, int]) -> Callable[[Op], Op | None]:
    users, kept, gates = view.consumers(), view.kept, view.gates

    def alone(op: Op) -> Op | None:
        """The only consumer of an op nobody else sees."""
        only = users[op.name][0] if len(users[op.name]) == 1 else None
        hidden = op.name not in kept and op.name not in gates
        if only is None or not hidden or only.control or only.name in view.feeds:
            return None
        if _SWAPPED in only.proto.attr:
            return None
        return only if events[only.name] == events[op.name] and _together(op, only, view) else None

    return alone


def _fuse_norms(view: View, events: dict[str, int]) -> None:
    """Batch normalisations by given statistics of which only the first output is taken, with their activations."""
    if all(op.op not in _NORMS for op in view.ops.values()):
        return
    alone, apart, users = _only_consumers(view, events), _apart(view), view.consumers()
    chains: list[tuple[list[Op], str]] = []
    for op in view.ops.values():
        if op.op not in _NORMS or op.attr("is_training", True) or not _may_begin(op, view, apart):
            continue
        last_channel = str(op.attr("data_format", "NHWC")) in _CHANNELS_LAST
        others = any(e != op.name and producer(e) == op.name for user in users[op.name] for e in user.data)
        if not last_channel or others or op.name in view.kept or op.name in view.gates:
            continue
        activation = alone(op)
        ends = [activation] if activation is not None and activation.op in ("Relu", "Relu6") else []
        chains.append(([op, *ends], "_FusedBatchNorm"))
    _replace(view, chains)


def _fuse_sums(view: View, events: dict[str, int]) -> None:
    """Sums of many products of one kind, as the gradient of a weight that is used step by step."""
    sums = [op for op in view.ops.values() if op.op == "AddN" and len(op.data) >= _STEPS and op.name in view.free]
    if not sums:
        return
    users, seen = view.consumers(), view.kept | view.gates | view.fed_nodes
    chains: list[tuple[list[Op], str]] = []
    for op in sums:
        products = [view.ops[e] for e in op.data if e in view.ops and view.ops[e].op == "MatMul"]
        own = [m for m in products if not m.control and m.name not in seen and users[m.name] == [op]]
        if len(own) < len(op.data) or op.name in view.fed_nodes or not all(_together(m, op, view) for m in own):
            continue
        alike = len({(m.attr("transpose_a"), m.attr("transpose_b"), events[m.name]) for m in own}) == 1
        if alike and events[own[0].name] == events[op.name] and _thin(own[0], view):
            chains.append(([*own, op], "_FusedSum"))
    _replace(view, chains)


def _thin(product: Op, view: View) -> bool:
    """Whether a product is large, and what is multiplied takes about as little memory until the sum as the products
    would; where its size is open, a batch, it is taken for a usual one. 20 products of 96 x 64 by 64 x 128 take 0.54 ms
    of a processor instead of 0.94; 64 x 128 elements and fewer come out as fast one by one."""
    shapes = [view.shapes.of(e) for e in (*product.data, product.name)]
    a, b, out = (math.prod(n for n in shape or () if isinstance(n, int)) for shape in shapes)
    return None not in shapes and out > _SUMMED and a + b <= 4 * out


def _fuse_products(view: View, events: dict[str, int]) -> None:
    if all(op.op not in _WITH_BIAS for op in view.ops.values()):
        return
    alone, apart = _only_consumers(view, events), _apart(view)
    chains: list[tuple[list[Op], str]] = []
    for op in view.ops.values():
        if op.op not in _WITH_BIAS or not _may_begin(op, view, apart):
            continue
        chain = [op]
        bias = alone(op)
        if bias is not None and bias.op in _BIAS and _is_bias(bias, op, view):
            chain.append(bias)
            activation = alone(bias)
            if activation is not None and activation.op in _ACTIVATION:
                chain.append(activation)
            chains.append((chain, _WITH_BIAS[op.op]))
    _replace(view, chains)


def _is_bias(add: Op, product: Op, view: View) -> bool:
    """A row is added to the product, which keeps its shape and has its channels last."""
    if any(str(one.attr("data_format", "NHWC")) not in _CHANNELS_LAST for one in (add, product)):
        return False
    other = [e for e in add.data if e != product.name]
    return len(other) == 1 and len(view.shapes.of(other[0]) or ()) == 1


def _fuse_updates(view: View, events: dict[str, int]) -> None:
    if all(op.op not in DENSE_UPDATES for op in view.ops.values()):
        return
    users, kept, gates = view.consumers(), view.kept, view.gates
    pairs: list[tuple[list[Op], str]] = []
    for op in view.ops.values():
        if op.op not in DENSE_UPDATES or op.name not in view.free or op.name in view.feeds:
            continue
        product = view.ops.get(op.data[DENSE_UPDATES[op.op]])
        if product is None or product.op != "MatMul" or product.control or len(users[product.name]) != 1:
            continue
        if _SWAPPED in op.proto.attr or _SWAPPED in product.proto.attr:
            continue
        hidden = product.name in view.free and product.name not in kept and product.name not in gates
        shape = view.shapes.of(product.name) or ()
        large = len(shape) == 2 and all(isinstance(d, int) for d in shape) and math.prod(map(int, shape)) >= _LARGE
        if hidden and large and events[product.name] == events[op.name] and view.same_place(product, op):
            pairs.append(([product, op], "_FusedUpdate"))
    _replace(view, pairs)


# ---------------------------------------------------------------------- one node for many


def _replace(view: View, groups: list[tuple[list[Op], str]]) -> None:
    if not groups:
        return
    position = {name: i for i, name in enumerate(view.ops)}
    needed = _seen_outside(view, groups)
    instead: dict[str, Op] = {}
    edges: dict[str, str] = {}
    gone: set[str] = set()
    for members, kind in groups:
        members.sort(key=lambda m: position[m.name])
        root = members[-1]
        outputs = [root.name, *(m.name for m in members[:-1] if m.name in needed)]
        instead[root.name] = _fused(members, kind, outputs)
        edges.update((name, edge(root.name, port)) for port, name in enumerate(outputs) if port)
        view.moved.update((m.name, root.name) for m in members[:-1])
        gone.update(m.name for m in members[:-1])
    view.ops = {name: instead.get(name, op) for name, op in view.ops.items() if name not in gone}
    view.free = view.free.difference(gone)
    view.redirect(edges)


def _seen_outside(view: View, groups: list[tuple[list[Op], str]]) -> set[str]:
    """Members of which somebody outside their group takes the value."""
    group_of = {m.name: i for i, (members, _) in enumerate(groups) for m in members}
    return {
        name
        for op in view.ops.values()
        for name in map(producer, op.data)
        if name in group_of and group_of.get(op.name) != group_of[name]
    }


def _fused(members: list[Op], kind: str, outputs: list[str]) -> Op:
    inside = {m.name for m in members}
    inputs = list(dict.fromkeys(e for m in members for e in m.data if e not in inside))
    root = members[-1]
    proto = NodeDef(name=root.name, op=kind, device=root.device)
    proto.input.extend([*inputs, *("^" + c for c in root.control)])
    proto.attr["_nodes"].list.s.extend(_body(m).SerializeToString() for m in members)
    for name, value in (("_inputs", inputs), ("_outputs", outputs), ("_fused_from", [m.name for m in members])):
        proto.attr[name].CopyFrom(encode(value))
    if root.labels:
        proto.attr["_class"].CopyFrom(root.proto.attr["_class"])
    if CARRIED in root.proto.attr:
        proto.attr[CARRIED].CopyFrom(root.proto.attr[CARRIED])
    _describe_outputs(proto, [next(m for m in members if m.name == name) for name in outputs])
    return Op(proto)


def _describe_outputs(proto: NodeDef, members: list[Op]) -> None:
    """Their static shapes, where all are known; the type is that of the first."""
    if all(SHAPES in m.proto.attr for m in members):
        proto.attr[SHAPES].list.shape.extend(m.proto.attr[SHAPES].list.shape[0] for m in members)
    proto.attr["T"].CopyFrom(encode(as_dtype(_type_of(members[0]) if item_bytes(members[0].proto) > 1 else "bool")))


def _body(op: Op) -> NodeDef:
    """The node without what only concerns its place in the graph."""
    proto = NodeDef()
    proto.CopyFrom(op.proto)
    proto.name, proto.op, proto.device = op.name, op.op, op.device
    proto.input[:] = op.data
    for name in _HIDDEN:
        proto.attr.pop(name, None)
    for name, value in op.changed.items():
        proto.attr[name].CopyFrom(encode(value))
    return proto
