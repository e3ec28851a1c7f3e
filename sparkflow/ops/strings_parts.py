"""Parts of strings and runs of them, as RaggedTensors: bytes, and n-grams of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.graph import Operation, get_default_graph
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.ops import array, rules
from sparkflow.ops.ragged import RaggedTensor
from sparkflow.ops.strings import string_split
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError


def _ngrams_rule(op: Operation) -> list[Dims]:
    rules.require_rank(op, "data", op.inputs[0], 1)
    splits = rules.require_rank(op, "data_splits", op.inputs[1], 1)
    if any(width < 1 for width in op.attrs["ngram_widths"]):
        raise InvalidArgumentError(f"StringNGrams: widths must be 1 or more, got {op.attrs['ngram_widths']}")
    return [(None,), splits]


op(
    "StringNGrams",
    "data: string, data_splits: Tsplits -> ngrams: string, ngrams_splits: Tsplits",
    _ngrams_rule,
    Tsplits=dtypes.int64,
)


def bytes_split(input: Any, name: str | None = None) -> Any:
    """The bytes of each string along a new last axis: a vector of a scalar, else a RaggedTensor. Raises ValueError
    where the rank is not known."""
    with get_default_graph().name_scope(name or "StringsByteSplit"):
        if isinstance(input, RaggedTensor):
            return input.with_flat_values(bytes_split(_flat(input)))
        text = convert_to_tensor(input, dtypes.string, "input")
        if text._shape is None:
            raise ValueError("bytes_split: the rank of input must be known")
        if not text._shape:
            return string_split([text], "").values
        if len(text._shape) > 1:
            rows = RaggedTensor.from_tensor(text, ragged_rank=len(text._shape) - 1)
            return rows.with_flat_values(bytes_split(_flat(rows)))
        found = string_split(text, "")
        count = array.shape(text, out_type=dtypes.int64)[0]
        return RaggedTensor.from_value_rowids(found.values, found.indices[:, 0], nrows=count)


def _flat(ragged: RaggedTensor) -> Any:
    values = ragged.values
    while isinstance(values, RaggedTensor):
        values = values.values
    return values


def ngrams(
    data: Any, ngram_width: int | Sequence[int], separator: str = " ", pad_values: Any = None,
    padding_width: int | None = None, preserve_short_sequences: bool = False, name: str | None = None,
) -> Any:  # fmt: skip
    """The tokens of each row (the last axis of data, a tensor or RaggedTensor) that stand side by side, joined.

    ngram_width: how many, or several numbers, one after the other in a row. pad_values: a string, or a pair of them,
    put at both ends of a row, padding_width times (a width less one by default, and at most). preserve_short_sequences:
    a row that is too short for any gives one of all its tokens. A RaggedTensor of a RaggedTensor, a tensor of a tensor,
    filled up with "". Raises ValueError where a width or padding_width is too small, or the rank not known.
    """
    widths = [ngram_width] if isinstance(ngram_width, int) else [int(width) for width in ngram_width]
    if any(width < 1 for width in widths):
        raise ValueError(f"All ngram_widths must be greater than 0. Got {ngram_width}")
    left, right = pad_values if isinstance(pad_values, (list, tuple)) else (pad_values, pad_values)
    if pad_values is not None and not (isinstance(left, (str, bytes)) and isinstance(right, (str, bytes))):
        raise TypeError(f"pad_values must be a string, tuple of strings, or None, got {pad_values!r}")
    if padding_width is not None and padding_width < 1:
        raise ValueError(f"padding_width must be greater than 0. Got {padding_width}")
    if padding_width is not None and pad_values is None:
        raise ValueError("pad_values must be provided if padding_width is set.")
    attrs = {
        "separator": separator, "ngram_widths": widths, "left_pad": left or "", "right_pad": right or "",
        "pad_width": 0 if pad_values is None else -1 if padding_width is None else padding_width,
        "preserve_short_sequences": preserve_short_sequences,
    }  # fmt: skip
    with get_default_graph().name_scope(name or "StringNGrams"):
        if isinstance(data, RaggedTensor):
            return _of_ragged(data, attrs)
        dense = convert_to_tensor(data, dtypes.string, "data")
        if not dense._shape:
            raise ValueError(f"ngrams: data must have a known rank of at least 1, got {shapes.show(dense._shape)}")
        if len(dense._shape) == 1:
            end = array.shape(dense, out_type=dtypes.int64)
            return apply_op("StringNGrams", [dense, array.pad(end, [[1, 0]])], attrs)[0]
        return _of_ragged(RaggedTensor.from_tensor(dense, ragged_rank=len(dense._shape) - 1), attrs).to_tensor()


def _of_ragged(data: RaggedTensor, attrs: dict[str, Any]) -> RaggedTensor:
    """Of the innermost rows."""
    if isinstance(data.values, RaggedTensor):
        return data.with_values(_of_ragged(data.values, attrs))
    return RaggedTensor.from_row_splits(*apply_op("StringNGrams", [data.values, data.row_splits], attrs))
