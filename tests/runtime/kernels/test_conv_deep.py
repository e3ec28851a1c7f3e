"""3-D convolutions by Winograd's way: they agree with sums of products, whatever the depth does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.kernels import conv, conv_columns, conv_deep, conv_direct, conv_taps
from sparkflow_runtime.kernels.windows import Window
from sparkflow_runtime.wire.windows import slide

RNG = np.random.default_rng(3)


def window(size: Any, taps: Any, stride: int = 1, dilation: int = 1, padding: str = "SAME") -> Window:
    """Strides and dilations of the depth alone."""
    slides = [slide(*numbers, padding) for numbers in zip(size, taps, (stride, 1, 1), (dilation, 1, 1))]
    out, before, after = zip(*slides)
    return Window(size, taps, (stride, 1, 1), (dilation, 1, 1), before, after, out)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


WINDOWS = [
    window((5, 8, 7), (3, 3, 3)),
    window((5, 9, 11), (3, 3, 3), padding="VALID"),
    window((2, 8, 8), (5, 3, 3)),
    window((6, 8, 8), (2, 3, 3)),
    window((7, 8, 8), (3, 3, 3), dilation=2),
    window((9, 8, 8), (3, 3, 3), dilation=3, padding="VALID"),
    window((6, 8, 8), (3, 3, 3), stride=2),
    window((7, 8, 8), (2, 3, 3), stride=3, padding="VALID"),
    window((3, 8, 8), (3, 3, 3), padding="VALID"),
]


def _agree(got: np.ndarray, want: np.ndarray) -> None:
    assert got.dtype == np.float32
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=0, atol=6e-6 * np.abs(want).max())


@pytest.mark.parametrize("piece", [1 << 24, 1 << 17, 1])
@pytest.mark.parametrize("win", WINDOWS, ids=str)
def test_rounds_like_a_sum_of_products(win: Window, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole batches, pieces of some images, and depth by depth."""
    monkeypatch.setattr(conv_deep, "_PIECE_BYTES", piece)
    x, w, dy = normal(3, *win.size, 16), normal(*win.taps, 16, 24), normal(3, *win.out, 24)
    exact = [a.astype(np.float64) for a in (x, w, dy)]
    assert conv_deep.fits(x, w, win)
    assert conv_deep.fits(dy, w, win, True) is (win.strides[0] == 1)
    _agree(conv_deep.forward(x, w, win), conv_taps.forward(np, exact[0], exact[1], win))
    _agree(conv_deep.by_filter(x, dy, win), conv_taps.by_filter(np, exact[0], exact[2], win))
    if win.strides[0] == 1:
        _agree(conv_deep.by_input(dy, w, win), conv_taps.by_input(np, exact[2], exact[1], win))


def test_which_convolutions_go_this_way() -> None:
    def way(win: Window, takes: int = 16, made: int = 16, dtype: Any = np.float32, back: bool = False) -> Any:
        x, w = np.zeros((1, *win.size, takes), dtype), np.zeros((*win.taps, takes, made), dtype)
        return conv._way(np, x, w.shape, win, back)

    cube = window((4, 8, 8), (3, 3, 3))
    assert way(cube) is conv_deep
    assert way(cube, back=True) is conv_deep
    for other in (
        way(cube, dtype=np.float64),
        way(cube, takes=8),
        way(cube, made=8),
        way(window((1, 8, 8), (1, 3, 3))),
        way(window((4, 8, 8), (3, 5, 3))),
        way(window((4, 2, 2), (3, 3, 3))),
        way(window((4, 8, 8), (3, 3, 3), stride=2), back=True),
    ):
        assert other is not conv_deep


def test_a_way_is_chosen_anew_once_machine_code_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is built while a program runs, and its convolutions have begun in another way."""
    win, x = window((1, 16, 16), (1, 5, 5)), np.zeros((4, 1, 16, 16, 16), np.float32)
    monkeypatch.setattr(conv_direct, "is_there", lambda: False)
    assert conv._way(np, x, (1, 5, 5, 16, 32), win) is conv_columns
    monkeypatch.undo()
    later = conv._way(np, x, (1, 5, 5, 16, 32), win)
    assert later is (conv_direct if conv_direct.is_there() else conv_columns)


def test_batches_of_any_size_are_not_all_kept() -> None:
    win = window((1, 4, 4), (1, 3, 3))
    for images in range(1, 1000):
        conv._way(np, np.zeros((images, 1, 4, 4, 1), np.float32), (1, 3, 3, 1, 1), win)
    assert 0 < len(win.ways) <= 256
