"""Every loop of records/ as machine code and as Python."""

from __future__ import annotations

import pytest

from sparkflow_runtime.records import fingerprints, murmur_hashes, ready, sip_hashes

LOOPS = (*ready.LOOPS, fingerprints._held, sip_hashes._held, murmur_hashes._held)


@pytest.fixture(params=["machine code", "python"])
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    for loop in LOOPS:
        code = loop._call if hasattr(loop._call, "signatures") else loop.compile()
        monkeypatch.setattr(loop, "_call", code if request.param == "machine code" else loop.numpy)
    return str(request.param)
