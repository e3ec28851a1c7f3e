"""Random bits: loops beside numpy's versions, threads beside one, what TensorFlow 2.21 draws; orders and classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.kernels import philox, philox_loops, random
from sparkflow_runtime.kernels.compiled import Compiled
from sparkflow_runtime.kernels.philox import Stream

STREAMS = [
    Stream(7, 5),
    Stream(2**63 + 3, 2**64 - 50),  # whose lower half runs over
    Stream(2**64 - 1, 2**128 - 700),  # both halves
]


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("loop", ["words", "units", "normals"])
def test_loops_and_numpy_have_the_same_bits(stream: Stream, loop: str) -> None:
    compiled: Compiled = getattr(philox_loops, loop)
    compiled.wait(60)
    parts = stream.parts(128 if loop == "normals" else 1)
    made, wanted = (np.zeros(4 * 1500, np.int32) for _ in range(2))
    compiled(made, parts, 3, 1499), compiled.numpy(wanted, parts, 3, 1499)
    assert np.array_equal(made, wanted) and not made[:12].any() and not made[-4:].any() and made[12:-4].all()


@pytest.mark.parametrize("stream", STREAMS)
def test_values_drawn_again_have_the_same_bits(stream: Stream) -> None:
    philox_loops.normals.wait(60), philox_loops.drawn_again.wait(60)
    parts, made = stream.parts(256), np.zeros(4 * 3000, np.int32)
    philox_loops.normals(made, parts, 0, 3000)
    wanted = made.copy()
    assert (abs(made.view(np.float32)) >= 2).mean() > 0.03
    philox_loops.drawn_again(made, parts, 0, 3000), philox_loops.drawn_again.numpy(wanted, parts, 0, 3000)
    assert np.array_equal(made, wanted) and (abs(made.view(np.float32)) < 2).all()


@pytest.mark.parametrize("draw", [philox.uniform, philox.normal, philox.truncated])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_threads_draw_what_one_does(monkeypatch: pytest.MonkeyPatch, draw: Callable[..., Any], dtype: Any) -> None:
    shape = (150_001, 3) if dtype == np.float32 else (1001, 3)
    together = draw(STREAMS[1], shape, np.dtype(dtype))
    monkeypatch.setattr("sparkflow_runtime.kernels.exp_loops.crew_for", lambda work: None)
    monkeypatch.setattr("sparkflow_runtime.kernels.exp_loops.allowed", lambda: 1)
    alone = draw(STREAMS[1], shape, np.dtype(dtype))
    assert together.shape == shape and together.dtype == dtype and together.tobytes() == alone.tobytes()


def test_a_short_draw_begins_a_long_one() -> None:
    for draw in (philox.uniform, philox.normal, philox.truncated):
        long = draw(STREAMS[0], (70_001,), np.dtype("f4"))
        for count in (0, 1, 3, 4, 5, 2050, 16_383, 16_384, 70_000):
            assert draw(STREAMS[0], (count,), np.dtype("f4")).tobytes() == long[:count].tobytes()
        assert long.flags.owndata


def test_a_stream_goes_on_by_256_counters_a_value() -> None:
    draws = philox.Draws(philox.of_op((87654321, 5)))
    assert draws.take(7) == Stream(87654321, 5 << 64) and draws.skip(3) == Stream(87654321, (5 << 64) + 7 * 256)
    assert draws.take(0) == Stream(87654321, (5 << 64) + 7 * 256 + 3)
    fresh = {philox.Draws(philox.of_op((0, 0))).take(1) for _ in range(3)}
    assert len(fresh) == 3


def test_normal_values_are_tensorflows() -> None:
    """To two units in the last place: its sine and logarithm are the C library's. Of tf.random_normal([6], seed=5)."""
    drawn = philox.normal(Stream(87654321, 5 << 64), (300,), np.dtype("f4"))
    wanted = [-1.1780828, -0.70994139, -1.748158, -0.49537227, 0.24303888, -0.12631302]
    np.testing.assert_allclose(drawn[:6], wanted, 3e-7)
    assert philox.truncated(Stream(87654321, 5 << 64), (8,), np.dtype("f4"))[4:] == pytest.approx(
        [-0.86415327, 1.245701, -0.9056705, 1.5953234], 3e-7
    )


def test_logarithms_and_sines_of_all_quarters() -> None:
    words = np.concatenate([np.arange(3000), np.random.default_rng(1).integers(0, 1 << 23, 50_000), [(1 << 23) - 1]])
    unit = np.maximum(words / 2**23, np.float64(np.float32(1e-7)))
    found = philox_loops.log_unit(words.astype(np.int32))
    np.testing.assert_allclose(found, np.log(unit), 2e-11, 1e-13)
    angles = np.concatenate([np.linspace(0, 2 * np.pi, 50_000), np.arange(5) * np.pi / 2])
    sine, cosine = philox_loops.sine_cosine(angles)
    np.testing.assert_allclose(sine, np.sin(angles), atol=2e-13)
    np.testing.assert_allclose(cosine, np.cos(angles), atol=2e-13)


@pytest.mark.parametrize("count", [2, 3, 1000])
def test_orders(count: int) -> None:
    philox_loops.swapped.wait(60)
    drawn = np.random.default_rng(3).integers(0, 1 << 32, count, np.uint32)
    made, wanted = np.arange(count), np.arange(count)
    philox_loops.swapped(made, drawn), philox_loops.swapped.numpy(wanted, drawn)
    assert np.array_equal(made, wanted) and np.array_equal(np.sort(made), np.arange(count))


@pytest.mark.parametrize("count, classes", [(1, 1), (1, 50), (7, 9), (0, 3)])
def test_classes_are_the_same_however_they_are_found(monkeypatch: pytest.MonkeyPatch, count: int, classes: int) -> None:
    logits = np.random.default_rng(1).normal(0, 3, (40, classes)).astype(np.float32)
    logits[3], logits[5, 0], logits[6, -1] = -np.inf, np.inf, np.nan
    found = []
    for few in (0, 1 << 12):
        monkeypatch.setattr(random, "_FEW", few)
        found.append(random.drawn_classes("here", lambda _: STREAMS[0], logits, np.int32(count), np.int64))
    np.testing.assert_array_equal(*found)
    assert found[0].shape == (40, count) and ((found[0] >= 0) & (found[0] < classes)).all()


@pytest.mark.parametrize("dtype", ["int32", "int64", "float64"])
def test_few_values_are_the_first_of_many(dtype: str) -> None:
    stream, kind = philox.Stream(87654321, 5 << 64), np.dtype(dtype)
    for low, high in ((-3, 1000), (-(1 << 31), (1 << 31) - 1)):

        def drawn(count: int, low: int = low, high: int = high) -> np.ndarray:
            if kind.kind == "f":
                return philox.uniform(stream, (count,), kind)
            return philox.integers(stream, (count,), low, high, kind)

        many = drawn(1000)
        for count in (0, 1, 2, 3, 7, 8, 9, 16, 17):
            few = drawn(count)
            assert few.dtype == kind and few.tobytes() == many[:count].tobytes()
