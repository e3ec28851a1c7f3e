"""Freed blocks stay in the process for the next step, unless the user has set the allocator."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from sparkflow_runtime import memory

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
