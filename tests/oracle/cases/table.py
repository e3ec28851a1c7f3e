"""The table of cases: a family adds, for an op type, a function dtype -> cases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np

from sparkflow.framework.registry import registered
from tests.oracle.compare import EXACT, Tolerance

Inputs = Sequence[Any]  # arrays; a list of arrays for an argument that is a list


@dataclass(frozen=True)
class Case:
    """One op on given inputs. grad: its gradients are compared as well; second: so are the gradients' gradients.

    brief: inputs are fed, and not also constants; for the types that only move through an op like all others.
    outputs: which of the op's outputs are compared; all, when empty.
    """

    op: str
    inputs: tuple[Any, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    label: str = ""
    dtype: str = ""
    tolerance: Tolerance = EXACT
    grad: bool = False
    second: bool = False
    brief: bool = False
    outputs: tuple[int, ...] = ()

    @property
    def id(self) -> str:
        return "-".join(part for part in (self.op, self.dtype, self.label) if part)

    def arrays(self) -> list[np.ndarray]:
        return [a for i in self.inputs for a in (i if isinstance(i, list) else [i])]


Make = Callable[[str], Iterable[Case]]

_MAIN = {"float32", "float64", "bfloat16", "int32", "complex64", "bool", "string"}
_FEW = 8

_TABLE: dict[str, dict[str, list[Case]]] = {}


def add(case: Case) -> None:
    same = [c for c in _TABLE.setdefault(case.op, {}).setdefault(case.dtype, []) if c.label.split("#")[0] == case.label]
    _TABLE[case.op][case.dtype].append(replace(case, label=f"{case.label}#{len(same)}") if same else case)


def cases(
    op: str,
    dtypes: Iterable[str],
    make: Callable[[str], Iterable[Any]],
    tolerance: Tolerance = EXACT,
    every: bool = False,
    **options: Any,
) -> None:
    """make(dtype) yields (label, inputs), or (label, inputs, attrs), or (label, inputs, attrs, options of Case).

    Ops that are not registered are left out. Types beside the main ones get the first few cases only, unless `every`
    says otherwise.
    """
    if op not in registered():
        return
    for dtype in dtypes:
        main = every or dtype in _MAIN
        options["brief"] = not main
        for label, inputs, *more in islice(make(dtype), None if main else _FEW):
            attrs = more[0] if more else {}
            own = more[1] if len(more) > 1 else {}
            add(Case(op, tuple(inputs), attrs, label, dtype, **{"tolerance": tolerance, **options, **own}))


def table() -> dict[str, dict[str, list[Case]]]:
    """op type -> dtype -> its cases."""
    from tests.oracle.cases import (  # noqa: F401 - each fills it
        array,
        blocks,
        boxes,
        conv,
        counts,
        ctc,
        edges,
        elementwise,
        functions,
        images,
        joins,
        linalg,
        messages,
        nn,
        odds,
        parts,
        patches,
        reduce,
        segments,
        sets,
        sparse,
        special,
        spread,
        strings,
        transforms,
    )

    return _TABLE
