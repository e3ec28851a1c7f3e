"""Element types: TensorFlow's enum and names on one side, numpy's dtypes on the other."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np
from tensorboard.compat.proto import types_pb2

_REF = 100  # types_pb2 numbers a reference dtype 100 above its base


class DType:
    """An element type; `is_ref` marks an edge that carries the variable itself and not its value.

    Compares equal to its name, its numpy dtype and its enum number, as TensorFlow's does. There is one of each:
    `DType(enum)` gives it.
    """

    __slots__ = ("_hash", "as_datatype_enum", "as_numpy_dtype", "base_dtype", "name", "np")

    name: str
    as_datatype_enum: int
    as_numpy_dtype: Any
    np: np.dtype[Any]
    base_dtype: DType
    _hash: int

    def __new__(cls, type_enum: int, name: str = "", np_type: Any = None, base: DType | None = None) -> DType:
        if not name:
            return as_dtype(type_enum)
        made = super().__new__(cls)
        made.name, made.as_datatype_enum, made.as_numpy_dtype = name, type_enum, np_type
        made.np = np.dtype(np_type)
        made.base_dtype = base or made
        made._hash = type_enum
        return made

    @property
    def is_ref(self) -> bool:
        return self.as_datatype_enum > _REF

    @property
    def is_floating(self) -> bool:
        return self.base_dtype.name in ("float16", "bfloat16", "float32", "float64")

    @property
    def is_complex(self) -> bool:
        return self.np.kind == "c"

    @property
    def is_integer(self) -> bool:
        return self.np.kind in "iu" and not self.is_quantized

    @property
    def is_unsigned(self) -> bool:
        return self.np.kind == "u" and not self.is_quantized

    @property
    def is_bool(self) -> bool:
        return self.np.kind == "b"

    @property
    def real_dtype(self) -> DType:
        real = {"complex64": "float32", "complex128": "float64"}.get(self.base_dtype.name)
        return ALL[real] if real else self.base_dtype

    @property
    def size(self) -> int:
        return self.np.itemsize

    @property
    def min(self) -> Any:
        """Raises TypeError on a type whose numbers say little without their range."""
        return False if self.is_bool else _info(self).min

    @property
    def max(self) -> Any:
        return True if self.is_bool else _info(self).max

    @property
    def limits(self) -> tuple[Any, Any]:
        """The least and the largest value of an image of this type: of whole numbers, from 0 on; of others, 0 and 1."""
        return (0, self.max) if self.is_integer else (0, 1)

    @property
    def is_quantized(self) -> bool:
        return self.base_dtype.name in ("qint8", "quint8", "qint16", "quint16", "qint32")

    @property
    def is_numpy_compatible(self) -> bool:
        return self.base_dtype.name not in ("resource", "variant")

    def is_compatible_with(self, other: Any) -> bool:
        return self.base_dtype is as_dtype(other).base_dtype

    def __eq__(self, other: object) -> bool:
        if other is self:
            return True
        if other is None:
            return False
        try:
            return as_dtype(other) is self
        except TypeError:
            return False

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return f"<dtype: {self.name!r}>"

    def __repr__(self) -> str:
        return f"tf.{self.name}"

    def __int__(self) -> int:
        return self.as_datatype_enum

    def __reduce__(self) -> tuple[Any, ...]:
        return as_dtype, (self.as_datatype_enum,)


@lru_cache(64)
def _info(dtype: DType) -> Any:
    if dtype.is_quantized:
        raise TypeError(f"{dtype} has no least and largest value: those of its tensors are given beside each of them")
    return np.iinfo(dtype.np) if dtype.is_integer else ml_dtypes.finfo(dtype.np)


_ROWS = {
    "half": ("float16", np.float16),
    "bfloat16": ("bfloat16", ml_dtypes.bfloat16),
    "float": ("float32", np.float32),
    "double": ("float64", np.float64),
    "int8": ("int8", np.int8),
    "int16": ("int16", np.int16),
    "int32": ("int32", np.int32),
    "int64": ("int64", np.int64),
    "uint8": ("uint8", np.uint8),
    "uint16": ("uint16", np.uint16),
    "uint32": ("uint32", np.uint32),
    "uint64": ("uint64", np.uint64),
    "complex64": ("complex64", np.complex64),
    "complex128": ("complex128", np.complex128),
    "bool": ("bool", np.bool_),
    "string": ("string", object),
    "resource": ("resource", object),  # a handle: the queue itself, which never leaves its task
    "variant": ("variant", object),  # a list of tensors (kernels/tensor_lists.py)
    # numbers that stand for floats (kernels/quantized.py): an array of them is one of plain integers
    "qint8": ("qint8", np.int8),
    "quint8": ("quint8", np.uint8),
    "qint16": ("qint16", np.int16),
    "quint16": ("quint16", np.uint16),
    "qint32": ("qint32", np.int32),
}

_BY_KEY: dict[Any, DType] = {}


def _declare(label: str, name: str, np_type: Any) -> DType:
    enum = types_pb2.DataType.Value("DT_" + label.upper())
    dtype = DType(enum, name, np_type)
    ref = DType(enum + _REF, name + "_ref", np_type, dtype)
    for key in (name, enum, dtype.np, np_type, label):
        _BY_KEY.setdefault(key, dtype)
    _BY_KEY[ref.name] = _BY_KEY[ref.as_datatype_enum] = ref
    return dtype


ALL: dict[str, DType] = {name: _declare(label, name, np_type) for label, (name, np_type) in _ROWS.items()}
float16, bfloat16, float32, float64 = (ALL[n] for n in ("float16", "bfloat16", "float32", "float64"))
int8, int16, int32, int64 = (ALL[n] for n in ("int8", "int16", "int32", "int64"))
uint8, uint16, uint32, uint64 = (ALL[n] for n in ("uint8", "uint16", "uint32", "uint64"))
complex64, complex128, bool_, string = (ALL[n] for n in ("complex64", "complex128", "bool", "string"))
resource, variant = ALL["resource"], ALL["variant"]
qint8, quint8, qint16, quint16, qint32 = (ALL[n] for n in ("qint8", "quint8", "qint16", "quint16", "qint32"))
half, double = float16, float64
_BY_KEY.update({float: float32, int: int32, bool: bool_, str: string, bytes: string, complex: complex128})


def as_dtype(type_value: Any) -> DType:
    """The DType of an enum number, a name, a numpy dtype, a Python type or a DType. Raises TypeError on anything
    else."""
    if isinstance(type_value, DType):
        return type_value
    try:
        found = _BY_KEY.get(type_value)
        if found is not None:
            return found
        if type_value is None or isinstance(type_value, str):  # numpy's default, float64; its "a", which is a string
            raise TypeError
        np_type = np.dtype(type_value)
    except TypeError:
        raise TypeError(
            f"Cannot convert {type_value!r} to a DType: it is no name, enum number or numpy dtype of one"
        ) from None
    if np_type.kind in "SUO":
        return string
    if np_type in _BY_KEY:
        return _BY_KEY[np_type]
    raise TypeError(f"Cannot convert {type_value!r} to a DType: it is no name, enum number or numpy dtype of one")


def ref_of(dtype: DType) -> DType:
    return dtype if dtype.is_ref else _BY_KEY[dtype.as_datatype_enum + _REF]
