"""Tensors that are away between two uses: `_SwapOut` begins to write one to a file, `_SwapAhead` to read it back, and
`_SwapIn` hands it on. master/passes/swap.py puts them into a graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.registry import Function, Node, bound
from sparkflow_runtime.resources.swap_file import Swapped, swap_file


@bound("_SwapOut", stateful=False)
def _swap_out(node: Node) -> Function:
    """What is no array of the host stays where it is."""

    def run(x: Any) -> Any:
        return swap_file().put(x, node.inputs[0]) if type(x) is np.ndarray and x.dtype.kind != "O" else x

    return run


@bound("_SwapAhead", stateful=False)
def _swap_ahead(node: Node) -> Function:
    def run(away: Any) -> Any:
        if type(away) is Swapped:
            away.fetch()
        return away

    return run


@bound("_SwapIn", stateful=False, aliases=True)
def _swap_in(node: Node) -> Function:
    return lambda away: away.take() if type(away) is Swapped else away
