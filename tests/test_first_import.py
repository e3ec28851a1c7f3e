"""A task unpickles what it is sent before it has imported anything of ours, so these modules may be the first ones."""

from __future__ import annotations

import subprocess
import sys

import pytest

FIRST = [
    "sparkflow_connectors.job", "sparkflow_connectors.column_types", "sparkflow_connectors.packing",
    "sparkflow_connectors.model", "sparkflow_runtime.records.ready", "sparkflow_runtime.wire.dtypes",
]  # fmt: skip


@pytest.mark.parametrize("module", FIRST)
def test_the_first_import_of_a_process(module: str) -> None:
    done = subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
