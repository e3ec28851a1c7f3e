"""Freed blocks stay in the process for the next step, unless the user has set the allocator."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sparkflow_runtime import memory
from sparkflow_runtime.wire.errors import InvalidArgumentError

FAULTS = """
import resource
import numpy as np
from sparkflow_runtime.memory import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        a, b = np.ones(1 << 19), np.ones(1 << 19)  # two of 4 MiB, freed in each round
        del a, b
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

kept = keep_freed_memory()
faults()
print(kept, faults())
"""


def run(**variables: str) -> tuple[int, int]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_TUNABLES", "SPARKFLOW_KEEP"))}
    ran = subprocess.run(
        [sys.executable, "-c", FAULTS], env={**clean, **variables}, capture_output=True, text=True, check=True
    )
    kept, faults = ran.stdout.split()
    return int(kept), int(faults)


@pytest.mark.skipif(
    not hasattr(os, "confstr") or "glibc" not in (os.confstr("CS_GNU_LIBC_VERSION") or ""), reason="glibc"
)
def test_big_blocks_are_not_mapped_anew_for_every_step() -> None:
    kept, faults = run()
    assert kept > 0
    assert faults < 100  # 20 rounds of 2,048 pages otherwise


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("MALLOC_TRIM_THRESHOLD_", "131072"),
        ("GLIBC_TUNABLES", "glibc.malloc.mmap_threshold=131072"),
        ("SPARKFLOW_KEEP_MEMORY", "0"),
    ],
)
def test_a_users_setting_stays(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    for name in ("GLIBC_TUNABLES", "SPARKFLOW_KEEP_MEMORY", *memory._VARIABLES):
        monkeypatch.delenv(name, raising=False)
    assert memory.pinned_by() is None
    monkeypatch.setenv(variable, value)
    assert memory.pinned_by() == variable
    memory.keep_freed_memory.cache_clear()
    assert memory.keep_freed_memory() == 0
    memory.keep_freed_memory.cache_clear()


def test_the_limit_is_the_users_or_the_containers_or_the_machines(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(memory.LIMIT, raising=False)
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    group, none = tmp_path / "memory.max", tmp_path / "none"
    monkeypatch.setattr(memory, "_CGROUP_LIMITS", (str(group), str(none)))
    group.write_text("max\n")
    assert memory.limit_bytes() == machine
    group.write_text("1000000\n")
    assert memory.limit_bytes() == 1000000
    monkeypatch.setenv(memory.LIMIT, "123")
    assert memory.limit_bytes() == 123
    monkeypatch.setenv(memory.LIMIT, "2GB")
    with pytest.raises(InvalidArgumentError, match="number of bytes, got '2GB'"):
        memory.limit_bytes()
