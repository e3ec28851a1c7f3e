"""tf.keras.preprocessing.sequence: sequences of one length, parts of them, and pairs of their words."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow.keras.utils import Sequence as Batches


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


def make_sampling_table(size: int, sampling_factor: float = 1e-5) -> np.ndarray:
    """How likely the words of each rank are kept by skipgrams, where they are as frequent as Zipf's law says."""
    rank = np.maximum(np.arange(size), 1).astype(np.float64)
    inverse = rank * (np.log(rank) + 0.577) + 0.5 - 1 / (12 * rank)
    return np.minimum(1.0, np.sqrt(sampling_factor * inverse))


def skipgrams(
    sequence: Sequence[int], vocabulary_size: int, window_size: int = 4, negative_samples: float = 1.0,
    shuffle: bool = True, categorical: bool = False, sampling_table: Any = None, seed: int | None = None,
) -> tuple[list[list[int]], list[Any]]:  # fmt: skip
    """Pairs (word, one at most window_size from it) with label 1, and negative_samples as many with a word by chance
    and label 0; labels [0, 1] and [1, 0] where categorical. Word 0 is none. sampling_table: how likely a word
    is kept."""
    couples = []
    for i, word in enumerate(sequence):
        if not word or (sampling_table is not None and sampling_table[word] < random.random()):
            continue
        around = range(max(0, i - window_size), min(len(sequence), i + window_size + 1))
        couples += [[word, sequence[j]] for j in around if j != i and sequence[j]]
    words, yes, no = [word for word, _ in couples], [0, 1] if categorical else 1, [1, 0] if categorical else 0
    count = int(len(couples) * negative_samples)
    labels: list[Any] = [yes] * len(couples) + [no] * count
    random.shuffle(words)
    couples += [[words[i % len(words)], random.randint(1, vocabulary_size - 1)] for i in range(count)]
    if shuffle:
        chosen = random.randint(0, 10_000_000) if seed is None else seed
        for made in (couples, labels):
            random.Random(chosen).shuffle(made)
    return couples, labels


class TimeseriesGenerator(Batches):
    """Batches of windows of data[start_index:end_index + 1], and the target at the step behind each.

    length: steps that a window spans; every sampling_rate-th is taken. stride: steps from a window to the next.
    shuffle: windows by chance. reverse: the steps backwards. Raises ValueError where nothing is left to be a target.
    """

    def __init__(
        self, data: Any, targets: Any, length: int, sampling_rate: int = 1, stride: int = 1, start_index: int = 0,
        end_index: int | None = None, shuffle: bool = False, reverse: bool = False, batch_size: int = 128,
    ):  # fmt: skip
        if len(data) != len(targets):
            raise ValueError(
                f"Data and targets have to be of same length. Data length is {len(data)} while target length is "
                f"{len(targets)}"
            )
        self.data, self.targets, self.length = data, targets, length
        self.sampling_rate, self.stride, self.batch_size = sampling_rate, stride, batch_size
        self.start_index = start_index + length
        self.end_index = len(data) - 1 if end_index is None else end_index
        self.shuffle, self.reverse = shuffle, reverse
        if self.start_index > self.end_index:
            raise ValueError(
                f"`start_index+length={self.start_index} > end_index={self.end_index}` is disallowed, as no part of "
                "the sequence would be left to be used as current step."
            )

    def __len__(self) -> int:
        each = self.batch_size * self.stride
        return (self.end_index - self.start_index + each) // each

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        if self.shuffle:
            rows = np.random.randint(self.start_index, self.end_index + 1, size=self.batch_size)
        else:
            each = self.batch_size * self.stride
            first = self.start_index + each * index
            rows = np.arange(first, min(first + each, self.end_index + 1), self.stride)
        windows = np.array([self.data[row - self.length : row : self.sampling_rate] for row in rows])
        return windows[:, ::-1] if self.reverse else windows, np.array([self.targets[row] for row in rows])
