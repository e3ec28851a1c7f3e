"""Fields of messages of any type, as tensors and back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sparkflow_runtime.wire.dtypes import as_dtype
from tests.ops.test_messages import NAMES, SOURCE, TYPES, messages
from tests.oracle.cases.table import cases


def _texts(*values: bytes) -> np.ndarray:
    out = np.empty(len(values), object)
    out[:] = values
    return out


def _attrs(names: list[str], types: list[Any], **more: Any) -> dict[str, Any]:
    return {
        "message_type": "tests.Outer", "field_names": names, "output_types": types, "descriptor_source": SOURCE, **more
    }  # fmt: skip


def _decoded(dtype: str) -> Iterator[Any]:
    raw = messages()
    yield "batch", [_texts(*raw)], _attrs(NAMES, TYPES)
    yield "matrix", [_texts(*raw, *raw, raw[0], b"").reshape(3, 2)], _attrs(NAMES, TYPES)
    yield "scalar", [_texts(raw[0]).reshape(())], _attrs(NAMES, TYPES)
    yield (
        "unpacked",
        [_texts(b"\xca\x02\x01\x05\xca\x02\x02\x06\x07\xc8\x02\x08")],
        _attrs(["p_u32"], [as_dtype("uint32")]),
    )
    yield "text", [_texts(b"i32: 4 r_s: 'a' r_s: 'b' inner { v: 1 }")], _attrs(NAMES, TYPES, message_format="text")
    yield "broken", [_texts(raw[0][:-1])], _attrs(NAMES, TYPES)
    yield "no_field", [_texts(raw[0])], _attrs(["no"], [as_dtype("int32")])
    for name, kind in (("f", "float64"), ("u32", "uint64"), ("u32", "int64"), ("i32", "int64"), ("b", "int32")):
        yield f"{name}_{kind}", [_texts(*raw)], _attrs([name], [as_dtype(kind)])


def _encoded(dtype: str) -> Iterator[Any]:
    names, types = ["r_si32", "r_s", "p_f"], [as_dtype("int32"), as_dtype("string"), as_dtype("float32")]
    attrs = {"message_type": "tests.Outer", "field_names": names, "Tinput_types": types, "descriptor_source": SOURCE}
    values = [
        np.array([[-3, 1], [0, 7]], np.int32),
        _texts(b"a", b"", b"c", b"d").reshape(2, 2),
        np.ones((2, 3), np.float32),
    ]
    yield "batch", [np.array([[2, 1, 3], [1, 2, 0]], np.int32), values], attrs
    yield "too_few", [np.array([[2, 3, 3], [1, 2, 0]], np.int32), values], attrs


cases("DecodeProtoV2", ("string",), _decoded)
cases("EncodeProto", ("string",), _encoded)
