"""CTC's loss, its decoders, and edit distances."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.oracle.cases.table import cases
from tests.oracle.cases.values import WIDE, i32, i64, noise, strings
from tests.oracle.compare import Tolerance

_SUMS = Tolerance(512, scaled=True)  # logarithms of sums, step by step


_IGNORE = {"ignore_longer_outputs_than_inputs": True}


def _sparse(*rows: list[int]) -> list[np.ndarray]:
    indices = [(i, j) for i, row in enumerate(rows) for j in range(len(row))]
    return [np.array(indices, np.int64).reshape(-1, 2), np.array([v for row in rows for v in row], np.int32)]


def _losses(dtype: str) -> Iterator[Any]:
    x = noise(dtype, 7, 3, 5) * 2
    loose = {"tolerance": Tolerance(2e9, scaled=True)} if dtype == "float64" else {}  # TensorFlow's sums are float32
    rows = _sparse([1, 2, 2], [0], [3, 1, 0, 2])
    yield "some", [x, *rows, i32(7, 4, 7)], {}, {"grad": True, **loose}
    yield "unmerged", [x, *rows, i32(7, 4, 7)], {"ctc_merge_repeated": False}, {"grad": True, **loose}
    yield "collapsed", [x, *rows, i32(7, 4, 7)], {"preprocess_collapse_repeated": True}, {"grad": True, **loose}
    yield "no-labels", [x, *_sparse([1], [], [2]), i32(7, 7, 3)]
    yield "no-time", [x, *_sparse([1], [3], [2]), i32(7, 0, 3)]
    yield "blank-behind", [x, *_sparse([1, 4], [2], [0, 4, 4]), i32(7, 4, 7)], {}, loose
    yield "blank-alone", [x, *_sparse([1, 4], [2], [4]), i32(7, 4, 7)], {}, loose
    yield "blank-before", [x, *_sparse([4, 1], [2], [3]), i32(7, 4, 7)]
    yield "negative", [x, *_sparse([-1, 1], [2], [3]), i32(7, 4, 7)]
    yield "too-long", [x, *rows, i32(7, 4, 3)]
    yield "too-long-ignored", [x, *rows, i32(7, 4, 3)], _IGNORE, loose
    yield "just-repeats", [x, *_sparse([1, 1], [2], [3]), i32(2, 4, 7)], _IGNORE, loose
    yield "length-beyond", [x, *rows, i32(8, 4, 7)]
    yield "lengths-few", [x, *rows, i32(7, 4)]
    yield "matrix", [x[0], *rows, i32(7, 4, 7)]


def _decoded(dtype: str) -> Iterator[Any]:
    x = noise(dtype, 8, 3, 4) * 2
    for merge in (False, True):
        yield f"merge-{merge}", [x, i32(8, 5, 0)], {"merge_repeated": merge}
    yield "blank-first", [x, i32(8, 5, 3)], {"blank_index": 0}
    yield "blank-outside", [x, i32(8, 5, 3)], {"blank_index": 4}


def _searched(dtype: str) -> Iterator[Any]:
    x = noise(dtype, 8, 3, 4) * 2
    loose = {"tolerance": Tolerance(2e9)} if dtype == "float64" else {}
    for width, paths in ((1, 1), (3, 2), (40, 5)):
        for merge in (False, True):
            attrs = {"beam_width": width, "top_paths": paths, "merge_repeated": merge}
            yield f"{width}-{paths}-{merge}", [x, i32(8, 5, 3)], attrs, loose
    for width in (2, 4, 6):  # so narrow that prefixes are pushed out before their turn
        attrs = {"beam_width": width, "top_paths": 2, "merge_repeated": False}
        yield f"narrow-{width}", [noise(dtype, 14, 24, 5) * 1.5, i32(*[14] * 24)], attrs, loose
    yield "more-paths", [x, i32(8, 5, 3)], {"beam_width": 2, "top_paths": 3}
    yield "few-paths", [x, i32(8, 5, 0)], {"beam_width": 4, "top_paths": 3}


def _pairs(dtype: str) -> Iterator[Any]:
    def parts(where: list[Any], what: list[Any], shape: list[int]) -> list[np.ndarray]:
        values = strings(*map(str, what)) if dtype == "string" else np.array(what, dtype)
        return [np.array(where, np.int64).reshape(-1, len(shape)), values, i64(*shape)]

    one = parts([[0, 0, 0], [0, 0, 1], [1, 0, 0], [1, 1, 0], [1, 1, 1]], [1, 2, 1, 3, 3], [2, 2, 2])
    other = parts([[0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 0, 1], [1, 1, 1]], [2, 1, 3, 1, 3], [2, 2, 2])
    for normalize in (True, False):
        yield f"some-{normalize}", [*one, *other], {"normalize": normalize}
    yield "wider", [*one, *parts([[2, 0, 3]], [1], [3, 1, 4])]
    yield "empty", [*parts([], [], [2, 3]), *parts([], [], [2, 3])]
    yield "ranks", [*one, *parts([[0]], [1], [1])]


cases("CTCLoss", WIDE, _losses, _SUMS)
cases("CTCGreedyDecoder", WIDE, _decoded, Tolerance(16))
cases("CTCBeamSearchDecoder", WIDE, _searched, Tolerance(512))
cases("EditDistance", ("int64", "string", "float32"), _pairs)
