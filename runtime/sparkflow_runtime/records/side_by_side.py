"""Columns as rows: what numpy does column by column, each of which fetches every line of the rows again.

Here a few rows are written at a time, which stay in the processor's first cache meanwhile, and of each column as many
items as one of its lines has: columns of a table often begin at the same place of a page, so that this cache holds few
lines of each.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.records import native
from sparkflow_runtime.records.native import byte_at, set_byte, set_uint32, set_word, uint32_at, word_at

_FEW = 256  # rows: for less, numpy is quicker than to find out where columns lie
_TILE = 2048  # rows of some dozen columns, for numpy: what stays in the second cache
_ARGUMENTS = "void(int64[:,::1], int64, int64)"  # of each column its address and its stride; rows; address of the rows


def put_columns(columns: Sequence[np.ndarray], first: int, last: int, rows: np.ndarray) -> None:
    """Copy the items [first, last) of each column to a column of `rows`.

    columns: as many arrays [n] as `rows`, [last - first, columns], has columns.
    """
    loop, dtype = _LOOPS.get(rows.dtype.itemsize), rows.dtype
    plain = loop is not None and not dtype.hasobject and rows.flags.c_contiguous and last - first >= _FEW
    if loop is None or not plain or not all(column.dtype == dtype for column in columns):
        _by_numpy([column[first:last] for column in columns], rows)
        return
    for column in columns:
        if not 0 <= first <= last <= len(column):
            raise IndexError(f"items {first} to {last} of a column of {len(column)}")
    strides = [column.strides[0] for column in columns]
    begins = [column.__array_interface__["data"][0] + first * stride for column, stride in zip(columns, strides)]
    loop(np.array([begins, strides], np.int64).T.copy(), last - first, native.raw(rows))


@compiled([_ARGUMENTS], before=native.teach)
def _bytes(columns: Any, count: int, rows: int) -> None:
    width = columns.shape[0]
    for begin in range(0, count, 64):
        end = min(begin + 64, count)
        for k in range(width):
            source, stride, at = columns[k, 0], columns[k, 1], rows + begin * width + k
            for row in range(begin, end):
                set_byte(at, 0, byte_at(source, row * stride))
                at += width


@compiled([_ARGUMENTS], before=native.teach)
def _words(columns: Any, count: int, rows: int) -> None:
    width = 4 * columns.shape[0]
    for begin in range(0, count, 16):
        end = min(begin + 16, count)
        for k in range(columns.shape[0]):
            source, stride, at = columns[k, 0], columns[k, 1], rows + begin * width + 4 * k
            for row in range(begin, end):
                set_uint32(at, 0, uint32_at(source, row * stride))
                at += width


@compiled([_ARGUMENTS], before=native.teach)
def _double_words(columns: Any, count: int, rows: int) -> None:
    width = 8 * columns.shape[0]
    for begin in range(0, count, 8):
        end = min(begin + 8, count)
        for k in range(columns.shape[0]):
            source, stride, at = columns[k, 0], columns[k, 1], rows + begin * width + 8 * k
            for row in range(begin, end):
                set_word(at, 0, word_at(source + row * stride, 0))
                at += width


def _by_numpy(columns: Sequence[np.ndarray], rows: np.ndarray) -> None:
    for begin in range(0, len(rows), _TILE):
        tile = rows[begin : begin + _TILE]
        for k, column in enumerate(columns):
            tile[:, k] = column[begin : begin + _TILE]


def _at_addresses(size: int) -> Callable[[Any, int, int], None]:
    """The loop for items of so many bytes."""

    def loop(columns: Any, count: int, rows: int) -> None:
        target = _items(rows, len(columns) * count, size, size).reshape(count, len(columns))
        _by_numpy([_items(source, count, stride, size) for source, stride in columns.tolist()], target)

    return loop


def _items(address: int, count: int, stride: int, size: int) -> np.ndarray:
    lowest = address + min(stride * (count - 1), 0)
    memory: Any = (ctypes.c_uint8 * (abs(stride) * (count - 1) + size)).from_address(lowest)
    return np.ndarray((count,), f"u{size}", memory, address - lowest, (stride,))


_bytes.otherwise(_at_addresses(1))
_words.otherwise(_at_addresses(4))
_double_words.otherwise(_at_addresses(8))

LOOPS = _bytes, _words, _double_words
_LOOPS = {1: _bytes, 4: _words, 8: _double_words}
