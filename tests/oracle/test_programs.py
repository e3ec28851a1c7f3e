"""Every program gives the same in both libraries, whichever of them built the graph."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle.program import Program, findings
from tests.oracle.programs import PROGRAMS


def _param(program: Program) -> Any:
    marks = [pytest.mark.xfail(reason=program.known, strict=True)] if program.known else []
    return pytest.param(program, id=program.name, marks=marks)


@pytest.mark.parametrize("program", [_param(p) for p in PROGRAMS])
def test_program(program: Program, session_config: Any, tally: Any) -> None:
    found = list(findings(program, session_config))
    for op in program.ops:
        count, worst = tally.get((op, "program"), (0, 0.0))
        tally[op, "program"] = count + 1, max([worst, *(f.ulps for f in found if not f.what)])
    wrong = [f"{f.where}: {f.what}" for f in found if f.what]
    assert not wrong, "\n" + "\n".join(wrong)
