"""The ways to compute a convolution or a pool: all agree, both versions of a loop agree bit for bit, threads change
nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from sparkflow_runtime.kernels import (
    compiled,
    conv,
    conv_columns,
    conv_direct,
    conv_taps,
    conv_tiles,
    conv_winograd,
    machine_code,
    max_pool_loops,
    parallel,
    pool,
    window_loops,
)
from sparkflow_runtime.kernels.settled import Settled
from sparkflow_runtime.kernels.windows import Window
from sparkflow_runtime.wire.windows import slide

RNG = np.random.default_rng(3)


def window(size: Any, taps: Any, strides: Any = (1, 1, 1), dilations: Any = (1, 1, 1), padding: str = "SAME") -> Window:
    slides = [slide(*numbers, padding) for numbers in zip(size, taps, strides, dilations)]
    out, before, after = zip(*slides)
    return Window(size, taps, strides, dilations, before, after, out)


def normal(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


WINDOWS = [
    window((1, 9, 8), (1, 3, 3)),
    window((1, 9, 8), (1, 3, 3), padding="VALID"),
    window((1, 9, 8), (1, 4, 3), (1, 2, 3)),
    window((1, 9, 8), (1, 2, 3), (1, 1, 1), (1, 2, 3)),
    window((5, 4, 6), (2, 3, 3), (2, 1, 2), padding="VALID"),
    window((1, 5, 5), (1, 1, 1)),
    window((1, 5, 5), (1, 1, 1), (1, 2, 2)),
]


@pytest.mark.parametrize("win", WINDOWS)
def test_columns_agree_with_taps(win: Window) -> None:
    x, w, dy = normal(3, *win.size, 2), normal(*win.taps, 2, 5), normal(3, *win.out, 5)
    x, w, dy = (a.astype(np.float64) for a in (x, w, dy))
    np.testing.assert_allclose(
        conv_columns.forward(x, w, win), conv_taps.forward(np, x, w, win), rtol=1e-12, atol=1e-12
    )
    by_input = conv_columns.by_input(dy, w, win), conv_taps.by_input(np, dy, w, win)
    np.testing.assert_allclose(*by_input, rtol=1e-12, atol=1e-12)
    by_filter = conv_columns.by_filter(x, dy, win), conv_taps.by_filter(np, x, dy, win)
    np.testing.assert_allclose(*by_filter, rtol=1e-12, atol=1e-12)


@pytest.mark.usefixtures("products")
@pytest.mark.parametrize("images, size", [(1, (7, 9)), (2, (5, 6)), (3, (60, 53))])
@pytest.mark.parametrize("inner, outer", [(16, 24), (72, 200), (144, 128)])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_winograd_rounds_like_a_sum_of_products(
    images: int, size: tuple[int, int], inner: int, outer: int, padding: str
) -> None:
    win = window((1, *size), (1, 3, 3), padding=padding)
    x, w, dy = normal(images, *win.size, inner), normal(1, 3, 3, inner, outer), normal(images, *win.out, outer)
    assert conv_winograd.fits(x, w, win)
    exact = [a.astype(np.float64) for a in (x, w, dy)]
    for got, want in [
        (conv_winograd.forward(x, w, win), conv_taps.forward(np, exact[0], exact[1], win)),
        (conv_winograd.by_input(dy, w, win), conv_taps.by_input(np, exact[2], exact[1], win)),
        (conv_winograd.by_filter(x, dy, win), conv_taps.by_filter(np, exact[0], exact[2], win)),
    ]:
        np.testing.assert_allclose(got, want, rtol=0, atol=5e-6 * np.abs(want).max())


@pytest.mark.parametrize("images, size", [(2, (5, 6)), (3, (60, 53))])  # by channels, by tiles
@pytest.mark.parametrize("inner, outer", [(16, 24), (72, 200)])
def test_winograd_gives_the_same_bits_in_one_call_of_a_thread_as_in_many(
    images: int, size: tuple[int, int], inner: int, outer: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for work in (
        conv_winograd.crew,
        conv_direct.direct,
        conv_tiles.filter_in,
        conv_tiles.tiles_in,
        conv_tiles.tiles_out,
    ):
        compiled.make_ready(work)
    win, of = window((1, *size), (1, 3, 3)), conv_winograd._Codes.of
    x, w, dy = normal(images, *win.size, inner), normal(1, 3, 3, inner, outer), normal(images, *win.out, outer)
    made, tables = [], []
    for codes in (of, lambda *_: None):
        monkeypatch.setattr(conv_winograd._Codes, "of", lambda *a, codes=codes: tables.append(codes(*a)) or tables[-1])
        made.append([conv_winograd.forward(x, w, win, normal(outer) * 0, True), conv_winograd.by_input(dy, w, win)])
    assert all(tables[:2]) and not any(tables[2:]) and len(tables) == 4
    for one, other in zip(*made):
        assert one.tobytes() == other.tobytes()


@pytest.mark.usefixtures("products")
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("outer", [16, 40, 75])
def test_winograd_adds_a_bias_as_if_it_came_afterwards(outer: int, relu: bool) -> None:
    win = window((1, 11, 14), (1, 3, 3))
    x, w, bias = normal(2, *win.size, 20), normal(1, 3, 3, 20, outer), normal(outer)
    x[0, 0, 3, 3], x[1, 0, 3, 3] = np.nan, 0
    want = conv_winograd.forward(x, w, win) + bias
    want = np.where(want <= 0, np.float32(0), want) if relu else want
    got = conv_winograd.forward(x, w, win, bias, relu)
    np.testing.assert_array_equal(got, want)
    assert np.isnan(got).any()
    assert (np.nanmin(got) >= 0) == relu


@pytest.mark.parametrize(
    "size, fits", [((1, 6), False), ((2, 2), False), ((5, 5), True), ((4, 4), True), ((9, 1), False)]
)
def test_winograd_is_for_outputs_that_fill_its_tiles(size: tuple[int, int], fits: bool) -> None:
    win = window((1, *size), (1, 3, 3))
    assert conv_winograd.fits(normal(1, *win.size, 16), normal(1, 3, 3, 16, 16), win) is fits


def test_winograd_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    win, w = window((1, 6, 6), (1, 3, 3)), normal(1, 3, 3, 16, 16)
    assert conv_winograd.fits(normal(1, 1, 6, 6, 16), w, win)
    monkeypatch.setenv("SPARKFLOW_WINOGRAD", "0")
    assert not conv_winograd.fits(normal(1, 1, 6, 6, 16), w, win)


# ---------------------------------------------------------------------- direct


DIRECT = [
    *WINDOWS[:5],
    window((1, 28, 28), (1, 5, 5)),
    window((1, 40, 13), (1, 3, 13), padding="VALID"),  # the filter spans the width
    window((7, 8, 9), (3, 3, 3)),
    window((1, 30, 30), (1, 7, 7), (1, 2, 2)),
    window((1, 8, 8), (1, 2, 2), (1, 3, 3)),  # cells that no tap meets
    window((1, 90, 70), (1, 5, 5), (1, 2, 1)),  # parts of an image
    window((3, 40, 50), (2, 3, 3)),
    window((1, 16, 31), (1, 1, 1)),  # rows of whole tiles, whatever the images are
]


@pytest.mark.parametrize("win", DIRECT)
@pytest.mark.parametrize("images, inner, outer", [(3, 2, 5), (9, 16, 32), (2, 3, 48), (1, 40, 20), (1, 80, 17)])
def test_directly_is_a_sum_of_products(direct: Any, win: Window, images: int, inner: int, outer: int) -> None:
    x, w, dy = normal(images, *win.size, inner), normal(*win.taps, inner, outer), normal(images, *win.out, outer)
    exact = [a.astype(np.float64) for a in (x, w, dy)]
    ways = [
        (direct.forward(x, w, win), conv_taps.forward(np, exact[0], exact[1], win)),
        (direct.by_filter(x, dy, win), conv_taps.by_filter(np, exact[0], exact[2], win)),
    ]
    if max(win.strides) == 1 or max(win.dilations) == 1:
        ways.append((direct.by_input(dy, w, win), conv_taps.by_input(np, exact[2], exact[1], win)))
    for got, want in ways:
        np.testing.assert_allclose(got, want, rtol=0, atol=8e-6 * np.abs(want).max())


def test_directly_where_it_pays(direct: Any) -> None:
    w, narrow = normal(1, 5, 5, 3, 16), window((1, 28, 3), (1, 5, 5))
    wide, pointwise = window((1, 28, 28), (1, 5, 5)), window((1, 28, 28), (1, 1, 1))
    assert direct.fits(normal(2, *wide.size, 3), w, wide)
    assert not direct.fits(normal(2, *wide.size, 3).astype(np.float64), w, wide)
    assert not direct.fits(normal(2, *wide.out, 16), w, wide, back=True), "three channels are a part of a vector"
    assert not direct.fits(normal(2, *narrow.size, 3), w, narrow)
    assert not direct.fits(normal(2, *pointwise.size, 3), normal(1, 1, 1, 3, 16), pointwise)
    assert direct.fits(normal(2, *pointwise.size, 256), normal(1, 1, 1, 256, 128), pointwise)
    assert not direct.fits(normal(2, *pointwise.size, 256), normal(1, 1, 1, 256, 8), pointwise, back=True)


def test_a_small_gradient_of_a_filter_wakes_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sums take less time than a thread takes to wake; those of a large one are shared, with the same bits."""
    compiled.make_ready(conv_direct.direct)
    shared: list[Any] = []
    share = conv_direct.share
    monkeypatch.setattr(conv_direct, "share", lambda work, parts: (shared.append(len(parts)), share(work, parts)))
    small, large = window((1, 1, 8), (1, 1, 3)), window((1, 28, 28), (1, 3, 3))
    for win, images, want in ((small, 8, []), (large, 16, [8])):
        x, dy = normal(images, *win.size, 8), normal(images, *win.out, 8)
        got = conv_direct.by_filter(x, dy, win)
        assert shared == want
        monkeypatch.setattr(conv_direct, "_ALONE", 1 << 62)
        assert conv_direct.by_filter(x, dy, win).tobytes() == got.tobytes()
        monkeypatch.setattr(conv_direct, "_ALONE", 1 << 20)


def test_a_filter_that_meets_few_tiles_is_not_transformed() -> None:
    """To transform it takes longer than all products by columns."""
    win = window((1, 7, 7), (1, 3, 3))
    w = np.broadcast_to(np.float32(0), (1, 3, 3, 64, 64))
    ways = [conv._best(normal(images, *win.size, 64), w, win, False) for images in (1, 2)]
    assert ways == [conv_columns, conv_winograd]


def test_the_gradient_of_a_filter_lies_row_by_row() -> None:
    """Also where its channels do not fill the vectors that its sums are."""
    compiled.make_ready(conv_direct.direct)
    for images in (1, 16):  # one sum, and several
        win = window((1, 20, 20), (1, 3, 3))
        x, dy = normal(images, *win.size, 8), normal(images, *win.out, 9)
        got = conv_direct.by_filter(x, dy, win)
        assert got.flags.c_contiguous
        want = conv_taps.by_filter(np, x.astype(np.float64), dy.astype(np.float64), win)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3)


def test_a_process_keeps_to_what_it_began_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """What another process builds meanwhile would round sums otherwise in the middle of a training."""
    asked: list[Any] = []
    monkeypatch.setattr(compiled, "in_background", asked.append)
    monkeypatch.delenv("SPARKFLOW_NUMBA", raising=False)

    def settled() -> Settled:
        return Settled("code", conv_direct.direct.where, conv_direct._NATIVE, lambda: 8, forward=8, gradient=8)

    late = settled()
    monkeypatch.setattr(machine_code, "read", lambda source: None)
    late.prepare()
    assert asked == [late] and not late.functions
    monkeypatch.setattr(machine_code, "read", lambda source: b"code")
    monkeypatch.setattr(machine_code, "load", lambda code, arguments: len)
    late.prepare()
    assert late.load() and not late.functions
    early = settled()
    early.prepare()
    assert early.functions == [len, len] and asked == [late]


# ---------------------------------------------------------------------- both versions of a loop

TILES = (5, 3, 8, 4, 3)  # first, start, stop, down, across
POOLS = [window((1, 9, 8), (1, 3, 2), (1, 2, 1)), window((5, 4, 6), (2, 3, 3), (2, 1, 2), padding="VALID")]


def _special(x: np.ndarray) -> np.ndarray:
    flat = x.ravel()
    flat[::17], flat[::41], flat[::53] = np.nan, np.inf, -np.inf
    return x


def _columns(dtype: Any) -> list[Any]:
    win = WINDOWS[3]
    width = 6 * 3
    return [
        (conv_columns.gather_columns, [normal(2, *win.size, 3, dtype=dtype), np.ones((40, width), dtype)], win, 30),
        (conv_columns.scatter_columns, [normal(2, *win.size, 3, dtype=dtype), normal(40, width, dtype=dtype)], win, 30),
    ]


def _pools(dtype: Any) -> list[Any]:
    cases: list[Any] = []
    for win in POOLS:
        for x in (normal(3, *win.size, 5, dtype=dtype), _special(normal(3, *win.size, 5, dtype=dtype)).round(0)):
            dy = normal(3, *win.out, 5, dtype=dtype)
            rows, up, sizes = x.reshape(-1), dy.reshape(-1), np.array([*win.size, 5])
            cases += [
                (max_pool_loops.maxima, [rows, np.full_like(up, np.finfo(dtype).min)], win.numbers, sizes, 1, 3),
                (window_loops.means, [x, np.zeros_like(dy)], win, 0, 3),
                (max_pool_loops.spread_to_maxima, [rows, up, np.zeros_like(rows)], 0, win.numbers, sizes, 0, 2),
                (window_loops.spread_means, [dy, np.zeros_like(x)], win, 0, 3),
                (max_pool_loops.winners, [rows, up.copy(), up.astype(np.int64)], 0, win.numbers, sizes, 1, 3),
            ]
    return cases


def _winograd() -> list[Any]:
    x, m, w = normal(2, 13, 9, 67), normal(36, 8, 67), normal(3, 3, 7, 67)
    u, part = normal(36, 4, 66), normal(36, 8, 30)
    return [
        (conv_tiles.tiles_in, [x, m.copy(), *TILES, 1, 1]),
        (conv_tiles.tiles_out, [m, x.copy(), normal(0), 0, *TILES, 0]),
        (conv_tiles.tiles_out, [part, x.copy(), normal(80), 1, *TILES, 37]),
        (conv_tiles.tiles_out, [part, x.copy(), normal(80), 2, *TILES, 48]),
        (conv_tiles.tiles_out, [m, x.copy(), normal(80), 2, *TILES, 0]),
        (conv_tiles.tiles_back, [x, m.copy(), *TILES, 0, 0]),
        (conv_tiles.filter_in, [w, u.copy(), 0, 1, 4]),
        (conv_tiles.filter_in, [w, u.copy(), 1, 0, 4]),
        (conv_tiles.filter_in, [w, u.copy(), 0, 40, 3]),
        (conv_tiles.filter_back, [m, np.zeros((3, 3, 8, 67), np.float32), 1, 5]),
    ]


LOOPS = [case for kind in (np.float32, np.float64) for make in (_columns, _pools) for case in make(kind)]
LOOPS += _winograd()


@pytest.mark.parametrize("case", LOOPS, ids=[c[0].name for c in LOOPS])
def test_both_versions_give_the_same_bits(case: Any) -> None:
    loop, arrays, *rest = case
    rest = [r.numbers if isinstance(r, Window) else r for r in rest]
    results = []
    for call in (loop.numpy, loop.compile()):
        copies = [a.copy() if isinstance(a, np.ndarray) else a for a in arrays]
        with np.errstate(invalid="ignore"):
            call(*copies, *rest)
        results.append([a for a in copies if isinstance(a, np.ndarray)])
    for by_numpy, by_numba in zip(*results):
        assert by_numpy.tobytes() == by_numba.tobytes() or _same_but_for_nan(by_numpy, by_numba)


def test_maxima_of_any_window() -> None:
    """Windows of four cells are taken whole where nothing lies outside; ties, NaN and -inf on all ways."""
    drawn = np.random.default_rng(2)
    loops = (max_pool_loops.maxima, max_pool_loops.spread_to_maxima, max_pool_loops.winners)
    compiled = [loop.compile() for loop in loops]
    for i in range(400):
        taps = np.array([1, 2, 2]) if i % 2 else drawn.integers(1, [3, 5, 4])
        once, channels = i % 5 == 0, int(drawn.integers(1, 40))
        strides, before = (taps, 0 * taps) if once else (drawn.integers(1, 4, 3), drawn.integers(0, 2, 3))
        dilations = np.ones(3, np.int64) if once or i % 3 else drawn.integers(1, 3, 3)
        size = drawn.integers(1, [3, 9, 9])
        seen = (taps - 1) * dilations + 1
        out = -(-size // taps) if once else np.maximum(1, (size + 2 * before - seen) // strides + 1)
        numbers, sizes = np.concatenate([taps, strides, dilations, before, out]), np.array([*size, channels])
        x = drawn.integers(-3, 4, (2, *size, channels)).astype(np.float32)
        x[drawn.random(x.shape) < 0.1], x[drawn.random(x.shape) < 0.1] = np.nan, -np.inf
        dy = normal(2, *out, channels)
        results = []
        for maxima, spread, winners in ([loop.numpy for loop in loops], compiled):
            y, dx = np.full_like(dy, -9).reshape(-1), np.full_like(x, 7 if once else 0).reshape(-1)
            maxima(x.reshape(-1), y, numbers, sizes, 0, 2)
            spread(x.reshape(-1), dy.reshape(-1), dx, int(once), numbers, sizes, 0, 2)
            best, where = np.full_like(y, -9), np.zeros(y.shape, np.int64)
            winners(x.reshape(-1), best, where, i % 2, numbers, sizes, 0, 2)
            results.append((y, dx, where))
            some = where >= 0
            at = where + (0 if i % 2 else np.repeat([0, x[0].size], y.size // 2))
            np.testing.assert_array_equal(x.reshape(-1)[at[some]], best[some])
        np.testing.assert_array_equal(results[0][2], results[1][2])
        assert _same_but_for_nan(results[0][0], results[1][0]), (numbers, x.shape)
        assert results[0][1].tobytes() == results[1][1].tobytes(), (numbers, x.shape, once)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_maxima_of_rows_and_then_of_columns(dtype: Any) -> None:
    """As windows that overlap are taken: the bits of one pass, zeros of both signs, NaN and -inf among them."""
    drawn, seen = np.random.default_rng(4), 0
    for _ in range(200):
        taps = tuple(drawn.integers([1, 2, 2], [4, 6, 6]).tolist())
        strides = tuple(drawn.integers(1, [3, 3, 4]).tolist())
        dilations = tuple(drawn.integers(1, [2, 3, 3]).tolist())
        size = tuple(drawn.integers([1, 3, 3], [5, 12, 12]).tolist())
        slides = [slide(*of, "SAME", (0, 0)) for of in zip(size, taps, strides, dilations)]
        out, before, after = zip(*slides)
        win = Window(size, taps, strides, dilations, before, after, out)
        seen += pool._overlaps(win)
        x = drawn.integers(-2, 3, (2, *size, 5)).astype(dtype) * drawn.choice([-1.0, 1.0], (2, *size, 5)).astype(dtype)
        x[drawn.random(x.shape) < 0.1], x[drawn.random(x.shape) < 0.1] = np.nan, -np.inf
        whole = np.full((2, *out, 5), np.finfo(dtype).min, dtype)
        max_pool_loops.maxima.numpy(x.reshape(-1), whole.reshape(-1), win.numbers, np.array([*size, 5]), 0, 2)
        assert _same_but_for_nan(pool._maxima(np, x, win), whole), win
    assert 20 < seen < 180


def test_places_that_maxima_came_from() -> None:
    drawn = np.random.default_rng(6)
    dy, places = drawn.standard_normal(24).astype(np.float32), drawn.integers(-1, 11, 24)
    found = []
    for version in (max_pool_loops.give_to_places.compile(), max_pool_loops.give_to_places.numpy):
        dx = np.zeros(20, np.float32)
        found.append((version(dy, places, dx, 2, 12, 10), dx))
    (outside, one), (same, other) = found
    at = places + np.repeat([0, 10], 12)
    assert outside == same == ((at < 0) | (at >= 20)).sum() > 0
    assert one.tobytes() == other.tobytes() and np.count_nonzero(one) > 9


def any_window(drawn: np.random.Generator, strides: Any = None) -> tuple[Any, Any, Any]:
    """Of an input, how many outputs it has, and its numbers. Taps, strides and dilations in any mix; padding wider than
    the input."""
    taps, dilations = drawn.integers(1, [3, 5, 6]), drawn.integers(1, 3, 3)
    strides = drawn.integers(1, 4, 3) if strides is None else np.array(strides)
    before, out = drawn.integers(0, (taps - 1) * dilations + 2), drawn.integers(1, [4, 7, 9])
    x = normal(2, *drawn.integers(1, [3, 8, 9]), drawn.integers(1, 5))
    return x, 2 * out.prod(), np.concatenate([taps, strides, dilations, before, out])


def test_columns_of_any_window_from_anywhere() -> None:
    """Blocks that begin and end within a row, there and back."""
    drawn, gather, scatter = np.random.default_rng(1), conv_columns.gather_columns, conv_columns.scatter_columns
    gathered, scattered = gather.compile(), scatter.compile()
    for _ in range(400):
        x, outputs, numbers = any_window(drawn)
        first = int(drawn.integers(0, outputs))
        shape = drawn.integers(1, outputs - first + 1), numbers[:3].prod() * x.shape[4]
        found, expected = np.full(shape, 7, np.float32), np.full(shape, 7, np.float32)
        gathered(x, found, numbers, first)
        gather.numpy(x, expected, numbers, first)
        assert found.tobytes() == expected.tobytes(), (numbers, x.shape, first)
        into, columns = [x.copy(), x.copy()], normal(*shape)
        scattered(into[0], columns, numbers, first)
        scatter.numpy(into[1], columns, numbers, first)
        assert into[0].tobytes() == into[1].tobytes(), (numbers, x.shape, first)


def test_taps_of_any_window() -> None:
    drawn, gather = np.random.default_rng(2), conv_columns.gather_taps
    gathered = gather.compile()
    for _ in range(200):
        _, _, numbers = any_window(drawn, (1, 1, 1))
        taps, _, dilations, _, out = numbers.reshape(5, 3)
        padded = normal(*drawn.integers(1, 4, 2), *(out + (taps - 1) * dilations + drawn.integers(0, 3, 3)))
        found = [np.empty(taps.prod() * padded.shape[0] * padded.shape[1] * out.prod(), np.float32) for _ in range(2)]
        gathered(padded, found[0], numbers)
        gather.numpy(padded, found[1], numbers)
        assert found[0].tobytes() == found[1].tobytes(), (numbers, padded.shape)


def test_channels_come_first() -> None:
    drawn, turn = np.random.default_rng(3), conv_columns.turn_channels
    turned = turn.compile()
    for _ in range(50):
        x, _, numbers = any_window(drawn)
        sizes = numbers[9:12] + x.shape[1:4] + drawn.integers(0, 3, 3)
        found, wanted = (np.zeros((x.shape[4], len(x), *sizes), np.float32) for _ in range(2))
        turned(x, found, numbers)
        turn.numpy(x, wanted, numbers)
        assert found.tobytes() == wanted.tobytes() and found.any(), (numbers, x.shape)


def test_small_images_go_back_several_at_once() -> None:
    win = window((1, 5, 4), (1, 3, 2), (1, 2, 1))
    dy, w = normal(700, *win.out, 7).astype(np.float64), normal(*win.taps, 3, 7).astype(np.float64)
    whole = conv_columns.by_input(dy, w, win)
    np.testing.assert_allclose(whole, conv_taps.by_input(np, dy, w, win), rtol=1e-12, atol=1e-12)


def _same_but_for_nan(a: np.ndarray, b: np.ndarray) -> bool:
    """Which of its many NaNs a processor makes is not told."""
    return np.array_equal(a, b, equal_nan=True) and np.array_equal(np.signbit(a[a == 0]), np.signbit(b[b == 0]))


# ---------------------------------------------------------------------- threads


def _with_threads(monkeypatch: pytest.MonkeyPatch, count: int, compute: Callable[[], Any]) -> Any:
    monkeypatch.setattr(parallel, "_most", lambda: count)
    parallel._pool.cache_clear()
    try:
        return compute()
    finally:
        parallel._pool.cache_clear()


@pytest.mark.parametrize("channels", [16, 144])
def test_the_number_of_threads_does_not_change_the_bits(
    monkeypatch: pytest.MonkeyPatch, direct: Any, channels: int
) -> None:
    same, strided = window((1, 48, 48), (1, 3, 3)), window((1, 48, 48), (1, 3, 3), (1, 2, 2))

    def compute() -> list[bytes]:
        found = []
        for way, win in ((conv_winograd, same), (conv_columns, strided), (direct, strided)):
            found += [way.forward(x, w, win), way.by_input(dy[way], w, win), way.by_filter(x, dy[way], win)]
        return [a.tobytes() for a in found]

    x, w = normal(3, *same.size, channels), normal(1, 3, 3, channels, channels)
    dy = {conv_winograd: normal(3, *same.out, channels), conv_columns: normal(3, *strided.out, channels)}
    dy[direct] = dy[conv_columns]
    monkeypatch.setattr(parallel._blas, "libraries", lambda: [])
    with threadpool_limits(1):
        assert _with_threads(monkeypatch, 1, compute) == _with_threads(monkeypatch, 4, compute)


def test_blas_has_its_threads_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def blas() -> list[int]:
        return [library.get_num_threads() for library in parallel._blas.libraries()]

    seen: list[Any] = []
    with threadpool_limits(3):
        before = blas()
        _with_threads(monkeypatch, 2, lambda: parallel.share(lambda mine: seen.append((blas(), list(mine))), range(5)))
        assert blas() == before
    assert sorted(i for _, mine in seen for i in mine) == [0, 1, 2, 3, 4]
    assert all(threads == [1] * len(before) for threads, _ in seen)


def test_a_failing_block_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(mine: Any) -> None:
        if 0 in mine:
            raise ValueError("block 0")

    with pytest.raises(ValueError, match="block 0"):
        _with_threads(monkeypatch, 2, lambda: parallel.share(work, range(4)))
