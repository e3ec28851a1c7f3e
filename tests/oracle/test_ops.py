"""Every op of the table on its cases: values, dtypes, shapes, errors and gradients are TensorFlow's."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest

from tests.oracle.cases.table import Case, table
from tests.oracle.known import reason
from tests.oracle.oneop import backward, forward


def _groups() -> list[Any]:
    """The cases of an op and dtype are one test, but for those that are known to differ: each is one that must fail."""
    params = []
    for op, by_dtype in table().items():
        for dtype, all_cases in by_dtype.items():
            alike = [c for c in all_cases if not reason(c.id)]
            params.append(pytest.param(alike, id=f"{op}-{dtype}"))
            for case in all_cases:
                if why := reason(case.id):
                    params.append(pytest.param([case], id=case.id, marks=pytest.mark.xfail(reason=why, strict=True)))
    return params


@pytest.mark.parametrize("cases", _groups())
def test_op(cases: list[Case], session_config: Any, tally: Any) -> None:
    wrong: dict[str, list[str]] = {}
    for case in cases:
        findings = list(chain(forward(case, session_config), backward(case, session_config) if case.grad else ()))
        for where, what, _ in findings:
            if what:
                wrong.setdefault(f"{case.id}: {what}", []).append(where)
        if findings:
            count, worst = tally.get((case.op, case.dtype), (0, 0.0))
            tally[case.op, case.dtype] = count + 1, max([worst, *(f.ulps for f in findings if not f.what)])
    assert not wrong, "\n" + "\n".join(f"{what} ({'; '.join(where)})" for what, where in wrong.items())
