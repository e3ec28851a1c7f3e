"""Every loop of records/ as machine code and as Python."""

from __future__ import annotations

import pytest

from sparkflow_runtime.records import encode_loops, example_loops, framing

LOOPS = (
    framing._walk,
    example_loops.index,
    example_loops.floats,
    example_loops.ints,
    example_loops.byte_spans,
    encode_loops.rows,
)


@pytest.fixture(params=["machine code", "python"])
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    for loop in LOOPS:
        code = loop._call if hasattr(loop._call, "signatures") else loop.compile()
        monkeypatch.setattr(loop, "_call", code if request.param == "machine code" else loop.numpy)
    return str(request.param)
