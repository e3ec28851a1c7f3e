"""float32 in half the bytes: rounding held against ml_dtypes, both versions of each loop against each other."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from sparkflow_runtime.kernels import compression, half_numbers
from sparkflow_runtime.kernels.compression import (
    from_bfloat16,
    from_float16,
    narrowed,
    to_bfloat16,
    to_float16,
    widened,
)


@pytest.fixture(params=["numpy", "numba"])
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    for loop in (compression._round, compression._widen, compression._round16, compression._widen16):
        monkeypatch.setattr(loop, "_call", loop.numpy if request.param == "numpy" else loop.compile())


def every_kind() -> np.ndarray:
    bits = np.random.default_rng(0).integers(0, 1 << 32, 100_000, dtype=np.uint32)
    ends = np.array([0, 1 << 31, 0x7F800000, 0xFF800000, 0x7F7FFFFF, 0x3F808000, 0x3F818000, 0x7F800001], np.uint32)
    return np.concatenate([bits, ends]).view(np.float32)


@pytest.mark.usefixtures("version")
def test_bfloat16_is_rounded_to_nearest_even() -> None:
    x = every_kind()
    with np.errstate(all="ignore"):
        wanted = x.astype(ml_dtypes.bfloat16)
    got = to_bfloat16(x)
    numbers = ~np.isnan(x)
    assert got.dtype == wanted.dtype
    np.testing.assert_array_equal(got.view(np.uint16)[numbers], wanted.view(np.uint16)[numbers])
    assert np.isnan(from_bfloat16(got)[~numbers]).all()
    np.testing.assert_array_equal(from_bfloat16(got)[numbers], wanted.astype(np.float32)[numbers])


def test_a_processor_without_the_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its loops take the steps, which numba must understand."""
    monkeypatch.setattr(half_numbers, "has_instruction", lambda: False)
    narrow, wide = half_numbers.to_half.make(), half_numbers.of_half.make()
    for value in (0.0, -1.5, 65504.0, 6e-8, 3.1e-5, float("-inf")):
        half = np.float32(value).astype(np.float16)
        assert narrow(np.float32(value).view(np.uint32)) == half.view(np.uint16)
        assert wide(np.uint32(half.view(np.uint16))) == half.astype(np.float32).view(np.uint32)


def test_steps_give_what_the_instruction_gives() -> None:
    halves = np.arange(1 << 16, dtype=np.uint32)
    wide = np.array([half_numbers.exact(h) for h in halves], np.uint32)
    by_loop = np.empty_like(wide)
    compression._widen16.compile()(halves.astype(np.uint16), by_loop)
    np.testing.assert_array_equal(wide, by_loop)
    between = (wide[:, None] + np.array([0, 0xFFF, 0x1000, 0x1001], np.uint32)).reshape(-1)
    given = np.concatenate([every_kind()[:20_000].view(np.uint32), between[::7]])
    narrow = np.array([half_numbers.rounded(b) for b in given], np.uint16)
    by_loop = np.empty_like(narrow)
    compression._round16.compile()(given, by_loop)
    np.testing.assert_array_equal(narrow, by_loop)


@pytest.mark.usefixtures("version")
def test_float16_is_rounded_to_nearest_even() -> None:
    halves = np.arange(1 << 16).astype(np.uint16).view(np.float16)
    wide = halves.astype(np.float32)
    between = wide.view(np.uint32) + np.array([[0xFFF], [0x1000], [0x1001]], np.uint32)  # what rounds up, down, or ties
    small = np.random.default_rng(1).uniform(-(2.0**-13), 2.0**-13, 100_000).astype(np.float32)
    x = np.concatenate([every_kind(), between.reshape(-1).view(np.float32), small, small * 2.0**-12])
    with np.errstate(all="ignore"):
        wanted = x.astype(np.float16)
    numbers = ~np.isnan(x)
    np.testing.assert_array_equal(to_float16(x).view(np.uint16)[numbers], wanted.view(np.uint16)[numbers])
    np.testing.assert_array_equal(np.signbit(to_float16(x)), np.signbit(x))
    assert np.isnan(to_float16(x)[~numbers]).all()
    np.testing.assert_array_equal(from_float16(halves), wide)
    np.testing.assert_array_equal(np.signbit(from_float16(halves)), np.signbit(wide))


def test_both_versions_give_the_same_bits_for_what_is_no_number() -> None:
    nans = np.array([0x7F800001, 0xFFFFFFFF, 0x7FC00123], np.uint32)
    narrow, wide = (np.zeros((2, 3), np.uint16), np.zeros((2, 3), np.uint32))
    for i, (shrink, grow) in enumerate(
        [
            (compression._round16.numpy, compression._widen16.numpy),
            (compression._round16.compile(), compression._widen16.compile()),
        ]
    ):
        shrink(nans, narrow[i])
        grow(narrow[0] | np.uint16(1), wide[i])
    assert narrow[0].tolist() == narrow[1].tolist() and wide[0].tolist() == wide[1].tolist()


@pytest.mark.usefixtures("version")
def test_shapes_and_strides() -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4).transpose(2, 0, 1)
    assert (from_bfloat16(to_bfloat16(x)) == x).all()
    assert (from_float16(to_float16(x)) == x).all()
    assert to_bfloat16(np.zeros((0, 3), np.float32)).shape == (0, 3)
    x = np.ascontiguousarray(x)
    x.setflags(write=False)  # as constants are
    narrow = to_bfloat16(x)
    narrow.setflags(write=False)
    assert (from_bfloat16(narrow) == x).all()


def test_float16_overflows_to_infinity_without_a_word() -> None:
    assert from_float16(to_float16(np.array([1e6, -1e6, 1e-9], np.float32))).tolist() == [np.inf, -np.inf, 0]


def test_a_bundle() -> None:
    big, small = np.linspace(0, 1, 300, dtype=np.float32), np.float32([1.1])
    tensors = [np.uint8([1]), big, small, np.arange(300), big.astype(ml_dtypes.bfloat16), big, big]
    sent = narrowed(tensors, ["bfloat16", "bfloat16", "float16", "bfloat16", "float32", "float16"])
    assert sent[0].tolist() == [0, 1, 0, 0, 0, 0, 1]
    assert [t.dtype.name for t in sent[2:4]] == ["bfloat16", "float32"] and sent[7].dtype == np.float16
    back = widened(sent)
    assert back is not None and [t.dtype for t in back] == [t.dtype for t in tensors]
    np.testing.assert_allclose(back[1], big, rtol=1 / 256)
    np.testing.assert_allclose(back[6], big, rtol=1 / 2048)
    assert all(a is b for a, b in zip(back[2:6], tensors[2:6], strict=True))


@pytest.mark.parametrize("sent", [[], [np.uint8([1])], [np.float32([1]), np.zeros(3)], [np.uint8([1]), np.zeros(3)]])
def test_what_is_no_such_bundle(sent: list[np.ndarray]) -> None:
    assert widened(sent) is None
