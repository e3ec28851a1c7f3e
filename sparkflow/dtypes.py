"""tf.dtypes: the element types, and conversions between them."""

from sparkflow.ops.math import cast, saturate_cast
from sparkflow.ops.math_special import complex
from sparkflow.ops.quantized import QUANTIZED as QUANTIZED_DTYPES
from sparkflow.ops.strings import as_string
from sparkflow_runtime.wire.dtypes import (
    DType,
    as_dtype,
    bfloat16,
    complex64,
    complex128,
    double,
    float16,
    float32,
    float64,
    half,
    int8,
    int16,
    int32,
    int64,
    qint8,
    qint16,
    qint32,
    quint8,
    quint16,
    resource,
    string,
    uint8,
    uint16,
    uint32,
    uint64,
    variant,
)
from sparkflow_runtime.wire.dtypes import bool_ as bool
