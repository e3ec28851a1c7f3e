"""tf.keras.preprocessing.sequence: sequences of one length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def pad_sequences(
    sequences: Sequence[Any],
    maxlen: int | None = None,
    dtype: Any = "int32",
    padding: str = "pre",
    truncating: str = "pre",
    value: Any = 0.0,
) -> np.ndarray:
    """[count, maxlen, ...]: `value` before ("pre") or behind ("post") what is shorter, and what is longer cut there.
    maxlen: the longest's by default. Raises ValueError on other words, and on what is no sequence."""
    for name, word in (("Padding", padding), ("Truncating", truncating)):
        if word not in ("pre", "post"):
            raise ValueError(f'{name} type "{word}" not understood; it is "pre" or "post"')
    for i, s in enumerate(sequences):
        if not hasattr(s, "__len__"):
            raise ValueError(f"`sequences` must be a list of iterables. Found non-iterable at {i}: {s!r}")
    longest = max((len(s) for s in sequences), default=0) if maxlen is None else maxlen
    rest = next((np.asarray(s).shape[1:] for s in sequences if len(s)), ())
    if isinstance(value, str) and np.dtype(dtype) != object and np.dtype(dtype).kind != "U":
        raise ValueError(f"`dtype` {dtype} is not compatible with `value`'s type: str. You should set dtype=object")
    out = np.full((len(sequences), longest, *rest), value, dtype=dtype)
    for row, s in zip(out, sequences):
        if not len(s):
            continue
        kept = np.asarray(s[-longest:] if truncating == "pre" else s[:longest], dtype=dtype)
        if kept.shape[1:] != rest:
            raise ValueError(f"Shape of sample {kept.shape[1:]} of sequence is different from expected shape {rest}")
        if longest:
            row[slice(len(kept)) if padding == "post" else slice(longest - len(kept), None)] = kept
    return out
