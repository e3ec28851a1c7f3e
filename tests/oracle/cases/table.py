"""The table of cases: a family adds, for an op type, a function dtype -> cases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tests.oracle.compare import EXACT, Tolerance

Inputs = Sequence[Any]  # arrays; a list of arrays for an argument that is a list


@dataclass(frozen=True)
class Case:
    """One op on given inputs. grad: its gradients are compared as well (twice: of the gradients too).

    known: why it is known to differ from TensorFlow; the test then demands that it still does.
    """

    op: str
    inputs: tuple[Any, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    label: str = ""
    dtype: str = ""
    tolerance: Tolerance = EXACT
    grad: bool = False
    second: bool = False
    known: str = ""

    @property
    def id(self) -> str:
        return "-".join(part for part in (self.op, self.dtype, self.label) if part)

    def arrays(self) -> list[np.ndarray]:
        return [a for i in self.inputs for a in (i if isinstance(i, list) else [i])]


Make = Callable[[str], Iterable[Case]]

_TABLE: dict[str, dict[str, list[Case]]] = {}


def add(case: Case) -> None:
    same = [c for c in _TABLE.setdefault(case.op, {}).setdefault(case.dtype, []) if c.label.split("#")[0] == case.label]
    _TABLE[case.op][case.dtype].append(replace(case, label=f"{case.label}#{len(same)}") if same else case)


def cases(
    op: str,
    dtypes: Iterable[str],
    make: Callable[[str], Iterable[Any]],
    tolerance: Tolerance = EXACT,
    **options: Any,
) -> None:
    """make(dtype) yields (label, inputs), or (label, inputs, attrs), or (label, inputs, attrs, options of Case)."""
    for dtype in dtypes:
        for label, inputs, *more in make(dtype):
            attrs = more[0] if more else {}
            own = more[1] if len(more) > 1 else {}
            add(Case(op, tuple(inputs), attrs, label, dtype, **{"tolerance": tolerance, **options, **own}))


def table() -> dict[str, dict[str, list[Case]]]:
    """op type -> dtype -> its cases."""
    from tests.oracle.cases import array, elementwise, joins, nn, parts, reduce  # noqa: F401 - each fills it

    return _TABLE
