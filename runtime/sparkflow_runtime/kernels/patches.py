"""Windows laid out as columns, and grey-scale morphology. A window is kernels/windows.py's."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from sparkflow_runtime.kernels import dilation_loops
from sparkflow_runtime.kernels.exp_loops import in_parts
from sparkflow_runtime.kernels.registry import Function, Node, bound
from sparkflow_runtime.kernels.windows import Sliding, Window
from sparkflow_runtime.wire.errors import InvalidArgumentError


def _patches(op: str, space: int) -> None:
    @bound(op, stateful=False)
    def factory(node: Node) -> Function:
        sliding, xp = Sliding(node, space), node.xp
        taps = sliding.triple(list(node.attrs["ksizes"])[1:-1], 1)

        def run(x: Any) -> Any:
            batch, size, channels = sliding.shape_in(x.shape, "input")
            window = sliding.window(size, taps)
            padded = window.padded(xp, x.reshape(batch, *size, channels))
            seen = [padded[cells] for _, cells in window.each_tap()]
            out = xp.concatenate(seen, -1) if seen[0].size else xp.zeros((*seen[0].shape[:-1], channels * len(seen)))
            return out.reshape(batch, *window.out[3 - space :], -1 if out.size else channels * len(seen)).astype(
                x.dtype, copy=False
            )

        return run


_patches("ExtractImagePatches", 2)
_patches("ExtractVolumePatches", 3)


def _least(dtype: Any) -> Any:
    return np.iinfo(dtype).min if dtype.kind in "iu" else ml_dtypes.finfo(dtype).min


class _Dilation:
    """One Dilation2D node: the best sum in each window, and which tap has it (the first of equal ones)."""

    def __init__(self, node: Node):
        self.op, self.xp, self.sliding = node.op, node.xp, Sliding(node, 2)
        dilation_loops.highest.prepare()

    def window(self, x: Any, taps: Any) -> Window:
        if x.ndim != 4 or taps.ndim != 3 or taps.shape[2] != x.shape[3]:
            raise InvalidArgumentError(
                f"{self.op}: input must be [batch, height, width, channels] and filter [height, width, channels], got "
                f"{list(x.shape)} and {list(taps.shape)}"
            )
        return self.sliding.window((1, *x.shape[1:3]), (1, *taps.shape[:2]))

    def by_loops(self, x: Any) -> bool:
        return self.xp is np and x.dtype in (np.float32, np.float64) and x.size > 0

    def best(self, x: Any, taps: Any, window: Window) -> tuple[Any, Any]:
        shape = (len(x), *window.out[1:], x.shape[3])
        found, which = self.xp.full(shape, _least(x.dtype), x.dtype), self.xp.full(shape, -1, np.int32)
        if self.by_loops(x):
            repeated = np.tile(taps.reshape(-1, x.shape[3]), window.out[2]).reshape(-1)
            flat = [np.ascontiguousarray(x).reshape(-1), repeated, found.reshape(-1), which.reshape(-1)]
            in_parts(dilation_loops.highest, len(x), _each(found, taps), *flat, *_numbers(x, window))
            return found, which
        for number, (tap, cells, outputs) in enumerate(self.taps(window)):
            sums = x[cells] + taps[tap]
            better = sums > found[outputs]
            found[outputs] = self.xp.where(better, sums, found[outputs])
            which[outputs] = self.xp.where(better, number, which[outputs])
        return found, which

    @staticmethod
    def taps(window: Window) -> Any:
        """(tap, the cells it meets, the outputs that meet them), without the axis of depth."""
        for tap, cells, outputs in window.each_inner_tap():
            yield tap[1:], (cells[0], *cells[2:]), (outputs[0], *outputs[2:])

    def to_cells(self, x: Any, which: Any, dy: Any, window: Window) -> Any:
        out = self.xp.zeros_like(x)
        if self.by_loops(x) and dy.dtype == x.dtype:
            flat = [which.reshape(-1), np.ascontiguousarray(dy).reshape(-1), out.reshape(-1)]
            in_parts(dilation_loops.give_to_cells, len(x), _each(which), *flat, *_numbers(x, window))
            return out
        for number, (_, cells, outputs) in reversed(list(enumerate(self.taps(window)))):
            out[cells] += self.xp.where(which[outputs] == number, dy[outputs], 0)
        return out

    def to_taps(self, taps: Any, which: Any, dy: Any, window: Window) -> Any:
        if self.by_loops(dy):
            sums = np.zeros(taps.size)
            flat = [which.reshape(-1), np.ascontiguousarray(dy).reshape(-1), sums]
            dilation_loops.give_to_taps(*flat, taps.shape[2])
            return sums.reshape(taps.shape).astype(taps.dtype)
        out = self.xp.zeros_like(taps)
        for number, (tap, _, outputs) in enumerate(self.taps(window)):
            out[tap] += self.xp.where(which[outputs] == number, dy[outputs], 0).sum((0, 1, 2))
        return out


def _numbers(x: Any, window: Window) -> tuple[np.ndarray, np.ndarray]:
    """As the loops take them: the window, and the sizes of the input."""
    return window.numbers, np.array([1, *x.shape[1:]], np.int64)


def _each(outputs: Any, taps: Any = None) -> int:
    """How much work an image is."""
    return outputs.size // max(1, len(outputs)) * (1 if taps is None else taps.shape[0] * taps.shape[1])


@bound("Dilation2D", stateful=False)
def _dilation(node: Node) -> Function:
    own = _Dilation(node)
    return lambda x, taps: own.best(x, taps, own.window(x, taps))[0]


@bound("Dilation2DBackpropInput", "Dilation2DBackpropFilter", stateful=False)
def _dilation_grad(node: Node) -> Function:
    own, of_input = _Dilation(node), node.op.endswith("Input")
    (dilation_loops.give_to_cells if of_input else dilation_loops.give_to_taps).prepare()

    def run(x: Any, taps: Any, dy: Any) -> Any:
        window = own.window(x, taps)
        _, which = own.best(x, taps, window)
        if dy.shape != which.shape:
            raise InvalidArgumentError(
                f"{node.op}: out_backprop must have shape {list(which.shape)}, got {list(dy.shape)}"
            )
        return own.to_cells(x, which, dy, window) if of_input else own.to_taps(taps, which, dy, window)

    return run
