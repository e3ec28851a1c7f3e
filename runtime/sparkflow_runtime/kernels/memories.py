"""Which nodes compute on a GPU, and in which memory a value lies there.

A GPU's kernel is the one of every device, on cupy's arrays. Numbers that say how to compute (shapes, axes, counters)
stay with the host, as TensorFlow keeps them: a kernel would wait for the GPU to learn them. `master/memories.py` puts
`_ToDevice` and `_ToHost` where a value crosses.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from sparkflow_runtime.kernels import registry
from sparkflow_runtime.kernels.host import host
from sparkflow_runtime.kernels.registry import Function, Node, bound
from sparkflow_runtime.wire.devices import DeviceSpec, on_cpu
from sparkflow_runtime.wire.dtypes import as_dtype
from sparkflow_runtime.wire.edges import node_name
from sparkflow_runtime.wire.errors import InvalidArgumentError
from sparkflow_runtime.wire.protos import NodeDef

HOST = -1  # where the index of a GPU could be

_log = logging.getLogger(__name__)


def _types_named(names: str) -> frozenset[int]:
    return frozenset(as_dtype(name).as_datatype_enum for name in names.split())


_TYPES = _types_named(
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128"
)
_FLOATS, _HANDLES = _types_named("float16 float32 float64"), _types_named("resource variant")
_INT32, _BOOL = (as_dtype(name).as_datatype_enum for name in ("int32", "bool"))


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_HANDED_ON = _words("Enter Exit Identity IdentityN Merge NextIteration StopGradient PreventGradient Switch")
_KEEP_STATE = _words(  # that may be there with their state, all that concerns it being there too
    "VariableV2 Variable Assign AssignAdd AssignSub IsVariableInitialized CheckNumerics "
    "RefEnter RefExit RefIdentity RefMerge RefNextIteration RefSwitch StridedSliceAssign "
    "ScatterAdd ScatterDiv ScatterMax ScatterMin ScatterMul ScatterSub ScatterUpdate "
    "ScatterNdAdd ScatterNdMax ScatterNdMin ScatterNdSub ScatterNdUpdate _FusedApply _FusedSparseApply _FusedUpdate "
    "StackV2 StackPushV2 StackPopV2 StackCloseV2 TensorArrayV3 TensorArrayWriteV3 TensorArrayReadV3 "
    "TensorArrayGatherV3 TensorArrayScatterV3 TensorArraySplitV3 TensorArrayConcatV3 TensorArraySizeV3 "
    "TensorArrayGradV3 TensorArrayGradWithShape TensorArrayCloseV3"
)
_LEFT_TO_HOST = _words(  # what they compute is small, or has no form for a GPU
    "Const Shape ShapeN Size Rank BroadcastArgs BroadcastGradientArgs ConcatOffset Range LinSpace InvertPermutation "
    "UnravelIndex Unique LoopCond NoOp ControlTrigger Placeholder PlaceholderV2 Bincount DenseBincount EditDistance "
    "CTCBeamSearchDecoder CTCGreedyDecoder CombinedNonMaxSuppression NonMaxSuppression NonMaxSuppressionV2 "
    "NonMaxSuppressionV3 NonMaxSuppressionV4 NonMaxSuppressionV5 NonMaxSuppressionWithOverlaps "
    "_BagGradients _BagIds _BagSums _ColumnsTogether _Entries _FusedConcatGrad _FusedGather _FusedGatherConcat _Slices "
    "_SwapOut _SwapAhead _SwapIn _ToHost"
)
_SHAPES_ONLY = _words("Shape ShapeN Size Rank")  # read nothing of their input
_CROSSINGS = _words("_ToHost _ToDevice")
_COUNTS = _HANDED_ON | _words(  # of int32, they are counters, shapes and their like; what is handed on, of bool too
    "Add AddV2 AddN Sub Mul FloorDiv FloorMod TruncateDiv TruncateMod Maximum Minimum Neg Abs Sign Square Equal "
    "NotEqual Less LessEqual Greater GreaterEqual Select SelectV2 Sum Prod Max Min Cast Reshape ExpandDims Squeeze "
    "Slice StridedSlice Pack Unpack Concat ConcatV2 Split SplitV Tile Fill Transpose Gather GatherV2 ZerosLike "
    "OnesLike ReverseV2 Pad StackV2 StackPushV2 StackPopV2 _Fused"
)

_READ_ON_HOST: dict[tuple[int, ...], str] = {  # positions, from the end where negative -> the ops of which they are
    (0,): "Fill Split Concat Conv2DBackpropInput Conv3DBackpropInputV2 AvgPoolGrad AvgPool3DGrad "
    "DepthwiseConv2dNativeBackpropInput TensorArrayV3 _AddSlices StatelessRandomGetKeyCounter",
    (1,): "Sum Prod Mean Max Min All Any EuclideanNorm ArgMax ArgMin Cumsum Cumprod CumulativeLogsumexp ExpandDims "
    "Transpose ConjugateTranspose Reshape Tile BroadcastTo OneHot ReverseV2 Pad PadV2 MirrorPad MirrorPadGrad TopKV2 "
    "NthElement Switch RefSwitch SparseToDense Conv2DBackpropFilter Conv3DBackpropFilterV2 "
    "DepthwiseConv2dNativeBackpropFilter ResizeBilinear ResizeNearestNeighbor ResizeBicubic ResizeArea "
    "ResizeNearestNeighborGrad TensorArrayWriteV3 TensorArrayReadV3 TensorArrayGatherV3 TensorArrayScatterV3",
    (2,): "GatherV2 ScatterNd UnsortedSegmentSum UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd InTopKV2 "
    "SparseTensorDenseMatMul SparseTensorDenseAdd SparseSoftmax SparseDenseCwiseAdd SparseDenseCwiseDiv "
    "SparseDenseCwiseMul SparseReorder HistogramFixedWidth TensorArraySplitV3 TensorArrayGradWithShape",
    (-1,): "ConcatV2",
    (0, 1): "StatelessRandomUniform StatelessRandomNormal StatelessTruncatedNormal StatelessRandomUniformFullInt "
    "StatelessRandomGammaV2 StatelessRandomPoisson StatelessRandomBinomial StatelessParameterizedTruncatedNormal",
    (0, 3): "SparseSplit",
    (1, 2): "Slice SplitV Roll MatrixBandPart SpaceToBatchND BatchToSpaceND SparseReshape",
    (2, 3): "SparseReduceMax SparseReduceSum SparseReduceMaxSparse SparseReduceSumSparse",
    (1, 2, 3): "StatelessShuffle StridedSlice StridedSliceAssign MatrixDiagV3",
    (0, 1, 2, 3): "StridedSliceGrad StatelessRandomUniformInt StatelessRandomUniformV2 StatelessRandomNormalV2 "
    "StatelessTruncatedNormalV2 StatelessRandomUniformFullIntV2",
    (0, 1, 2, 3, 4, 5): "StatelessRandomUniformIntV2",
}
_ON_HOST = {op: positions for positions, ops in _READ_ON_HOST.items() for op in ops.split()}
_FLOWS = {  # of TensorArrays: no value, only an order
    op: position
    for position, ops in {
        1: "TensorArraySizeV3 TensorArrayConcatV3 TensorArrayGradV3 TensorArrayGradWithShape",
        2: "TensorArrayReadV3 TensorArrayGatherV3",
        3: "TensorArrayWriteV3 TensorArrayScatterV3 TensorArraySplitV3",
    }.items()
    for op in ops.split()
}
_GIVE_HOST = _words("IsVariableInitialized TensorArraySizeV3")  # their output lies there


# ---------------------------------------------------------------------- the GPUs of this process


@cache
def count() -> int:
    """How many GPUs cupy reaches from here; 0 where it is not installed."""
    if find_spec("cupy") is None:
        return 0
    try:
        cupy: Any = import_module("cupy")
        return int(cupy.cuda.runtime.getDeviceCount())
    except Exception as error:  # no driver, or no device: cupy's own errors cannot be named without importing it
        _log.info("cupy is installed and reaches no GPU (`sparkflow doctor` says more): %s", error)
        return 0


_numbers: list[int] = []  # where a session has said so, GPU:i of this process is cupy's _numbers[i]


def number(listed: list[int]) -> None:
    """Have GPU:i of this process be cupy's listed[i], and no others be there. Raises InvalidArgumentError where cupy
    has none of such a number, and where an earlier session had others: its variables may lie there."""
    if any(not 0 <= n < count() for n in listed) or len(set(listed)) < len(listed):
        raise InvalidArgumentError(f"visible_device_list: {listed}, and cupy reaches {count()} GPUs from here")
    if _numbers not in ([], listed):
        raise InvalidArgumentError(f"visible_device_list: {listed}, and an earlier session of this process: {_numbers}")
    _numbers[:] = listed


def shown() -> int:
    """How many GPUs this process has."""
    return len(_numbers) or count()


def gpu_bytes(index: int) -> int:
    """Of its memory."""
    return int(import_module("cupy").cuda.Device(_cupys(index)).mem_info[1])


def _cupys(index: int) -> int:
    return _numbers[index] if index < len(_numbers) else index


def arrays(device: str) -> Any:
    """The module whose arrays a device has."""
    return np if on_cpu(device) else import_module("cupy")


def gpu_of(device: str) -> int:
    """Its index with cupy, HOST where the device is none."""
    return HOST if on_cpu(device) else _cupys(DeviceSpec.from_string(device).device_index or 0)


def memory_of(array: Any) -> int:
    """The index of the GPU that has it, HOST where none does."""
    return HOST if isinstance(array, np.ndarray) else int(array.device.id)


def on_its_device(function: Function, device: str) -> Function:
    """`function`, made to run on another GPU than the first, which a thread has without asking."""
    index = gpu_of(device)
    if index <= 0:
        return function
    current = import_module("cupy").cuda.Device

    def run(*inputs: Any, **more: Any) -> Any:
        with current(index):
            return function(*inputs, **more)

    return run


def until_done(device: str) -> Callable[[], None] | None:
    """Waits until a GPU has done all that it was told; None of a host, which then has."""
    return None if on_cpu(device) else import_module("cupy").cuda.Device(gpu_of(device)).synchronize


# ---------------------------------------------------------------------- what computes there


def computes(node: NodeDef) -> bool:
    """Whether a node that is placed on a GPU has a kernel for it, and is not left to the host."""
    if registry.own_row(node.op, "GPU"):
        return True
    row = registry.rows(node.op)[0]
    if row is None or node.op in _LEFT_TO_HOST:
        return False
    if (row.stateful or row.refs or row.is_async) and not _may_keep_state(node.op):
        return False
    if node.op in registry.VARIABLES or row.refs:
        kept = node.attr["dtype" if node.op in registry.VARIABLES else "T"].type
        return not kept or kept in _FLOATS  # a counter is asked for by the host
    if hands_on_handle(node):
        return True
    kind = _computed_type(node)
    left = node.op in _COUNTS and (kind == _INT32 or (kind == _BOOL and node.op in _HANDED_ON))
    return _types(node) <= _TYPES and not left


def hands_on_handle(node: NodeDef) -> bool:
    """Whether what passes through a node is no array, but says which queue or TensorArray is meant."""
    return node.op in _HANDED_ON and _computed_type(node) in _HANDLES


def _may_keep_state(op: str) -> bool:
    return op in _KEEP_STATE or op.startswith(("Apply", "SparseApply", "_SparseApply"))


def is_bound(node: NodeDef) -> bool:
    """Whether a node that cannot compute on a GPU holds back the variables that it refers to, or is one itself."""
    return bool(node.op in registry.VARIABLES or registry.ref_positions(node.op)) and not computes(node)


def is_left_to_host(op: str) -> bool:
    """Whether it is no wish for a GPU to have it in a device scope of one, as the group that an update ends with is."""
    return op in _LEFT_TO_HOST and registry.own_row(op, "GPU") is None


def has_no_form(op: str) -> bool:
    """Whether an op is for the host alone, as those of strings and files are."""
    return registry.rows(op)[0] is None and not registry.own_row(op, "GPU")


def _types(node: NodeDef) -> set[int]:
    found = {value.type for value in node.attr.values() if value.WhichOneof("value") == "type"}
    return found.union(*(value.list.type for value in node.attr.values() if value.WhichOneof("value") == "list"))


def _computed_type(node: NodeDef) -> int:
    """That of the values, where an op has another for its indices."""
    return next((node.attr[name].type for name in ("T", "Tparams", "SrcT", "elem_type") if name in node.attr), 0)


def host_inputs(node: NodeDef, inputs: int) -> frozenset[int]:
    """Positions of what a kernel on a GPU reads on the host."""
    return frozenset(p % inputs for p in _ON_HOST.get(node.op, ()) if -inputs <= p < inputs)


def as_they_are(node: NodeDef, inputs: int) -> frozenset[int]:
    """Positions of inputs that may lie in any memory: variables, where the op says which are some, what nobody reads,
    and what is copied from there."""
    if node.op in _SHAPES_ONLY or node.op in _CROSSINGS or hands_on_handle(node):
        return frozenset(range(inputs))
    if node.op == "Assert":
        return frozenset(range(1, inputs))
    flow = _FLOWS.get(node.op)
    positions = registry.ref_positions(node.op)
    found = frozenset(() if positions is registry.EVERY_INPUT else positions)
    return found if flow is None else found | {flow}


def gives_host(node: NodeDef, port: int) -> bool:
    """Whether a kernel on a GPU has that output on the host."""
    return node.op in _GIVE_HOST or hands_on_handle(node) or (node.op in ("Merge", "RefMerge") and port == 1)


# ---------------------------------------------------------------------- from one memory to the other

CONSTANT = "_constant"  # attribute of a _ToDevice: its input is the same in every step


@bound("_ToHost", stateful=False, aliases=True)
def _to_host(node: Node) -> Function:
    return _copying(node, host)


@bound("_ToDevice", stateful=False)
def _to_device(node: Node) -> Function:
    copy = _copying(node, node.xp.asarray)
    return _kept(copy) if node.attrs.get(CONSTANT) else copy


def _copying(node: Node, copy: Function) -> Function:
    """`copy`, whose error, as where there is no room, names the node that the value is of."""
    source = NodeDef(name=node_name(node.inputs[0]), op=node.op, device=node.device)

    def run(x: Any) -> Any:
        try:
            return copy(x)
        except Exception as error:
            error.failed_node = source  # type: ignore[attr-defined]
            raise

    return run


def _kept(copy: Function) -> Function:
    """A copy that is made once."""
    made: list[Any] = []

    def run(x: Any) -> Any:
        if not made:
            made.append(copy(x))
        return made[0]

    return run
