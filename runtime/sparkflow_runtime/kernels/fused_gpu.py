"""Fused nodes on a GPU: a node's program of steps (fused_steps) as one kernel of cupy's.

Each value is read and written once, which is what a chain of elementwise ops costs there. A kernel is compiled by the
first call with its types, and cupy keeps it on disk. Its last bits may be others than those of the nodes one by one: a
GPU multiplies and adds in one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.elementwise_gpu import C_TYPES, FORMS, LIBRARY, Elementwise
from sparkflow_runtime.kernels.fused_machine import Member
from sparkflow_runtime.kernels.fused_steps import BOOL, Operand, Step, Tracer, Unsupported, trace

_Key = tuple[tuple[np.dtype[Any], bool], ...]  # of each input its type, and whether it has the result's shape

_OF_FLOATS = frozenset(["absolute", *LIBRARY])
_NOT_OF_BOOLS = _OF_FLOATS.union(
    ["negative", "sign", "square", "add", "subtract", "multiply", "true_divide", "maximum", "minimum"]
)


class GpuMachine:
    """Of one fused node; `run` gives None where its nodes have to run one by one."""

    def __init__(self, xp: Any, members: Sequence[Member], outputs: Sequence[int]):
        self._xp, self._members, self._outputs = xp, tuple(members), tuple(outputs)

    def run(self, inputs: Sequence[Any], out: Any = None) -> list[Any] | None:
        """out: where the only output goes; it may be an input of its type and shape."""
        try:
            shape = np.broadcast_shapes(*(x.shape for x in inputs))
        except ValueError:  # one of the nodes will say so
            return None
        key = tuple((x.dtype, x.shape == shape) for x in inputs)
        made = _compile(self._xp, self._members, self._outputs, key)
        return None if made is None else made(inputs, () if out is None else (out,))


@lru_cache(maxsize=256)
def _compile(xp: Any, members: tuple[Member, ...], outputs: tuple[int, ...], key: _Key) -> Elementwise | None:
    """One kernel for all nodes that are made alike."""
    try:
        results, text = source_of(members, outputs, key)
    except (Unsupported, KeyError):
        return None
    return Elementwise(xp, [dtype for dtype, _ in key], results, text, "sparkflow_fused")


def source_of(members: Sequence[Member], outputs: Sequence[int], key: _Key) -> tuple[list[np.dtype[Any]], str]:
    """The types that a kernel gives, and its text. Raises Unsupported or KeyError where there is none."""
    tracer = Tracer()
    tracer.of_numpy = False  # log1p and its like as the C library has them
    given = [Operand("input", i, dtype, full) for i, (dtype, full) in enumerate(key)]
    values: list[Operand] = []
    for member in members:
        args = [values[i] if inside else given[i] for inside, i in member.sources]
        values.append(trace(tracer, member.op, dict(member.parameters), args))
    results = [values[i] for i in outputs]
    if not all(result.kind == "step" and result.full for result in results) or any(d not in C_TYPES for d, _ in key):
        raise Unsupported("an output of another shape")
    lines = [_line(i, step, tracer) for i, step in enumerate(tracer.steps)]
    lines += [f"y{k} = s{result.index};" for k, result in enumerate(results)]
    return [result.dtype for result in results], "\n".join(lines)


def _line(index: int, step: Step, tracer: Tracer) -> str:
    name = step.ufunc.partition(":")[0]
    kinds = {a.dtype.kind for a in step.args}
    if name == "absolute" and kinds == {"i"}:
        name = "absolute of integers"
    if (name in _OF_FLOATS and kinds != {"f"}) or (name in _NOT_OF_BOOLS and "b" in kinds):
        raise Unsupported(f"{name} of {kinds}")
    kind = C_TYPES[step.out.dtype]
    return f"const {kind} s{index} = {FORMS[name].format(*(_operand(a, tracer) for a in step.args), t=kind)};"


def _operand(operand: Operand, tracer: Tracer) -> str:
    if operand.kind == "const":
        value = tracer.consts[operand.index]
        return f"({C_TYPES[value.dtype]})({int(value) if value.dtype == BOOL else value.item()!r})"
    return f"{'x' if operand.kind == 'input' else 's'}{operand.index}"
