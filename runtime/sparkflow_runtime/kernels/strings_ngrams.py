"""Runs of tokens, joined."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.registry import on_host
from sparkflow_runtime.kernels.strings import texts
from sparkflow_runtime.wire.errors import InvalidArgumentError
from sparkflow_runtime.wire.tensor_proto import as_bytes


@on_host("StringNGrams", multi=True)
def _ngrams(
    xp: Any, data: Any, data_splits: Any, *, separator: Any, ngram_widths: Sequence[int], left_pad: Any, right_pad: Any,
    pad_width: int, preserve_short_sequences: bool,
) -> list[Any]:  # fmt: skip
    tokens, splits = texts(data).reshape(-1).tolist(), np.asarray(data_splits)
    if len(splits) and (splits[0] != 0 or splits[-1] != len(tokens) or (np.diff(splits) < 0).any()):
        raise InvalidArgumentError(
            f"StringNGrams: data_splits must go up from 0 to the {len(tokens)} values, got {splits.tolist()}"
        )
    glue, left, right = as_bytes(separator), as_bytes(left_pad), as_bytes(right_pad)
    found: list[bytes] = []
    ends = [0]
    pads_of = [(width, width - 1 if pad_width < 0 else min(pad_width, width - 1)) for width in ngram_widths]
    for first, last in zip(splits[:-1].tolist(), splits[1:].tolist()):
        row = tokens[first:last]
        for width, pads in pads_of:
            padded = [left] * pads + row + [right] * pads if pads else row
            found += _runs(padded, width, glue) if width > 1 else padded
        if preserve_short_sequences and row and len(found) == ends[-1]:
            pads = max(pad_width, 0)
            found.append(glue.join([left] * pads + row + [right] * pads))
        ends.append(len(found))
    out = np.empty(len(found), object)
    out[:] = found
    return [out, np.array(ends if len(splits) else [], splits.dtype)]


def _runs(row: list[bytes], width: int, glue: bytes) -> Iterator[bytes]:
    return map(glue.join, zip(*(row[i:] for i in range(width))))
