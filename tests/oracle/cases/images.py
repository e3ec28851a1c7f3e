"""Images, boxes, candidates that are no chance, lines of text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sparkflow_runtime.wire.attrs import Shape
from sparkflow_runtime.wire.dtypes import as_dtype
from tests.oracle.cases.table import cases
from tests.oracle.cases.values import i64, s32, strings
from tests.oracle.compare import Tolerance

_CLOSE = Tolerance(64, floor=1.0)


def _image(dtype: str, *shape: int) -> np.ndarray:
    return np.random.default_rng(3).random(shape).astype(dtype)


def _colours(*more: float) -> Any:
    def make(dtype: str) -> Iterator[Any]:
        extra = [np.array(v, np.float32) for v in more]
        yield "batch", [_image(dtype, 2, 4, 5, 3), *extra]
        yield "one", [_image(dtype, 4, 5, 3), *extra]
        yield "grey", [np.full((2, 2, 3), 0.5, dtype), *extra]
        yield "beyond", [3 * _image(dtype, 4, 5, 3) - 2, *extra]  # as after a change of brightness

    return make


cases("RGBToHSV", ("float32", "float64"), _colours(), _CLOSE)
cases("HSVToRGB", ("float32", "float64"), _colours(), _CLOSE)
cases("AdjustHue", ("float32",), _colours(0.3), _CLOSE)
cases("AdjustSaturation", ("float32",), _colours(1.7), _CLOSE)
cases("AdjustContrastv2", ("float32",), lambda d: list(_colours(1.7)(d))[:3], _CLOSE)


def _boxes(dtype: str) -> Iterator[Any]:
    rng = np.random.default_rng(1)
    corners = rng.random((12, 2)).astype(np.float32)
    boxes = np.concatenate([corners, corners + rng.random((12, 2)).astype(np.float32)], 1)
    scores = rng.random(12).astype(np.float32)
    for most in (0, 3, 12):
        for overlap in (0.0, 0.3, 1.0):
            limits = [np.array(overlap, np.float32), np.array(0.2, np.float32)]
            yield f"{most}-{overlap}", [boxes, scores, s32(most), *limits]
    yield "empty", [boxes[:0], scores[:0], s32(3), np.array(0.5, np.float32), np.array(0.0, np.float32)]


def _frames(dtype: str) -> Iterator[Any]:
    boxes = np.array([[[0.1, 0.1, 0.6, 0.7], [0.3, 0.2, 1.2, 0.9]], [[0, 0, 1, 1], [0.9, 0.5, 0.2, 0.6]]], np.float32)
    for depth in (1, 3, 4):
        yield f"depth{depth}", [_image(dtype, 2, 12, 10, depth), boxes]


cases("NonMaxSuppressionV3", ("float32",), _boxes)
cases("DrawBoundingBoxes", ("float32",), _frames)

# ---------------------------------------------------------------------- candidates

_TRUE = i64([3, 5], [5, 0], [0, 2])
cases(
    "AllCandidateSampler",
    ("int64",),
    lambda d: [("all", [_TRUE], {"num_true": 2, "num_sampled": 6, "unique": True})],
)
cases("ComputeAccidentalHits", ("int64",), lambda d: [("some", [_TRUE, i64(5, 1, 3, 2)], {"num_true": 2})])

# ---------------------------------------------------------------------- text


def _lines(dtype: str) -> Iterator[Any]:
    defaults = [np.array([0], np.int32), strings("none"), np.zeros(0, np.float32)]
    for label, lines in (
        ("plain", strings("1,a,2.5", "-3,b,1e3")), ("empty", strings(",,1")), ("quoted", strings('1,"a,""b""",2')),
        ("few", strings("1,a")), ("missing", strings("1,a,")), ("wrong", strings("x,a,1")),
        ("scalar", np.array(b"1,a,2", object)), ("quote inside", strings('1,a"b,2')), ("line ends", strings("1,a,2\r")),
        ("line begins", strings("\r\n1,a,\r2")), ("after quotes", strings('1,"a"b,2')),
        ("open quotes", strings('1,"a,2')),
    ):  # fmt: skip
        yield label, [lines, list(defaults)]
    yield "tabs", [strings("1\ta\t2"), list(defaults)], {"field_delim": "\t"}
    yield "na", [strings("NA,NA,2"), list(defaults)], {"na_value": "NA"}


cases("DecodeCSV", ("string",), _lines)


def _example() -> bytes:
    from sparkflow_runtime.wire import example_proto as p

    feature = {
        "a": p.Feature(float_list=p.FloatList(value=[1.5, 2.5])),
        "n": p.Feature(int64_list=p.Int64List(value=[7])),
        "s": p.Feature(bytes_list=p.BytesList(value=[b"x", b"yz"])),
    }
    return p.Example(features=p.Features(feature=feature)).SerializeToString()


def _examples(dtype: str) -> Iterator[Any]:
    attrs = {
        "num_sparse": 1, "sparse_keys": ["s"], "sparse_types": [as_dtype("string")], "dense_keys": ["a", "m", "n"],
        "dense_shapes": [Shape((2,)), Shape(()), Shape(())],
    }  # fmt: skip
    defaults = [np.zeros(0, np.float32), np.array(-1, np.int64), np.zeros(0, np.int64)]
    for label, text in (("good", _example()), ("empty", b"")):
        yield label, [np.array(text, object), defaults], attrs


cases("ParseSingleExample", ("string",), _examples)
