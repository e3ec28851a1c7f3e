"""The table of kernels, whose answers are remembered."""

from __future__ import annotations

import pytest

import sparkflow_runtime.kernels.table  # noqa: F401  (fills the kernel table)
from sparkflow_runtime.kernels import registry
from sparkflow_runtime.wire.errors import UnimplementedError


def test_a_kernel_that_comes_later_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    registry.load_all()  # into the table that stays
    monkeypatch.setattr(registry, "_KERNELS", dict(registry._KERNELS))
    monkeypatch.setattr(registry, "_FOUND", {})
    assert registry.rows("NotThereYet") == (None, None)
    with pytest.raises(UnimplementedError, match="NotThereYet"):
        registry.find("NotThereYet", "CPU")
    registry.kernel("NotThereYet")(lambda xp, x: x)
    assert registry.find("NotThereYet", "CPU") is registry.rows("NotThereYet")[0]


def test_a_row_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_FOUND", {})
    looked: list[str] = []
    look_up = registry._looked_up
    monkeypatch.setattr(registry, "_looked_up", lambda op: (looked.append(op), look_up(op))[1])
    assert not registry.is_stateful("Add") and registry.ref_positions("Add") == frozenset()
    assert looked == ["Add"]


@pytest.mark.parametrize("op", ["StringJoin", "RegexReplace", "DecodePng", "SerializeTensor", "ParseExample"])
def test_what_no_gpu_can_hold_is_for_the_cpu_alone(op: str) -> None:
    assert registry.find(op, "CPU").op == op and not registry.has_kernel(op, "GPU")
    with pytest.raises(UnimplementedError, match=r"no kernel for device type 'GPU'; it has one for \['CPU'\]"):
        registry.find(op, "GPU")
