"""Which types an op's type attributes may have (source: the ops' definitions, tensorflow/core/ops/*.cc).

LRN, 3-D pools and fused batch norms take float64 here too, in which their gradients are checked.
"""

from __future__ import annotations

from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.dtypes import DType

QUANTIZED = "qint8 quint8 qint16 quint16 qint32"
FLOATS, COMPLEX = "bfloat16 float16 float32 float64", "complex64 complex128"
SIGNED, UNSIGNED = "int8 int16 int32 int64", "uint8 uint16 uint32 uint64"

ALLOWED: dict[str, dict[str, frozenset[DType]]] = {}


def _only(types: str, places: str) -> None:
    """places: `Op.attribute`, which may be one of these types."""
    found = frozenset(dtypes.as_dtype(name) for name in types.split())
    for place in places.split():
        op, _, attribute = place.partition(".")
        ALLOWED.setdefault(op, {})[attribute] = found


_only(
    "int32 int64",
    "All.Tidx Any.Tidx ArgMin.Tidx ArgMin.output_type BatchToSpace.Tidx BatchToSpaceND.Tblock_shape "
    "BatchToSpaceND.Tcrops BroadcastArgs.T BroadcastGradientArgs.T BroadcastTo.Tidx ConcatOffset.shape_type "
    "ConcatV2.Tidx ConjugateTranspose.Tperm Conv3DBackpropInputV2.Tshape CountUpTo.T Cumprod.Tidx Cumsum.Tidx "
    "CumulativeLogsumexp.Tidx DenseBincount.Tidx EmptyTensorList.shape_type EuclideanNorm.Tidx ExpandDims.Tdim "
    "Fill.index_type Gather.Tindices GatherV2.Taxis HistogramFixedWidth.dtype InTopK.T InTopKV2.T "
    "InvertPermutation.T LinSpace.Tidx ListDiff.out_idx LowerBound.out_type MatrixBandPart.Tindex Max.Tidx "
    "MaxPoolGradGradWithArgmax.Targmax MaxPoolGradWithArgmax.Targmax MaxPoolWithArgmax.Targmax Mean.Tidx Min.Tidx "
    "MirrorPad.Tpaddings MirrorPadGrad.Tpaddings Multinomial.output_dtype Pad.Tpaddings PadV2.Tpaddings "
    "ParseExampleV2.ragged_split_types ParseSequenceExampleV2.context_ragged_split_types "
    "ParseSequenceExampleV2.feature_list_ragged_split_types "
    "Prod.Tidx RandomGamma.S RandomPoissonV2.S RandomStandardNormal.T "
    "RandomUniform.T RandomUniformInt.Tout RandomUniformInt.T Reshape.Tshape ReverseSequence.Tlen ReverseV2.Tidx "
    "Roll.Tshift Roll.Taxis ScatterAdd.Tindices ScatterDiv.Tindices ScatterMax.Tindices ScatterMin.Tindices "
    "ScatterMul.Tindices ScatterNdAdd.Tindices ScatterNdMax.Tindices ScatterNdMin.Tindices ScatterNdSub.Tindices "
    "ScatterNdUpdate.Tindices ScatterSub.Tindices ScatterUpdate.Tindices SegmentMax.Tindices SegmentMean.Tindices "
    "SegmentMin.Tindices SegmentProd.Tindices SegmentSum.Tindices "
    "Shape.out_type ShapeN.out_type Size.out_type Slice.Index SpaceToBatch.Tpaddings "
    "SpaceToBatchND.Tblock_shape SpaceToBatchND.Tpaddings SparseApplyAdadelta.Tindices "
    "SparseApplyAdagrad.Tindices SparseApplyAdagradDA.Tindices SparseApplyCenteredRMSProp.Tindices "
    "SparseApplyFtrl.Tindices SparseApplyFtrlV2.Tindices SparseApplyMomentum.Tindices "
    "SparseApplyProximalAdagrad.Tindices SparseApplyProximalGradientDescent.Tindices SparseApplyRMSProp.Tindices "
    "SparseSegmentMean.Tidx SparseSegmentMean.Tsegmentids SparseSegmentMeanGrad.Tidx "
    "SparseSegmentMeanGrad.Tsegmentids SparseSegmentMeanWithNumSegments.Tidx "
    "SparseSegmentMeanWithNumSegments.Tnumsegments SparseSegmentMeanWithNumSegments.Tsegmentids "
    "SparseSegmentSqrtN.Tidx SparseSegmentSqrtN.Tsegmentids SparseSegmentSqrtNGrad.Tidx "
    "SparseSegmentSqrtNGrad.Tsegmentids SparseSegmentSqrtNWithNumSegments.Tidx "
    "SparseSegmentSqrtNWithNumSegments.Tnumsegments SparseSegmentSqrtNWithNumSegments.Tsegmentids "
    "SparseSegmentSum.Tidx SparseSegmentSum.Tsegmentids SparseSegmentSumGrad.Tidx "
    "SparseSegmentSumGrad.Tsegmentids SparseSegmentSumWithNumSegments.Tidx "
    "SparseSegmentSumWithNumSegments.Tnumsegments SparseSegmentSumWithNumSegments.Tsegmentids "
    "SparseSoftmaxCrossEntropyWithLogits.Tlabels SparseTensorDenseAdd.Tindices SparseTensorDenseMatMul.Tindices "
    "SparseToDense.Tindices StridedSliceGrad.Index Substr.T Sum.Tidx TensorListConcatV2.shape_type "
    "TensorListElementShape.shape_type TensorListFromTensor.shape_type TensorListGetItem.Tshape "
    "TensorListReserve.shape_type TensorListScatterV2.shape_type TensorListSplit.shape_type "
    "TensorScatterAdd.Tindices TensorScatterMax.Tindices TensorScatterMin.Tindices TensorScatterSub.Tindices "
    "Tile.Tmultiples Transpose.Tperm TruncatedNormal.T Unique.out_idx UniqueWithCounts.out_idx UnravelIndex.Tidx "
    "UnsortedSegmentMax.Tindices UnsortedSegmentMax.Tnumsegments UnsortedSegmentMin.Tindices "
    "UnsortedSegmentMin.Tnumsegments UnsortedSegmentProd.Tindices UnsortedSegmentProd.Tnumsegments "
    "UnsortedSegmentSum.Tnumsegments UpperBound.out_type",
)
_only(
    f"{FLOATS} {COMPLEX} {SIGNED} {UNSIGNED}",
    "AccumulatorApplyGradient.dtype AccumulatorTakeGradient.dtype AddV2.T ApplyAdadelta.T ApplyAdagrad.T "
    "ApplyAdagradDA.T ApplyAdam.T ApplyCenteredRMSProp.T ApplyFtrl.T ApplyFtrlV2.T ApplyGradientDescent.T "
    "ApplyMomentum.T ApplyProximalAdagrad.T ApplyProximalGradientDescent.T ApplyRMSProp.T AssignAdd.T AssignSub.T "
    "BiasAdd.T BiasAddGrad.T ClipByValue.T ConditionalAccumulator.dtype Cumprod.T Cumsum.T "
    "Div.T EuclideanNorm.T FloorDiv.T Mean.T Mul.T Prod.T RealDiv.T ResourceAccumulatorApplyGradient.dtype "
    "ResourceAccumulatorTakeGradient.dtype ResourceConditionalAccumulator.dtype ScatterAdd.T ScatterDiv.T "
    "ScatterMul.T ScatterNdAdd.T ScatterNdMax.T ScatterNdMin.T ScatterNdSub.T ScatterSub.T SegmentMean.T SegmentProd.T "
    "SegmentSum.T SparseAccumulatorApplyGradient.dtype SparseAccumulatorTakeGradient.dtype SparseAdd.T SparseAddGrad.T "
    "SparseApplyAdadelta.T SparseApplyAdagrad.T SparseApplyAdagradDA.T SparseApplyCenteredRMSProp.T "
    "SparseApplyFtrl.T SparseApplyFtrlV2.T SparseApplyMomentum.T SparseApplyProximalAdagrad.T "
    "SparseApplyProximalGradientDescent.T SparseApplyRMSProp.T SparseConditionalAccumulator.dtype "
    "SparseDenseCwiseAdd.T SparseDenseCwiseDiv.T SparseDenseCwiseMul.T SparseReduceSum.T SparseReduceSumSparse.T "
    "SparseSliceGrad.T SparseSparseMinimum.T SparseTensorDenseAdd.T Square.T Sub.T Sum.T TruncateDiv.T "
    "UnsortedSegmentProd.T UnsortedSegmentSum.T",
)
_only(
    FLOATS,
    "Atan2.T AvgPool.T AvgPool3D.T AvgPool3DGrad.T AvgPoolGrad.T Ceil.T CheckNumerics.T Conv2DBackpropFilter.T "
    "Conv3D.T Conv3DBackpropFilterV2.T Conv3DBackpropInputV2.T CumulativeLogsumexp.T DepthwiseConv2dNative.T "
    "DepthwiseConv2dNativeBackpropFilter.T DepthwiseConv2dNativeBackpropInput.T Digamma.T Elu.T EluGrad.T Erf.T "
    "Erfc.T Erfinv.T Floor.T FusedBatchNormGradV2.T FusedBatchNormGradV3.T FusedBatchNormV2.T FusedBatchNormV3.T "
    "HSVToRGB.T Igamma.T Igammac.T IsFinite.T IsInf.T IsNan.T L2Loss.T LRN.T LRNGrad.T LeakyRelu.T "
    "LeakyReluGrad.T Lgamma.T LinSpace.T LogSoftmax.T MaxPool3D.T MaxPool3DGrad.T MaxPool3DGrad.TInput Ndtri.T "
    "QuantizeAndDequantizeV2.T QuantizeAndDequantizeV4.T QuantizeAndDequantizeV4Grad.T RGBToHSV.T "
    "RandomStandardNormal.dtype RandomUniform.dtype ResizeBilinearGrad.T Rint.T Selu.T SeluGrad.T Softmax.T "
    "SoftmaxCrossEntropyWithLogits.T Softplus.T SoftplusGrad.T Softsign.T SoftsignGrad.T SparseSegmentMean.T "
    "SparseSegmentMeanGrad.T SparseSegmentMeanWithNumSegments.T SparseSegmentSqrtN.T SparseSegmentSqrtNGrad.T "
    "SparseSegmentSqrtNWithNumSegments.T SparseSegmentSumGrad.T SparseSoftmaxCrossEntropyWithLogits.T "
    "TruncatedNormal.dtype",
)
_only(
    f"{FLOATS} {SIGNED} {UNSIGNED}",
    "Cross.T Dilation2D.T Dilation2DBackpropFilter.T Dilation2DBackpropInput.T ExtractVolumePatches.T FloorMod.T "
    "Greater.T GreaterEqual.T HistogramSummary.T Less.T LessEqual.T Max.T MaxPool3DGradGrad.T MaxPoolGrad.T "
    "MaxPoolGradGrad.T MaxPoolGradGradV2.T MaxPoolGradGradWithArgmax.T MaxPoolGradV2.T MaxPoolGradWithArgmax.T "
    "MaxPoolWithArgmax.T Maximum.T Min.T Minimum.T Multinomial.T NthElement.T Relu.T Relu6.T Relu6Grad.T "
    "ReluGrad.T ScalarSummary.T SegmentMax.T SegmentMin.T SparseAdd.Treal SparseReduceMax.T "
    "SparseReduceMaxSparse.T SparseSegmentSum.T SparseSegmentSumWithNumSegments.T SparseSparseMaximum.T TopKV2.T "
    "UnsortedSegmentMax.T UnsortedSegmentMin.T",
)
_only(
    f"{FLOATS} {COMPLEX}",
    "Acos.T Acosh.T Asin.T Asinh.T Atan.T Atanh.T Cos.T Cosh.T DivNoNan.T Exp.T Expm1.T Log.T Log1p.T "
    "MatrixTriangularSolve.T MulNoNan.T ReciprocalGrad.T Rsqrt.T RsqrtGrad.T Sigmoid.T SigmoidGrad.T Sin.T Sinh.T "
    "Sqrt.T SqrtGrad.T Tan.T Tanh.T TanhGrad.T Xdivy.T Xlog1py.T Xlogy.T",
)
_only(
    "float32 float64",
    "Angle.Tout Betainc.T CTCBeamSearchDecoder.T CTCGreedyDecoder.T CTCLoss.T Complex.T ComplexAbs.Tout "
    "FusedBatchNorm.T FusedBatchNormGrad.T FusedBatchNormGradV2.U FusedBatchNormGradV3.U FusedBatchNormV2.U "
    "IRFFT.Treal IRFFT2D.Treal IRFFT3D.Treal IgammaGradA.T Imag.Tout Polygamma.T RFFT.Treal RFFT2D.Treal "
    "RFFT3D.Treal RandomGammaGrad.T Real.Tout ResizeBicubicGrad.T Zeta.T",
)
_only(
    COMPLEX,
    "Angle.T Complex.Tout ComplexAbs.T FFT.Tcomplex FFT2D.Tcomplex FFT3D.Tcomplex IFFT.Tcomplex IFFT2D.Tcomplex "
    "IFFT3D.Tcomplex IRFFT.Tcomplex IRFFT2D.Tcomplex IRFFT3D.Tcomplex Imag.T RFFT.Tcomplex RFFT2D.Tcomplex "
    "RFFT3D.Tcomplex Real.T",
)
_only(
    "float16 float32",
    "AdjustContrastv2.T AdjustHue.T AdjustSaturation.T DrawBoundingBoxes.T DrawBoundingBoxesV2.T "
    "NonMaxSuppressionV2.T NonMaxSuppressionV2.T_threshold NonMaxSuppressionV3.T NonMaxSuppressionV3.T_threshold "
    "NonMaxSuppressionV4.T NonMaxSuppressionV4.T_threshold NonMaxSuppressionV5.T",
)
_only(
    "float32 int64 string",
    "ParseExample.sparse_types ParseExample.Tdense ParseExampleV2.Tdense ParseExampleV2.sparse_types "
    "ParseExampleV2.ragged_value_types ParseSequenceExampleV2.context_ragged_value_types "
    "ParseSequenceExampleV2.Tcontext_dense ParseSequenceExampleV2.context_sparse_types "
    "ParseSequenceExampleV2.feature_list_dense_types ParseSequenceExampleV2.feature_list_sparse_types "
    "ParseSequenceExampleV2.feature_list_ragged_value_types ParseSingleExample.sparse_types ParseSingleExample.Tdense "
    "ParseSingleSequenceExample.context_sparse_types ParseSingleSequenceExample.Tcontext_dense "
    "ParseSingleSequenceExample.feature_list_dense_types ParseSingleSequenceExample.feature_list_sparse_types",
)
_only(
    f"{COMPLEX} float16 float32 float64",
    "Cholesky.T LogMatrixDeterminant.T MatrixDeterminant.T MatrixInverse.T MatrixSolve.T MatrixSolveLs.T Qr.T "
    "SelfAdjointEigV2.T Svd.T",
)
_only(
    "int16 int32 int64",
    "ArgMax.Tidx GatherNd.Tindices GatherV2.Tindices ScatterNd.Tindices StridedSlice.Index TopKV2.Tk "
    "TopKV2.index_type UnsortedSegmentSum.Tindices",
)
_only(
    f"{SIGNED} {UNSIGNED}",
    "BitwiseAnd.T BitwiseOr.T BitwiseXor.T Invert.T LeftShift.T PopulationCount.T RightShift.T",
)
_only(
    "float32 float64 int32 int64",
    "Bucketize.T DenseBincount.T FractionalAvgPool.T FractionalAvgPoolGrad.T FractionalMaxPool.T "
    "FractionalMaxPoolGrad.T HistogramFixedWidth.T",
)
_only(
    f"{FLOATS} int32 int64",
    "CollectiveReduce.T CollectiveReduceScatterV2.T CollectiveReduceV2.T ScatterMax.T ScatterMin.T TruncateMod.T",
)
_only(
    f"{FLOATS} {SIGNED} uint8 uint16",
    "MaxPool.T MaxPoolV2.T ResizeArea.T ResizeBicubic.T ResizeBilinear.T ResizeNearestNeighbor.T",
)
_only(
    "int64 string",
    "SparseCross.sparse_types SparseCross.dense_types SparseCross.out_type SparseCross.internal_type "
    "SparseCrossV2.sparse_types SparseCrossV2.dense_types",
)
_only(f"{FLOATS} {COMPLEX} {SIGNED}", "Neg.T Pow.T Reciprocal.T Round.T Sign.T")
_only(
    "float16 float32 float64 int32 int64",
    "CollectiveGather.T CollectiveGatherV2.T RandomPoissonV2.R RandomPoissonV2.dtype",
)
_only(
    f"{SIGNED} uint8 uint16 string",
    "DenseToDenseSetOperation.T DenseToSparseSetOperation.T SetSize.T SparseToSparseSetOperation.T",
)
_only("float16 float32 float64", "CropAndResizeGradImage.T RandomGamma.T SparseSoftmax.T")
_only(f"{FLOATS} {COMPLEX} int32 int64", "Diag.T DiagPart.T SquaredDifference.T")
_only(f"{FLOATS} {COMPLEX} {SIGNED} {UNSIGNED} bool", "ExtractImagePatches.T OnesLike.T Where.T")
_only(f"{FLOATS} {SIGNED} {UNSIGNED} bool", "ArgMax.T ArgMin.T")
_only("int16 int32 int64 uint16", "ArgMax.output_type TensorScatterUpdate.Tindices")
_only("float16 float32 float64 int32 int64 bool", "CollectiveBcastRecv.T CollectiveBcastSend.T")
_only(f"{FLOATS} int32", "Conv2D.T Conv2DBackpropInput.T")
_only(f"{SIGNED} float16 float32 float64 uint8 uint16", "CropAndResize.T CropAndResizeGradBoxes.T")
_only("uint8 uint16", "DecodePng.dtype EncodePng.T")
_only(f"{FLOATS} {SIGNED}", "Abs.T")
_only(f"{FLOATS} {COMPLEX} {SIGNED} uint8 string", "Add.T")
_only(f"{FLOATS} {COMPLEX} {SIGNED} {UNSIGNED} variant", "AddN.T")
_only(f"{FLOATS} {COMPLEX} {UNSIGNED} int16 int32 int64", "BatchMatMulV2.T")
_only(f"{COMPLEX} variant", "Conj.T")
_only("float32 float64 int32 int64 string", "DecodeCSV.OUT_TYPE")
_only(f"{FLOATS} {COMPLEX} {SIGNED} uint8 uint16 bool", "DecodeRaw.out_type")
_only("bfloat16 float32 float64", "FusedBatchNormV3.U")
_only("bfloat16 float32", "SparseMatMul.Ta SparseMatMul.Tb")
_only("float16 float32 float64 uint8", "ImageSummary.T")
_only(f"{FLOATS} {COMPLEX} {UNSIGNED} int32 int64", "MatMul.T")
_only("int8 int32 int64 uint8", "OneHot.TI")
_only(f"{FLOATS} {SIGNED} uint16 uint32 uint64", "Range.Tidx")
_only(f"{FLOATS} int8 int32 uint8", "ResizeNearestNeighborGrad.T")
_only(f"{FLOATS} {COMPLEX} {SIGNED} {UNSIGNED} bool string", "ReverseV2.T")
_only(f"{SIGNED} uint8", "SampleDistortedBoundingBoxV2.T")
_only("int8 int32 int64", "SplitV.Tlen")
_only("float32 float64 int32 int64 uint32 uint64", "StringToNumber.out_type")
_only(f"{FLOATS} {COMPLEX} {SIGNED} {UNSIGNED} {QUANTIZED}", "Bitcast.T Bitcast.type")
_only(
    QUANTIZED,
    "Dequantize.T QuantizeV2.T QuantizedRelu.Tinput QuantizedRelu.out_type QuantizedRelu6.Tinput "
    "QuantizedRelu6.out_type QuantizedReluX.Tinput QuantizedReluX.out_type",
)
_only("bfloat16 float32", "Dequantize.dtype")
