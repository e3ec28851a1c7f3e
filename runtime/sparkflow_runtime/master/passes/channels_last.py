"""Images with channels first are computed with channels last, the one layout that the kernels know.

Every convolution, pool or batch norm in "NCHW" (or "NCDHW") would transpose what comes in and what goes out. Here it
becomes an op in "NHWC" that takes and gives channels last, and so do the biases, elementwise ops, sums and pads between
such ops. A transpose is left where an image enters or leaves; the op's own name stays with the transpose back to its
old layout, which is pruned where nobody asks for it. Values are the same; sums over other axes may round differently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from sparkflow_runtime.master.passes.fold import constant_op
from sparkflow_runtime.master.passes.symbols import BROADCAST, SAME_AS_FIRST, words
from sparkflow_runtime.master.passes.view import Dims, Op, View
from sparkflow_runtime.wire.attrs import Shape, encode
from sparkflow_runtime.wire.dtypes import as_dtype, int32
from sparkflow_runtime.wire.edges import edge
from sparkflow_runtime.wire.protos import NodeDef


class _Row(NamedTuple):
    """Which inputs of an op are images, which are sizes in the order of its layout, and whether output 0 is an image.
    starts: it begins a region of channels last; the others only go on with one."""

    images: tuple[int, ...]
    sizes: tuple[int, ...] = ()
    makes: bool = True
    starts: bool = True


_ONE, _THREE = _Row((0,)), _Row((0, 1, 2))
_TABLE: dict[str, _Row] = {
    **dict.fromkeys(words("Conv2D DepthwiseConv2dNative Conv3D MaxPool MaxPool3D AvgPool AvgPool3D"), _ONE),
    **dict.fromkeys(words("MaxPoolGrad MaxPoolGradGrad MaxPool3DGrad MaxPool3DGradGrad"), _THREE),
    **dict.fromkeys(
        words("Conv2DBackpropInput DepthwiseConv2dNativeBackpropInput Conv3DBackpropInputV2"), _Row((2,), (0,))
    ),
    **dict.fromkeys(
        words("Conv2DBackpropFilter DepthwiseConv2dNativeBackpropFilter Conv3DBackpropFilterV2"),
        _Row((0, 2), makes=False),
    ),
    **dict.fromkeys(words("AvgPoolGrad AvgPool3DGrad"), _Row((1,), (0,))),
    "MaxPoolV2": _Row((0,), (1, 2)),
    **dict.fromkeys(words("MaxPoolGradV2 MaxPoolGradGradV2"), _Row((0, 1, 2), (3, 4))),
    **dict.fromkeys(words("FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3"), _ONE),
    **dict.fromkeys(words("FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3"), _Row((0, 1))),
    "BiasAdd": _Row((0,), starts=False),
    "BiasAddGrad": _Row((0,), makes=False, starts=False),
}
_ELEMENTWISE = (SAME_AS_FIRST | BROADCAST | words("Select SelectV2")) - words("Softmax LogSoftmax BiasAdd ClipByValue")
_BOOL = words("Equal NotEqual Less LessEqual Greater GreaterEqual LogicalAnd LogicalOr LogicalNot IsNan IsInf IsFinite")
_REDUCTIONS = words("Sum Mean Max Min Prod All Any")
_READERS = words("L2Loss Size Rank")  # any order of the axes will do


def channels_last(view: View) -> None:
    """Change the layout of all that can be; nothing happens in a graph without channels first."""
    if any(_starts(op) for op in view.ops.values()):
        _Converter(view).run()


def _starts(op: Op) -> bool:
    return op.op in _TABLE and _TABLE[op.op].starts and str(op.attr("data_format", "NHWC")).startswith("NC")


class _Converter:
    """One walk in order of the nodes. last: edge -> the same image with channels last."""

    def __init__(self, view: View):
        self.view, self.ops = view, dict[str, Op]()
        self.last: dict[str, str] = {}
        self.sizes: dict[str, str] = {}  # the Shape of an image -> its shape with channels last
        self.edges: dict[str, str] = {}
        self.renamed: dict[str, str] = {}
        self.constants: dict[Any, str] = {}
        fed = {e.partition(":")[0] for e in view.feeds}
        self.fixed = fed | {e.partition(":")[0] for e in view.fetches if ":" in e}  # another port than 0 is fetched

    def run(self) -> None:
        view = self.view
        for op in view.ops.values():
            if op.name not in view.free or op.name in self.fixed or not self._convert(op):
                self.ops[op.name] = op
        for op in self.ops.values():
            op.control = [self.renamed.get(name, name) for name in op.control]
        view.free = view.free.union(self.ops.keys() - view.ops.keys())
        view.ops = self.ops
        view.changes += len(self.renamed)
        view.redirect(self.edges)
        view.prune()
        view.moved.update((old, new) for old, new in self.renamed.items() if old not in view.ops)

    def _convert(self, op: Op) -> bool:
        """Put the op in with channels last, if it can be; else nothing has happened."""
        if op.op in _TABLE:
            return self._windowed(op, _TABLE[op.op])
        if op.op in _ELEMENTWISE:
            return self._elementwise(op)
        if op.op in _REDUCTIONS:
            return self._reduction(op)
        image = self.last.get(op.data[0]) if op.data else None
        if image is None:
            return False
        return _BY_OP.get(op.op, lambda *_: False)(self, op, image)

    # ---------------------------------------------------------------- kinds of ops

    def _windowed(self, op: Op, row: _Row) -> bool:
        kind = str(op.attr("data_format", "NHWC"))
        if not kind.startswith("NC") or not (row.starts or op.data[0] in self.last):
            return False
        rank = len(kind) if row.starts else self._rank(op.data[0])
        if rank is None:
            return False
        if not all(self._sizes_ready(op.data[i], rank) for i in row.sizes):
            return False
        new = self._again(op, rank, row.makes)
        for i in row.images:
            new.data[i] = self._image(op, op.data[i], rank)
        for i in row.sizes:
            new.data[i] = self._sizes(op, op.data[i], rank)
        if "data_format" in op.proto.attr:
            new.set("data_format", "NHWC" if len(kind) == 4 else "NDHWC")
        for name, width in (("strides", 1), ("ksize", 1), ("dilations", 1), ("explicit_paddings", 2)):
            values = list(op.attr(name) or ())
            if len(values) == width * rank:
                new.set(name, [v for a in _to_last(rank) for v in values[width * a : width * (a + 1)]])
        return self._put(op, new, rank, row.makes)

    def _elementwise(self, op: Op) -> bool:
        """One with an image among its inputs; the others are images too, numbers, or a number a channel."""
        images = [e for e in op.data if e in self.last]
        rank = self._rank(images[0]) if images else None
        shapes = [self.view.shapes.of(e) for e in op.data]
        if (
            rank is None
            or self._rank(op.name) != rank
            or not all(s is not None and len(s) in (0, rank) for s in shapes)
        ):
            return False
        new = self._again(op, rank, True)
        new.data = [self._image(op, e, rank) if shape else e for e, shape in zip(op.data, shapes)]
        return self._put(op, new, rank, True)

    def _reduction(self, op: Op) -> bool:
        image = self.last.get(op.data[0])
        axes: Any = self.view.constant(op.data[1])
        rank = self._rank(op.data[0])
        if image is None or axes is None or rank is None or axes.size == 0:
            return False
        numbers = [int(a) % rank for a in np.ravel(axes)]
        keep, left = bool(op.attr("keep_dims")), [a for a in range(rank) if a not in numbers]
        if not keep and len(left) > 1 and left != [0, 1]:
            return False  # what is left would lie in another order
        new = self._again(op, rank, keep)
        where = self._constant(f"{op.name}/axes", [_to_last(rank).index(a) for a in numbers], op)
        new.data = [image, where]
        return self._put(op, new, rank, keep)

    def _shape(self, op: Op, image: str) -> bool:
        rank = self._rank(op.data[0])
        if rank is None:
            return False
        new = self._again(op, rank, False)
        new.data = [image]
        self.ops[new.name] = new
        self.sizes[op.name] = new.name
        self.renamed[op.name] = new.name
        kind = op.attr("out_type", int32)
        self.ops[op.name] = self._gather(op.name, new.name, _to_first(rank), op, kind)
        return True

    def _pad(self, op: Op, image: str) -> bool:
        pads: Any = self.view.constant(op.data[1])
        rank = self._rank(op.data[0])
        if pads is None or rank is None or len(pads) != rank:
            return False
        new = self._again(op, rank, True)
        new.data = [image, self._constant(f"{op.name}/paddings", pads[_to_last(rank)], op), *op.data[2:]]
        return self._put(op, new, rank, True)

    def _slice(self, op: Op, image: str) -> bool:
        rank = self._rank(op.data[0])
        if rank is None or not all(self._sizes_ready(e, rank) for e in op.data[1:]):
            return False
        new = self._again(op, rank, True)
        new.data = [image, *(self._sizes(op, e, rank) for e in op.data[1:])]
        return self._put(op, new, rank, True)

    def _reader(self, op: Op, image: str) -> bool:
        op.data = [image, *op.data[1:]]
        self.ops[op.name] = op
        return True

    # ---------------------------------------------------------------- what is put in

    def _rank(self, e: str) -> int | None:
        shape = self.view.shapes.of(e)
        return len(shape) if shape is not None and len(shape) in (4, 5) else None

    def _again(self, op: Op, rank: int, makes: bool) -> Op:
        """The op under a new name; if it makes an image, of the new layout."""
        proto = NodeDef()
        proto.CopyFrom(op.proto)
        proto.name = self._fresh(f"{op.name}/channels_last")
        proto.op = op.op
        if makes:
            _set_shape(proto, _permuted(op.static_shape(0), _to_last(rank)))
        new = Op(proto)
        new.data, new.control, new.changed = list(op.data), list(op.control), dict(op.changed)
        return new

    def _put(self, op: Op, new: Op, rank: int, makes: bool) -> bool:
        """The new op, and under the old name what the old one gave."""
        if not makes:  # no image comes out: the op itself changes
            op.data, op.changed = new.data, new.changed
            self.ops[op.name] = op
            return True
        self.ops[new.name] = new
        self.last[op.name] = new.name
        self.renamed[op.name] = new.name
        back = self._transpose(op.name, new.name, _to_first(rank), op, _kind_of(op))
        if op.static_shape(0) is not None:
            _set_shape(back.proto, op.static_shape(0))
        self.ops[op.name] = back
        self.edges.update((edge(op.name, port), edge(new.name, port)) for port in range(1, 6))
        return True

    def _image(self, op: Op, e: str, rank: int) -> str:
        """The edge with channels last; a transpose where there is none yet."""
        if e not in self.last:
            name = self._fresh(f"{e.replace(':', '_')}/to_channels_last")
            source = self.view.ops.get(e.partition(":")[0])
            new = self._transpose(name, e, _to_last(rank), op, op.attr("T") if source is None else _kind_of(source))
            if source is not None:
                _set_shape(new.proto, _permuted(source.static_shape(int(e.partition(":")[2] or 0)), _to_last(rank)))
            self.ops[name] = new
            self.last[e] = name
        return self.last[e]

    def _sizes_ready(self, e: str, rank: int) -> bool:
        shape = self.view.shapes.of(e)
        return shape == (rank,) or (shape is not None and e in self.sizes)

    def _sizes(self, op: Op, e: str, rank: int) -> str:
        """A vector of `rank` sizes in the new order."""
        if e not in self.sizes:
            name, known = self._fresh(f"{e.replace(':', '_')}/of_channels_last"), self.view.constant(e)
            if known is not None:
                self.ops[name] = constant_op(name, known[_to_last(rank)], op)
            else:
                self.ops[name] = self._gather(
                    name, e, _to_last(rank), op, op.attr("Tshape") or op.attr("Index") or int32
                )
            self.sizes[e] = name
        return self.sizes[e]

    def _transpose(self, name: str, source: str, perm: Sequence[int], like: Op, kind: Any) -> Op:
        at = self._constant(f"{name}/perm", perm, like)
        return _node("Transpose", name, [source, at], like, {"T": kind, "Tperm": int32})

    def _gather(self, name: str, source: str, order: Sequence[int], like: Op, kind: Any) -> Op:
        at, axis = self._constant(f"{name}/order", order, like), self._constant(f"{name}/axis", 0, like)
        types = {"Tparams": kind, "Tindices": int32, "Taxis": int32, "batch_dims": 0}
        return _node("GatherV2", name, [source, at, axis], like, types)

    def _constant(self, name: str, value: Any, like: Op) -> str:
        """One constant for all that ask for it in one place."""
        array = np.asarray(value, np.int32)
        key = array.tobytes(), array.shape, like.device, like.labels
        if key not in self.constants:
            self.constants[key] = self._fresh(name)
            self.ops[self.constants[key]] = constant_op(self.constants[key], array, like)
        return self.constants[key]

    def _fresh(self, name: str) -> str:
        while name in self.view.ops or name in self.ops:
            name += "_"
        return name


_BY_OP: dict[str, Callable[[_Converter, Op, str], bool]] = {
    "Shape": _Converter._shape,
    "Slice": _Converter._slice,
    **dict.fromkeys(words("Pad PadV2 MirrorPad"), _Converter._pad),
    **dict.fromkeys(_READERS, _Converter._reader),
}


def _to_last(rank: int) -> list[int]:
    return [0, *range(2, rank), 1]


def _to_first(rank: int) -> list[int]:
    return [0, rank - 1, *range(1, rank - 1)]


def _kind_of(op: Op) -> Any:
    """The dtype of what an op makes."""
    return as_dtype(np.bool_) if op.op in _BOOL else op.attr("DstT") or op.attr("T") or op.attr("dtype")


def _permuted(dims: Dims | None, order: Sequence[int]) -> Dims | None:
    return None if dims is None or len(dims) != len(order) else tuple(dims[a] for a in order)


def _set_shape(proto: NodeDef, dims: Dims | None) -> None:
    """Say the shape of output 0; those of other outputs stay."""
    shapes: Iterator[Any] = iter(proto.attr["_output_shapes"].list.shape if "_output_shapes" in proto.attr else ())
    next(shapes, None)
    rest = [type(shape).FromString(shape.SerializeToString()) for shape in shapes]
    if dims is None:
        proto.attr.pop("_output_shapes", None)
        return
    proto.attr["_output_shapes"].CopyFrom(encode([Shape(dims)]))
    proto.attr["_output_shapes"].list.shape.extend(rest)


def _node(kind: str, name: str, inputs: Sequence[str], like: Op, attrs: dict[str, Any]) -> Op:
    proto = NodeDef(name=name, op=kind, device=like.device, input=inputs)
    for key, value in attrs.items():
        if value is not None:
            proto.attr[key].CopyFrom(encode(value))
    if like.labels:
        proto.attr["_class"].CopyFrom(like.proto.attr["_class"])
    return Op(proto)
