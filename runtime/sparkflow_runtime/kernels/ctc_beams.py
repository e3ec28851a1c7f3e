"""CTC's search over prefixes: of each step the likeliest `beam_width` label sequences are kept, with the probability
that all alignments of each have together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.kernels import ctc_loops as loops
from sparkflow_runtime.kernels.ctc import lengths_of, log_softmax, sparse_rows
from sparkflow_runtime.kernels.host import host
from sparkflow_runtime.kernels.parallel import share
from sparkflow_runtime.kernels.registry import kernel, prepares
from sparkflow_runtime.wire.errors import InvalidArgumentError


def _path(parents: list[int], labels: list[int], node: int, merge: bool) -> list[int]:
    """The labels of a prefix; merge: of equal ones in a row one stays."""
    found: list[int] = []
    while node != loops.ROOT:
        if not merge or not found or found[-1] != labels[node]:
            found.append(labels[node])
        node = parents[node]
    return found[::-1]


def _likeliest(scores: np.ndarray, width: int, top: int, merge: bool) -> tuple[list[float], list[list[int]]]:
    """(log-probability, labels) of the likeliest prefixes of [steps, classes], as many as there are up to `top`."""
    steps, classes = scores.shape
    tree, kept = np.empty((5, 1 + steps * width), np.int64), np.empty((5, width), np.int64)
    logs, taken = np.empty((7, width)), np.zeros(width * (classes - 1), np.int64)
    count = loops.search(scores, tree, kept, logs, taken)
    total = logs[loops.TOTAL, :count]
    order = np.argsort(-total, kind="stable")[:top]
    parents, labels = tree[loops.PARENT].tolist(), tree[loops.LABEL].tolist()
    return total[order].tolist(), [_path(parents, labels, n, merge) for n in kept[loops.NODE, order].tolist()]


prepares(loops.search.prepare, "CTCBeamSearchDecoder")


@kernel("CTCBeamSearchDecoder", multi=True)
def _search(
    xp: Any, inputs: Any, sequence_length: Any, *, beam_width: int, top_paths: int, merge_repeated: bool = True
) -> Any:
    times = lengths_of("CTCBeamSearchDecoder", inputs, sequence_length)
    if not 1 <= top_paths <= beam_width:
        raise InvalidArgumentError(
            f"CTCBeamSearchDecoder: top_paths must be in [1, beam_width], got {top_paths} and {beam_width}"
        )
    logs = host(log_softmax(xp, inputs)) if inputs.size else host(inputs)
    found: list[Any] = [None] * len(times)

    def work(some: Sequence[int]) -> None:
        for b in some:
            scores = np.ascontiguousarray(logs[: times[b], b], np.float64)
            found[b] = _likeliest(scores, beam_width, top_paths, merge_repeated)

    share(work, range(len(times)), multiplies=False)
    for b, (_, paths) in enumerate(found):
        if len(paths) < top_paths:
            raise InvalidArgumentError(
                f"CTCBeamSearchDecoder: sequence {b} has {len(paths)} paths, less than the {top_paths} asked for"
            )
    score = np.array([scores for scores, _ in found], inputs.dtype).reshape(len(times), top_paths)
    rows = [[paths[k] for _, paths in found] for k in range(top_paths)]
    parts = zip(*map(sparse_rows, rows))
    return (*(xp.asarray(part) for kind in parts for part in kind), xp.asarray(score))
