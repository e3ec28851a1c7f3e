"""Windows that slide over the space axes of a batch: what convolutions and pools share.

Kernels see [batch, depth, height, width, channels] alone: a flat image has depth 1, and "NC..." is transposed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.registry import Node
from sparkflow_runtime.wire.errors import InvalidArgumentError
from sparkflow_runtime.wire.windows import PADDINGS, Slide, slide, spatial_axes

Triple = tuple[int, int, int]


@dataclass(frozen=True)
class Window:
    """One window over one input shape. `size`: of the input's space; the rest a number for depth, height, width."""

    size: Triple
    taps: Triple
    strides: Triple
    dilations: Triple
    before: Triple
    after: Triple
    out: Triple

    @cached_property
    def ways(self) -> dict[Any, Any]:
        """By shapes of arrays, what is best done with them: who moves the window keeps that here."""
        return {}

    @cached_property
    def numbers(self) -> np.ndarray:
        """As the loops take it: taps, strides, dilations, before, out, each for depth, height, width."""
        return np.array([*self.taps, *self.strides, *self.dilations, *self.before, *self.out], np.int64)

    @cached_property
    def of_rows(self) -> np.ndarray:
        """The numbers of a window over width alone, which leaves [depth, height, out width]."""
        width = [of[2] for of in (self.taps, self.strides, self.dilations, self.before)]
        return np.array([1, 1, width[0], 1, 1, width[1], 1, 1, width[2], 0, 0, width[3], *self.size[:2], self.out[2]])

    @cached_property
    def of_columns(self) -> np.ndarray:
        """Those of a window over depth and height of what that leaves, its rows taken for channels."""
        rest = (self.taps, 1), (self.strides, 1), (self.dilations, 1), (self.before, 0), (self.out, 1)
        return np.array([n for of, nothing in rest for n in (nothing, *of[:2])])

    @property
    def trivial(self) -> bool:
        """One tap that visits every cell."""
        return self.taps == self.strides == (1, 1, 1) and self.out == self.size

    def padded(self, xp: Any, x: Any) -> Any:
        if not any(self.before + self.after):
            return x
        return xp.pad(x, ((0, 0), *zip(self.before, self.after), (0, 0)))

    def cut(self, x: Any) -> Any:
        """Undo `padded`."""
        space = [slice(b, b + n) for b, n in zip(self.before, self.size)]
        return x[(slice(None), *space)]

    @property
    def padded_size(self) -> Triple:
        d, h, w = (n + b + a for n, b, a in zip(self.size, self.before, self.after))
        return d, h, w

    def each_tap(self) -> Iterator[tuple[Triple, tuple[slice, ...]]]:
        """(tap, which cells of the padded input it meets), first to last."""
        for tap in product(*map(range, self.taps)):
            starts = [t * d for t, d in zip(tap, self.dilations)]
            space = [slice(a, a + (n - 1) * s + 1, s) for a, n, s in zip(starts, self.out, self.strides)]
            yield tap, (slice(None), *space)  # type: ignore[misc]

    def each_inner_tap(self) -> Iterator[tuple[Triple, tuple[slice, ...], tuple[slice, ...]]]:
        """(tap, cells of the input without padding, the outputs that meet them); taps that meet none are left out."""
        for tap in product(*map(range, self.taps)):
            found = [self._inner(axis, t) for axis, t in enumerate(tap)]
            if all(outputs.stop > outputs.start for _, outputs in found):
                cells, outputs = zip(*found)
                yield tap, (slice(None), *cells), (slice(None), *outputs)  # type: ignore[misc]

    def _inner(self, axis: int, tap: int) -> tuple[slice, slice]:
        stride, at = self.strides[axis], tap * self.dilations[axis] - self.before[axis]
        first = max(0, -(at // stride))
        last = min(self.out[axis] - 1, (self.size[axis] - 1 - at) // stride)
        return slice(first * stride + at, last * stride + at + 1, stride), slice(first, last + 1)


class Sliding:
    """What a node says of its window. `space`: how many axes it slides over, 2 or 3."""

    def __init__(self, node: Node, space: int, strides: Any = None):
        self.op, self.space, self.rank = node.op, space, space + 2
        self.data_format: str = node.attr("data_format", "NHWC" if space == 2 else "NDHWC")
        self.axes, self.channel = spatial_axes(self.data_format, self.rank)
        self.padding: str = node.attr("padding", "VALID")
        if self.padding not in PADDINGS:
            raise InvalidArgumentError(f"{node.op}: padding must be one of {PADDINGS}, got {self.padding!r}")
        self.strides = self._triple(strides if strides is not None else node.attr("strides"), "strides")
        self.dilations = self._triple(node.attr("dilations") or node.attr("rates") or [1] * self.rank, "dilations")
        explicit = list(node.attr("explicit_paddings") or [0] * 2 * self.rank)
        pairs = [(explicit[2 * a], explicit[2 * a + 1]) for a in self.axes]
        self.explicit = [(0, 0)] * (3 - space) + pairs
        self.window = lru_cache(64)(self._window)

    def _triple(self, values: Any, what: str) -> Triple:
        values = list(values)
        others = [values[a] for a in (0, self.channel)] if len(values) == self.rank else []
        if len(values) != self.rank or min(values) < 1 or others != [1, 1]:
            raise InvalidArgumentError(
                f"{self.op}: {what} must be {self.rank} numbers above 0, and 1 for batch and channels "
                f"({self.data_format}), got {values}"
            )
        return self.triple([values[a] for a in self.axes], 1)

    def triple(self, values: Any, filler: int) -> Triple:
        """depth, height, width of numbers for the space axes."""
        d, h, w = [filler] * (3 - self.space) + list(values)
        return d, h, w

    def _window(self, size: Triple, taps: Triple) -> Window:
        slides: list[Slide] = []
        for numbers in zip(size, taps, self.strides, self.dilations, self.explicit):
            try:
                slides.append(slide(*numbers[:4], self.padding, numbers[4]))
            except InvalidArgumentError as error:
                raise InvalidArgumentError(f"{self.op}: {error.message}") from None
        out, before, after = zip(*slides)
        return Window(size, taps, self.strides, self.dilations, before, after, out)

    def shape_in(self, shape: tuple[int, ...], what: str) -> tuple[int, Triple, int]:
        """(batch, space, channels) of a tensor of this layout."""
        if len(shape) != self.rank:
            raise InvalidArgumentError(f"{self.op}: {what} must be of rank {self.rank}, got shape {shape}")
        return shape[0], self.triple([shape[a] for a in self.axes], 1), shape[self.channel]

    def come(self, xp: Any, x: Any, what: str) -> Any:
        """x as [batch, depth, height, width, channels], contiguous."""
        batch, space, channels = self.shape_in(x.shape, what)
        if self.channel == 1:
            x = xp.moveaxis(x, 1, -1)
        elif x.flags.c_contiguous:  # asked for itself: a call of numpy takes as long as all else here
            return x.reshape(batch, *space, channels)
        return xp.ascontiguousarray(x).reshape(batch, *space, channels)

    def leave(self, xp: Any, y: Any) -> Any:
        """What `come` undid."""
        y = y.reshape(y.shape[0], *y.shape[4 - self.space :])
        return y if self.channel != 1 else xp.ascontiguousarray(xp.moveaxis(y, -1, 1))
