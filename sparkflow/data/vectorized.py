"""A function of one element as a function of many: the same graph with one more axis in front.

Only what gives the same bits either way has a rule; a function with anything else is called element by element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

from sparkflow.data.function_graph import TABLE_FILLS, TABLE_TYPE, FunctionGraph
from sparkflow.framework.apply import apply_op, constant, convert_to_tensor
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Graph, Operation, Tensor, get_default_graph
from sparkflow.ops import array
from sparkflow.ops.array_join import concat
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.attrs import Shape


class _Part(NamedTuple):
    """What stands for a tensor: one row for each element, or (not stacked) the same for all. joined: of a part of a
    SparseTensor, which is that of all elements' together, (its op, which one of that, which part). places: of vectors
    of any size, which are one after the other, the element that each value is of, and its place there, int64 [n, 2]."""

    tensor: Tensor
    stacked: bool
    joined: tuple[str, int, int] | None = None
    places: Tensor | None = None


class Vectorized(NamedTuple):
    """graph: of the function of many. inputs: with an axis in front. captured: as the function's own, in its order.
    ragged: the outputs that are vectors of any size one after the other, and which output has their places."""

    graph: Graph
    inputs: list[Tensor]
    captured: list[Tensor]
    outputs: list[Tensor]
    fillers: list[Operation]
    ragged: dict[int, int]


class _Unknown(Exception):
    """There is no rule."""


Rule = Callable[[Operation, Sequence[_Part]], Sequence[Tensor | _Part]]
_RULES: dict[str, Rule] = {}


def vectorized(
    graph: FunctionGraph, inputs: Sequence[Tensor], outputs: Sequence[Tensor], sparse: Sequence[int] = ()
) -> Vectorized | None:
    """None where the function has an op without a rule. sparse: the outputs at which the parts of SparseTensors begin,
    which then are those of one SparseTensor with an axis more."""
    made = Graph()
    try:
        with made.as_default(), made.name_scope("many"):  # copies keep their names
            return _built(made, graph, inputs, outputs, sparse)
    except (_Unknown, ValueError, TypeError):  # what a rule builds may be refused, as the function itself was not
        return None


def _built(
    made: Graph, graph: FunctionGraph, inputs: Sequence[Tensor], outputs: Sequence[Tensor], sparse: Sequence[int]
) -> Vectorized:
    parts: dict[Tensor, _Part] = {}
    for tensor in inputs:
        if tensor._shape is None:
            raise _Unknown
        parts[tensor] = _Part(array.placeholder(tensor.dtype, [None, *tensor._shape]), True)
    for tensor in graph.captured.values():
        parts[tensor] = _Part(array.placeholder(tensor.dtype, tensor.shape), False)
    for op in _needed(graph, [*outputs, *graph.fillers]):
        if op.control_inputs:
            raise _Unknown
        if op.outputs and op.outputs[0] in parts:
            continue
        if any(t not in parts for t in op.inputs):  # a loop's
            raise _Unknown
        own = [parts[t] for t in op.inputs]
        if any(p.joined for p in own) and op.type != "SparseToDense":
            raise _Unknown
        if any(p.places is not None for p in own) and op.type not in _ALONE.split():
            raise _Unknown
        if any(p.stacked for p in own):
            given = _RULES.get(op.type, _refused)(op, own)
            found = [t if isinstance(t, _Part) else _Part(t, True, None, own[0].places) for t in given]
        else:
            found = [_Part(t, False) for t in _copied(made, op, own)]
        parts.update(zip(op.outputs, found))
    wanted = [parts[t].joined for t in outputs]
    for at in sparse:
        if (of := wanted[at]) is None or wanted[at : at + 3] != [(*of[:2], part) for part in range(3)]:
            raise _Unknown
    if sum(part is not None for part in wanted) != 3 * len(sparse):
        raise _Unknown
    first, results = parts[inputs[0]].tensor, [parts[t] for t in outputs]
    many = [part.tensor if part.stacked else _repeated(part.tensor, first) for part in results]
    ragged = {}
    for i, part in enumerate(results):
        if part.places is not None:
            ragged[i] = len(many)
            many.append(part.places)
    fillers = [made.get_operation_by_name(op.name) for op in graph.fillers]
    captured = [parts[t].tensor for t in graph.captured.values()]
    return Vectorized(made, [parts[t].tensor for t in inputs], captured, many, fillers, ragged)


def _needed(graph: Graph, wanted: Sequence[Any]) -> list[Operation]:
    """In the order in which they were made, which is one in which they can be."""
    seen: set[Operation] = set()
    todo = [w.op if isinstance(w, Tensor) else w for w in wanted]
    while todo:
        op = todo.pop()
        if op not in seen:
            seen.add(op)
            todo += [t.op for t in op.inputs]
    return [op for op in graph.get_operations() if op in seen]


def _copied(made: Graph, op: Operation, own: Sequence[_Part]) -> Sequence[Tensor]:
    if op.spec.stateful and op.type not in (*TABLE_FILLS, TABLE_TYPE):
        raise _Unknown
    return made.create_op(op.type, [p.tensor for p in own], dict(op.attrs), op.name + "/").outputs


def _refused(op: Operation, own: Sequence[_Part]) -> list[Tensor]:
    raise _Unknown


def _same(op: Operation, inputs: Sequence[Tensor], **attrs: Any) -> list[Tensor]:
    return list(get_default_graph().create_op(op.type, list(inputs), {**op.attrs, **attrs}, op.name).outputs)


def _repeated(value: Tensor, stacked: Tensor) -> Tensor:
    """For each row of what is stacked."""
    if value._shape is None:
        raise _Unknown
    rows = array.shape(stacked)[:1]
    return array.tile(array.expand_dims(value, 0), concat([rows, [1] * len(value._shape)], 0))


# ---------------------------------------------------------------------- element by element


def _rank(op: Operation, i: int) -> int:
    dims = op.inputs[i]._shape
    if dims is None:
        raise _Unknown
    return len(dims)


def _first_alone(op: Operation, own: Sequence[_Part]) -> list[Tensor]:
    """Each value of the first input by itself; the others are settings."""
    if any(p.stacked for p in own[1:]) or (own[0].places is not None and len(op.outputs) > 1):
        raise _Unknown
    return _same(op, [p.tensor for p in own])


def _broadcast(op: Operation, own: Sequence[_Part]) -> list[Tensor]:
    """Those of fewer axes get axes of size one behind the first, where broadcasting would put them in front of it."""
    most = max(_rank(op, i) for i in range(len(own)))
    inputs = []
    for i, (tensor, stacked, *_) in enumerate(own):
        for _ in range(most - _rank(op, i) if stacked else 0):
            tensor = array.expand_dims(tensor, 1)
        inputs.append(tensor)
    return _same(op, inputs)


_ALONE = (
    "Abs Neg Sign Sqrt Rsqrt Square Exp Expm1 Log Log1p Floor Ceil Round Rint Sigmoid Tanh Relu Relu6 Elu Softplus "
    "Reciprocal Inv Cast Identity StopGradient LogicalNot IsNan IsInf IsFinite ZerosLike OnesLike StringToNumber "
    "StringToHashBucketFast StringToHashBucketStrong StringToHashBucket AsString StringStrip StringLower StringUpper "
    "StringLength RegexReplace StaticRegexReplace DecodeRaw DecodeCSV Bucketize"
)
_BROADCAST = (
    "Add AddV2 Sub Mul Div RealDiv DivNoNan FloorDiv FloorMod Mod TruncateDiv TruncateMod Maximum Minimum "
    "SquaredDifference Equal NotEqual Less LessEqual Greater GreaterEqual LogicalAnd LogicalOr SelectV2"
)
_RULES.update(dict.fromkeys(_ALONE.split(), _first_alone))
_RULES.update(dict.fromkeys(_BROADCAST.split(), _broadcast))


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def add(rule: Rule) -> Rule:
        _RULES.update(dict.fromkeys(names, rule))
        return rule

    return add


@_rule("LookupTableFindV2")
def _look_up(op: Operation, own: Sequence[_Part]) -> list[Tensor]:
    table, keys, default = own
    if table.stacked or default.stacked:
        raise _Unknown
    return _same(op, [table.tensor, keys.tensor, default.tensor])


@_rule("OneHot")
def _one_hot(op: Operation, own: Sequence[_Part]) -> list[Tensor]:
    if any(p.stacked for p in own[1:]):
        raise _Unknown
    axis = op.attrs["axis"]
    return _same(op, [p.tensor for p in own], axis=axis if axis < 0 else axis + 1)


@_rule("GatherV2")
def _gather(op: Operation, own: Sequence[_Part]) -> list[Tensor]:
    """Of rows that are the same for all."""
    table, indices, axis = own
    if table.stacked or axis.stacked or constant_value(op.inputs[2]) != 0 or op.attrs.get("batch_dims"):
        raise _Unknown
    return _same(op, [table.tensor, indices.tensor, axis.tensor])


# ---------------------------------------------------------------------- shapes


def _fixed(op: Operation, i: int) -> Any:
    value = constant_value(op.inputs[i])
    if value is None:
        raise _Unknown
    return value


def _behind(axis: int) -> int:
    """An axis of one element, among those of many."""
    return axis if axis < 0 else axis + 1


@_rule("Reshape")
def _reshape(op: Operation, own: Sequence[_Part]) -> list[Tensor]:
    """The number of elements is asked for when it runs, so that rows of another size are refused as they were."""
    sizes = _fixed(op, 1).astype("int32")
    rows = array.shape(own[0].tensor)[:1]
    return [array.reshape(own[0].tensor, concat([rows, constant(sizes, dtypes.int32)], 0))]


@_rule("ExpandDims")
def _expand_dims(op: Operation, own: Sequence[_Part]) -> list[Tensor]:
    return [array.expand_dims(own[0].tensor, _behind(int(_fixed(op, 1))))]


@_rule("Squeeze")
def _squeeze(op: Operation, own: Sequence[_Part]) -> list[Tensor]:
    axes = list(op.attrs.get("squeeze_dims") or ())
    dims = op.inputs[0]._shape
    if not axes and (dims is None or None in dims):
        raise _Unknown
    axes = axes or [i for i, d in enumerate(dims or ()) if d == 1]
    return [array.squeeze(own[0].tensor, [_behind(a) for a in axes]) if axes else own[0].tensor]


@_rule("Transpose")
def _transpose(op: Operation, own: Sequence[_Part]) -> list[Tensor]:
    return [array.transpose(own[0].tensor, [0, *(int(i) + 1 for i in _fixed(op, 1))])]


@_rule("Pack")
def _pack(op: Operation, own: Sequence[_Part]) -> list[Tensor]:
    if not all(p.stacked for p in own):
        raise _Unknown
    return _same(op, [p.tensor for p in own], axis=_behind(op.attrs["axis"]))


@_rule("ConcatV2")
def _concat(op: Operation, own: Sequence[_Part]) -> list[Tensor]:
    if not all(p.stacked for p in own[:-1]):
        raise _Unknown
    return [concat([p.tensor for p in own[:-1]], _behind(int(_fixed(op, len(own) - 1))))]


@_rule("StridedSlice")
def _strided_slice(op: Operation, own: Sequence[_Part]) -> list[Tensor]:
    """All rows, and of each what is taken of one."""
    if any(p.stacked for p in own[1:]):
        raise _Unknown
    numbers = [convert_to_tensor([x, *_fixed(op, i).tolist()], op.inputs[i].dtype) for i, x in ((1, 0), (2, 0), (3, 1))]
    masks = {k: op.attrs.get(k, 0) << 1 for k in ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask")}
    masks |= {k: op.attrs.get(k, 0) << 1 | 1 for k in ("begin_mask", "end_mask")}
    return _same(op, [own[0].tensor, *numbers], **masks)


@_rule("Shape", "Size")
def _known_shape(op: Operation, own: Sequence[_Part]) -> list[Tensor]:
    """Of rows of one size, for each row."""
    dims = op.inputs[0]._shape
    if dims is None or None in dims:
        raise _Unknown
    value = convert_to_tensor(list(dims) if op.type == "Shape" else prod(dims), op.outputs[0].dtype)
    return [_repeated(value, own[0].tensor)]


# ---------------------------------------------------------------------- Examples


@_rule("ParseSingleExample")
def _parse_single(op: Operation, own: Sequence[_Part]) -> Sequence[Tensor | _Part]:
    """Features of any number of values, and dense ones of fixed sizes."""
    shapes: Sequence[Shape] = op.attrs["dense_shapes"]
    if any(p.stacked for p in own[1:]) or any(s.dims is None or None in s.dims for s in shapes):
        raise _Unknown
    keys, any_number, kinds = op.attrs["dense_keys"], op.attrs["sparse_keys"], op.attrs["sparse_types"]
    count = len(any_number)
    attrs = {"sparse_types": kinds, "dense_shapes": shapes, "Tdense": op.attrs["Tdense"]}
    attrs |= {"Nsparse": count, "Ndense": len(keys)}
    names = convert_to_tensor([], dtypes.string)
    inputs = [own[0].tensor, names, list(any_number), list(keys), [p.tensor for p in own[1:]]]
    found = list(apply_op("ParseExample", inputs, attrs, op.name))
    joined = [_Part(t, True, (op.name, i % count, i // count)) for i, t in enumerate(found[: 3 * count])]
    return [*joined, *found[3 * count :]]


@_rule("SparseToDense")
def _to_vector(op: Operation, own: Sequence[_Part]) -> Sequence[_Part]:
    """Of a feature of any number of values, which are all that the vector has."""
    indices, size, values, _ = own
    which = indices.joined
    if which is None or which[2] != 0 or size.joined != (*which[:2], 2) or values.joined != (*which[:2], 1):
        raise _Unknown
    return [_Part(values.tensor, True, None, indices.tensor)]
