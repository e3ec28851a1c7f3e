"""Which ranks an op's inputs may have, as far as its row does not say so itself (source: the ops' shape functions,
tensorflow/core/ops/*.cc)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparkflow.framework.shapes import show
from sparkflow_runtime.wire.errors import InvalidArgumentError

if TYPE_CHECKING:
    from sparkflow.framework.operation import Operation

_MANY = 1 << 30

RANKS: dict[str, dict[str, tuple[int, int]]] = {}  # op -> input -> (lowest, highest)


def _only(low: int, high: int, places: str) -> None:
    """places: `Op.input`, which may have these ranks."""
    for place in places.split():
        op, _, name = place.partition(".")
        RANKS.setdefault(op, {})[name] = low, high


_only(
    0,
    0,
    "AdjustContrastv2.contrast_factor ArgMax.dimension ArgMin.dimension CombinedNonMaxSuppression.iou_threshold "
    "CombinedNonMaxSuppression.max_output_size_per_class CombinedNonMaxSuppression.max_total_size "
    "CombinedNonMaxSuppression.score_threshold ConcatV2.axis DenseBincount.size GatherV2.axis LinSpace.num "
    "LinSpace.start LinSpace.stop MatrixDiagPartV3.padding_value MatrixDiagV3.num_cols MatrixDiagV3.num_rows "
    "MatrixDiagV3.padding_value MatrixSolveLs.l2_regularizer RegexFullMatch.pattern RegexReplace.pattern "
    "RegexReplace.rewrite ShardedFilename.basename ShardedFilename.num_shards ShardedFilename.shard "
    "SparseFillEmptyRows.default_value SparseSegmentMeanGrad.output_dim0 "
    "SparseSegmentMeanWithNumSegments.num_segments SparseSegmentSqrtNGrad.output_dim0 "
    "SparseSegmentSqrtNWithNumSegments.num_segments SparseSegmentSumGrad.output_dim0 "
    "SparseSegmentSumWithNumSegments.num_segments UnsortedSegmentJoin.num_segments "
    "UnsortedSegmentMax.num_segments UnsortedSegmentMin.num_segments UnsortedSegmentProd.num_segments "
    "UnsortedSegmentSum.num_segments",
)
_only(
    0,
    1,
    "All.reduction_indices Any.reduction_indices DecodeCSV.record_defaults EuclideanNorm.reduction_indices "
    "MatrixDiagPartV3.k MatrixDiagV3.k MatrixSetDiagV3.k Max.reduction_indices Mean.reduction_indices "
    "Min.reduction_indices Prod.reduction_indices ReduceJoin.reduction_indices Roll.axis Roll.shift "
    "Sum.reduction_indices",
)
_only(
    1,
    1,
    "AvgPool3DGrad.orig_input_shape AvgPoolGrad.orig_input_shape BroadcastArgs.s0 BroadcastArgs.s1 "
    "BroadcastGradientArgs.s0 BroadcastGradientArgs.s1 BroadcastTo.shape ComputeAccidentalHits.sampled_candidates "
    "Conv2DBackpropFilter.filter_sizes Conv2DBackpropInput.input_sizes Conv3DBackpropFilterV2.filter_sizes "
    "Conv3DBackpropInputV2.input_sizes CropAndResize.crop_size CropAndResizeGradImage.image_size "
    "DenseToSparseSetOperation.set2_values DepthwiseConv2dNativeBackpropFilter.filter_sizes "
    "DepthwiseConv2dNativeBackpropInput.input_sizes EditDistance.hypothesis_shape EditDistance.hypothesis_values "
    "EditDistance.truth_shape EditDistance.truth_values ExtractGlimpse.size IRFFT.fft_length IRFFT2D.fft_length "
    "IRFFT3D.fft_length ListDiff.x ListDiff.y MaxPoolGradGradV2.ksize MaxPoolGradGradV2.strides MaxPoolV2.ksize "
    "MaxPoolV2.strides RFFT.fft_length RFFT2D.fft_length RFFT3D.fft_length ResizeArea.size ResizeBicubic.size "
    "ResizeBilinear.size ResizeNearestNeighbor.size ReverseV2.axis ScatterNd.shape Slice.begin Slice.size "
    "SparseAdd.a_shape SparseConcat.shapes SparseConcat.values SparseFillEmptyRows.dense_shape "
    "SparseFillEmptyRows.values SparseFillEmptyRowsGrad.grad_values SparseFillEmptyRowsGrad.reverse_index_map "
    "SparseReorder.input_shape SparseReorder.input_values SparseReshape.input_shape SparseReshape.new_shape "
    "SparseSegmentMeanGrad.indices SparseSegmentMeanGrad.segment_ids SparseSegmentSqrtNGrad.indices "
    "SparseSegmentSqrtNGrad.segment_ids SparseSegmentSumGrad.indices SparseSegmentSumGrad.segment_ids "
    "SparseSoftmax.sp_shape SparseSoftmax.sp_values SparseSparseMaximum.a_shape SparseSparseMaximum.a_values "
    "SparseSparseMaximum.b_shape SparseSparseMaximum.b_values SparseSparseMinimum.a_shape "
    "SparseSparseMinimum.a_values SparseSparseMinimum.b_shape SparseSparseMinimum.b_values "
    "SparseTensorDenseMatMul.a_shape SparseTensorDenseMatMul.a_values SparseToDense.output_shape "
    "SparseToSparseSetOperation.set1_values SparseToSparseSetOperation.set2_values StridedSlice.begin "
    "StridedSlice.end StridedSlice.strides StridedSliceGrad.shape Tile.multiples UnravelIndex.dims",
)
_only(
    1,
    _MANY,
    "ConcatV2.values Diag.diagonal Gather.params GatherNd.indices GatherV2.params HSVToRGB.images "
    "MatrixSetDiag.diagonal MatrixSetDiagV3.diagonal RGBToHSV.images ScatterNd.indices ScatterNd.updates "
    "SparseSegmentMean.data SparseSegmentMeanGrad.grad SparseSegmentMeanWithNumSegments.data "
    "SparseSegmentSqrtN.data SparseSegmentSqrtNGrad.grad SparseSegmentSqrtNWithNumSegments.data "
    "SparseSegmentSum.data SparseSegmentSumGrad.grad SparseSegmentSumWithNumSegments.data SplitV.value "
    "TensorScatterAdd.tensor TensorScatterMax.tensor TensorScatterMin.tensor TensorScatterSub.tensor "
    "TensorScatterUpdate.tensor",
)
_only(
    2,
    2,
    "ComputeAccidentalHits.true_classes EditDistance.hypothesis_indices EditDistance.truth_indices "
    "LowerBound.sorted_inputs MirrorPadGrad.paddings SoftmaxCrossEntropyWithLogits.features "
    "SoftmaxCrossEntropyWithLogits.labels SparseAddGrad.a_indices SparseAddGrad.b_indices SparseConcat.indices "
    "SparseCountSparseOutput.indices SparseDenseCwiseAdd.sp_indices SparseDenseCwiseDiv.sp_indices "
    "SparseDenseCwiseMul.sp_indices SparseFillEmptyRows.indices SparseReorder.input_indices "
    "SparseReshape.input_indices SparseSliceGrad.input_indices SparseSoftmax.sp_indices "
    "SparseSparseMaximum.a_indices SparseSparseMaximum.b_indices SparseSparseMinimum.a_indices "
    "SparseSparseMinimum.b_indices SparseTensorDenseMatMul.a_indices SparseTensorDenseMatMul.b "
    "UpperBound.sorted_inputs",
)
_only(
    3,
    _MANY,
    "AdjustContrastv2.images AdjustHue.images AdjustSaturation.images",
)
_only(
    4,
    4,
    "MaxPoolGradGrad.orig_input MaxPoolGradGradV2.orig_input MaxPoolGradGradWithArgmax.input MaxPoolV2.input",
)
_only(
    5,
    5,
    "MaxPool3DGradGrad.orig_input",
)


def check_ranks(op: Operation) -> None:
    """Raises InvalidArgumentError where an input's static shape has another rank than the op takes."""
    if op.type not in RANKS:
        return
    inputs = op.inputs
    places = _PLACES.get((op.type, len(inputs)))
    for place, low, high, name in _places(op) if places is None else places:
        dims = inputs[place]._shape
        if dims is not None and not low <= len(dims) <= high:
            raise InvalidArgumentError(f"{op.type}: {name} must be {_said(low, high)}, got shape {show(dims)}")


_Place = tuple[int, int, int, str]
_PLACES: dict[tuple[str, int], list[_Place]] = {}  # op and number of inputs, which tells how long its lists are


def _places(op: Operation) -> list[_Place]:
    """Which input may have which ranks, and what it is called."""
    ranks, found, at = RANKS[op.type], [], 0
    for arg in op.spec.inputs:
        if arg.is_list:
            count = op.attrs[arg.number_attr] if arg.number_attr else len(op.attrs[arg.type_attr or ""])
        else:
            count = 1
        if arg.name in ranks:
            found += [(i, *ranks[arg.name], arg.name) for i in range(at, at + count)]
        at += count
    return _PLACES.setdefault((op.type, len(op.inputs)), found)


def _said(low: int, high: int) -> str:
    if high == _MANY:
        return f"of rank {low} or more"
    if low == high:
        return ("a scalar", "a vector", "a matrix")[low] if low < 3 else f"of rank {low}"
    return f"of rank {low} to {high}"
