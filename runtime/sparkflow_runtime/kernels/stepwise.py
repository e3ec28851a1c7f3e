"""Elementwise kernels of several steps: each block goes through all of them while it is in the cache.

The steps are those of `fused_steps.py`, run by the machine that runs fused nodes; small arrays, other types and other
array modules take the kernel's own whole-array form, which has the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import Parameter, signature
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.fused_machine import Machine, Member, prepare
from sparkflow_runtime.kernels.registry import Function, Node, bound

_WORTH = 1 << 13  # elements


def stepwise(op: str, inputs: int = 1) -> Callable[[Function], Function]:
    """Register `fn(xp, *inputs, **attrs)` for an op that has a recipe in fused_steps.py."""

    def register(fn: Function) -> Function:
        wanted = [p.name for p in signature(fn).parameters.values() if p.kind is Parameter.KEYWORD_ONLY]

        def factory(node: Node) -> Function:
            whole = partial(fn, node.xp, **{name: node.attrs[name] for name in wanted if name in node.attrs})
            if node.xp is not np:
                return lambda *arrays, out=None: whole(*arrays)
            machine = Machine([Member.of(op, [(False, i) for i in range(inputs)], node.attrs)], [0], inputs)
            prepare()

            def run(*arrays: Any, out: Any = None) -> Any:
                found = machine.run(arrays, out) if arrays[0].size >= _WORTH else None
                return whole(*arrays) if found is None else found[0]

            return run

        bound(op, stateful=False, in_place=tuple(range(inputs)))(factory)
        return fn

    return register
