"""Windows laid out as columns, and grey-scale morphology. A window is kernels/windows.py's."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

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

    def window(self, x: Any, taps: Any) -> Window:
        if x.ndim != 4 or taps.ndim != 3 or taps.shape[2] != x.shape[3]:
            raise InvalidArgumentError(
                f"{self.op}: input must be [batch, height, width, channels] and filter [height, width, channels], got "
                f"{list(x.shape)} and {list(taps.shape)}"
            )
        return self.sliding.window((1, *x.shape[1:3]), (1, *taps.shape[:2]))

    def best(self, x: Any, taps: Any, window: Window) -> tuple[Any, Any]:
        shape = (len(x), *window.out[1:], x.shape[3])
        found, which = self.xp.full(shape, _least(x.dtype), x.dtype), self.xp.full(shape, -1, np.int32)
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


@bound("Dilation2D", stateful=False)
def _dilation(node: Node) -> Function:
    own = _Dilation(node)
    return lambda x, taps: own.best(x, taps, own.window(x, taps))[0]


@bound("Dilation2DBackpropInput", "Dilation2DBackpropFilter", stateful=False)
def _dilation_grad(node: Node) -> Function:
    own, xp, of_input = _Dilation(node), node.xp, node.op.endswith("Input")

    def run(x: Any, taps: Any, dy: Any) -> Any:
        window = own.window(x, taps)
        _, which = own.best(x, taps, window)
        if dy.shape != which.shape:
            raise InvalidArgumentError(
                f"{node.op}: out_backprop must have shape {list(which.shape)}, got {list(dy.shape)}"
            )
        out = xp.zeros_like(x if of_input else taps)
        for number, (tap, cells, outputs) in enumerate(own.taps(window)):
            share = xp.where(which[outputs] == number, dy[outputs], 0)
            if of_input:
                out[cells] += share
            else:
                out[tap] += share.sum((0, 1, 2))
        return out

    return run
