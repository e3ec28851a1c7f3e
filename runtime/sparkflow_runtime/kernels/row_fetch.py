"""Rows asked for some turns before theirs: a table is larger than any cache, and its rows are changed anywhere in it.

A loop over such rows spends most of its time waiting for one after the other. Eight rows ahead was the quickest of 2,
4, 8, 12, 16 and 24 for most rows of 4 to 256 bytes, timed once on one processor with other memory in its caches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.loop_parts import Instructions

Array = Any
_AHEAD, _LINE_BYTES = np.uint64(8), np.uint64(64)
_ZERO, _ONE = np.uint64(0), np.uint64(1)


def _make_line_to_write() -> Any:
    """Numba's function (memory, at): asks for the line of the cache that item `at` of memory lies in."""
    from llvmlite import ir
    from numba.core import types
    from numba.extending import intrinsic

    byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])

    def typed(typing: Any, memory: Any, at: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, args[0]).data
            where = builder.bitcast(builder.gep(data, [args[1]]), byte)
            fetch = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
            builder.call(fetch, [where, word(1), word(3), word(1)])
            return context.get_dummy_value()

        return types.void(memory, at), generate

    return intrinsic(typed)


_line_to_write = Instructions("_line_to_write", _make_line_to_write)


def fetch_to_write(memory: Array, refs: Array, t: Array, width: Array, ids: Array, i: Array, end: Array) -> None:
    """Ask for the rows that rows ids[i + 8] of the tables in line t of refs are, where that is before `end`."""
    if i + _AHEAD < end and width > _ZERO:
        offset, line = ids[i + _AHEAD] * width, _LINE_BYTES // np.uint64(memory.itemsize)
        for kind in range(refs.shape[1]):
            first = refs[t, kind] + offset
            last = first + width - _ONE
            _line_to_write(memory, first)
            _line_to_write(memory, last)
            while first + line < last:
                first += line
                _line_to_write(memory, first)


TO_WRITE: list[Callable[..., Any]] = [_line_to_write, fetch_to_write]  # as `parts` of a loop
