"""Projective transforms of images."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.oracle.cases.table import cases
from tests.oracle.cases.values import i32
from tests.oracle.compare import EXACT, Tolerance

_TRANSFORMS = np.array(
    [
        [1, 0, 0, 0, 1, 0, 0, 0],
        [0.8, -0.6, 1.7, 0.6, 0.8, -0.9, 0, 0],
        [1, 0, -2.25, 0, 1, 3.5, 0, 0],
        [1.3, 0.2, -3.1, -0.1, 1.7, -4.3, 0.02, -0.03],
        [1, 0, 0, 0, 1, 0, -0.25, 0],  # of its columns one is nowhere
    ],
    np.float32,
)


def _images(dtype: str, *shape: int) -> np.ndarray:
    values = np.random.default_rng(3).random(shape) * (100 if dtype in ("uint8", "int32") else 1)
    return values.astype(dtype)


def _seen(filled: bool) -> Any:
    def make(dtype: str) -> Iterator[Any]:
        x = _images(dtype, 5, 6, 7, 2)
        rest = [np.float32(3)] if filled else []
        for interpolation in ("NEAREST", "BILINEAR"):
            for mode in ("CONSTANT", "REFLECT", "WRAP", "NEAREST"):
                attrs = {"interpolation": interpolation, "fill_mode": mode}
                yield f"{interpolation}-{mode}", [x, _TRANSFORMS, i32(5, 9), *rest], attrs
        attrs = {"interpolation": "BILINEAR"}
        yield "one", [x, _TRANSFORMS[1:2], i32(6, 7), *rest], attrs
        yield "few", [x, _TRANSFORMS[:3], i32(6, 7), *rest], attrs
        yield "seven", [x, _TRANSFORMS[:, :7], i32(6, 7), *rest], attrs
        yield "none", [x, _TRANSFORMS, i32(0, 7), *rest], attrs

    return make


for _op, _filled in (("ImageProjectiveTransformV2", False), ("ImageProjectiveTransformV3", True)):
    cases(_op, ("float32", "float64"), _seen(_filled), Tolerance(64, scaled=True))
    cases(_op, ("uint8", "int32"), _seen(_filled), EXACT)
