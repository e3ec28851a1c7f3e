"""Index vectors as numbers of rows: machine code and numpy give the same."""

from __future__ import annotations

import numpy as np
import pytest

from sparkflow_runtime.kernels.row_numbers import flat_rows, number_rows, places_of, places_of_set
from sparkflow_runtime.wire.errors import InvalidArgumentError


@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize("sizes", [(7,), (5, 3), (2, 4, 6)])
def test_both_versions(sizes: tuple[int, ...], kind: str) -> None:
    indices = np.stack([np.random.default_rng(n).integers(0, n, 50) for n in sizes], 1).astype(kind)
    wanted = np.ravel_multi_index(tuple(indices.T), sizes)
    for loop in (number_rows.compile(), number_rows.numpy):
        out = np.empty(50, np.int64)
        assert loop(indices, np.array(sizes), out) == -1
        np.testing.assert_array_equal(out, wanted)
        for row, column, value in ((9, 0, -1), (0, len(sizes) - 1, sizes[-1])):
            wrong = indices.copy()
            wrong[row, column] = wrong[40, 0] = value if column == 0 else wrong[row, column]
            wrong[row, column] = value
            assert loop(wrong, np.array(sizes), out) == row


def test_an_index_that_is_outside_is_named() -> None:
    indices = np.array([[[0, 0], [1, 3]]])
    assert flat_rows(np, indices, (2, 4, 9), "GatherNd").tolist() == [[0, 7]]
    with pytest.raises(InvalidArgumentError, match=r"column 1 of indices\): indices\[0,1\] = 3 is not in \[0, 3\)"):
        flat_rows(np, indices, (2, 3, 9), "GatherNd")
    with pytest.raises(IndexError):  # which a kernel's caller says as it says all of these
        flat_rows(np, indices, (2,), "GatherNd")


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (40, 7)])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_where_a_mask_is_set(shape: tuple[int, int], share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    mask = np.random.default_rng(1).random(shape) < share
    for loop in (places_of.compile(), places_of.numpy):
        monkeypatch.setattr(places_of, "_call", loop)
        assert places_of_set(mask).tolist() == np.argwhere(mask).tolist()
        assert places_of_set(mask.T).tolist() == np.argwhere(mask.T).tolist()
