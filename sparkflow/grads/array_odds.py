"""Gradients of small ops of arrays, of Bessel's functions and of neighbouring floats."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.graph import Operation, Tensor
from sparkflow.grads.broadcast import unbroadcast
from sparkflow.grads.registry import gradient, not_differentiable
from sparkflow.ops import array, array_join, math, operators  # noqa: F401 - x + y on tensors
from sparkflow.ops.array_select import where
from sparkflow.ops.math_bessel import bessel_i0, bessel_i0e, bessel_i1, bessel_i1e

gradient("GuaranteeConst")(lambda op, dy: dy)
gradient("ParallelConcat")(lambda op, dy: tuple(array_join.split(dy, len(op.inputs), 0)))
gradient("BesselI0")(lambda op, dy: dy * bessel_i1(op.inputs[0]))
gradient("BesselI0e")(lambda op, dy: dy * (bessel_i1e(op.inputs[0]) - math.sign(op.inputs[0]) * op.outputs[0]))


def _by_x(y: Tensor, x: Tensor) -> Tensor:
    """y / x, and 1/2 where both are 0."""
    zero = math.equal(x, 0.0)
    return where(zero, 0.5 * array.ones_like(x), y / where(zero, array.ones_like(x), x))


@gradient("BesselI1")
def _i1(op: Operation, dy: Tensor) -> Tensor:
    x, y = op.inputs[0], op.outputs[0]
    return dy * (bessel_i0(x) - _by_x(y, x))


@gradient("BesselI1e")
def _i1e(op: Operation, dy: Tensor) -> Tensor:
    x, y = op.inputs[0], op.outputs[0]
    return dy * (bessel_i0e(x) - y * math.sign(x) - _by_x(y, x))


@gradient("NextAfter")
def _next(op: Operation, dy: Tensor) -> Any:
    """The neighbour moves with x1; to which side it lies does not matter."""
    return unbroadcast(op, lambda: dy, lambda: array.zeros_like(dy))


not_differentiable("Timestamp", "SerializeTensor", "ParseTensor", "DecodeCompressed", "UnsortedSegmentJoin")
not_differentiable("DecodeProtoV2", "EncodeProto")
not_differentiable("UnicodeDecode", "UnicodeDecodeWithOffsets", "UnicodeEncode", "DecodeJSONExample")
not_differentiable("SerializeSparse", "SerializeManySparse", "DeserializeManySparse")
not_differentiable("UnicodeTranscode", "Fingerprint")
not_differentiable("GetSessionHandle", "GetSessionTensor", "DeleteSessionTensor")
