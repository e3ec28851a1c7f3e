"""What this process runs on, as far as speed depends on it: libraries, BLAS's core type, threads, memory, GPU.

`findings()` changes nothing that making a session would not. `python -m sparkflow doctor` prints them.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sparkflow_runtime import memory, threads

CORE_TYPE = "OPENBLAS_CORETYPE"
_PROBE_TIMEOUT_S = 60.0
_PACKAGES = ("numpy", "numba", "pyarrow", "protobuf", "tensorboard")
# Prints the core type that OpenBLAS takes and the rate of a product on one thread.
_PROBE = """
import sys, time
import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits
from sparkflow_runtime.environment import multiply_rate
core = next((i.get("architecture", "") for i in threadpool_info() if i["user_api"] == "blas"), "")
with threadpool_limits(1):
    print(core or "?", multiply_rate() if sys.argv[1:] else 0.0)
"""


class Finding(NamedTuple):
    """One line of a report. warning: what is not as it should be, and the next step."""

    name: str
    value: str
    warning: str = ""


def findings(measure: bool = False) -> Iterator[Finding]:
    """measure: also how fast BLAS multiplies, with and without the environment's core type (a few seconds)."""
    yield Finding("Python", f"{platform.python_version()} ({sys.executable})")
    yield Finding("processors", f"{threads.processors()} usable of {os.cpu_count()}")
    for package in _PACKAGES:
        yield Finding(package, _version(package) or "not installed")
    yield from _blas(measure)
    yield _threads()
    yield _memory()
    yield _gpu()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


# ---------------------------------------------------------------------- BLAS


def _blas(measure: bool) -> Iterator[Finding]:
    from threadpoolctl import threadpool_info

    libraries = [info for info in threadpool_info() if info["user_api"] == "blas"]
    for info in libraries:
        name, core = info["internal_api"], info.get("architecture")
        kind = f", kernels for {core}" if core else ""
        yield Finding("BLAS", f"{name} {info.get('version') or '?'}{kind} ({info['filepath']})")
    if not libraries:
        yield Finding("BLAS", "unknown", "threadpoolctl knows none of numpy's libraries: thread limits have no effect")
    elif libraries[0]["internal_api"] == "openblas":
        yield _core_type(str(libraries[0].get("architecture", "?")), measure)


def _core_type(core: str, measure: bool) -> Finding:
    pinned = os.environ.get(CORE_TYPE)
    if pinned is None:
        rate = f", {_probe({}, True)[1]:.0f} GFLOP/s a thread" if measure else ""
        return Finding("BLAS core type", f"{core}, chosen by OpenBLAS itself{rate}")
    own, own_rate = _probe({CORE_TYPE: None}, measure)
    if own == core:
        return Finding("BLAS core type", f"{core}, as {CORE_TYPE}={pinned} says and OpenBLAS would choose")
    gain = f" ({_probe({}, True)[1]:.0f} and {own_rate:.0f} GFLOP/s a thread)" if measure else ""
    return Finding(
        "BLAS core type",
        f"{core}, pinned by {CORE_TYPE}={pinned}; OpenBLAS itself would choose {own}{gain}",
        f"Products of matrices use {core} kernels on a {own} processor. Unless somebody needs that, start Python with "
        f"`env -u {CORE_TYPE}`",
    )


def _probe(changes: dict[str, str | None], measure: bool) -> tuple[str, float]:
    """(core type, GFLOP/s) of a fresh process whose environment has these changes; ("?", nan) where it fails."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    for name, value in changes.items():
        environment.pop(name, None)
        if value is not None:
            environment[name] = value
    command = [sys.executable, "-c", _PROBE, *(["measure"] if measure else [])]
    ran = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, check=False
    )
    parts = ran.stdout.split()
    return (parts[0], float(parts[1])) if ran.returncode == 0 and len(parts) == 2 else ("?", float("nan"))


def multiply_rate(size: int = 1024, rounds: int = 7) -> float:
    """GFLOP/s of a float32 product of two square matrices: the best of several."""
    a = np.ones((size, size), np.float32)
    best_s = float("inf")
    for _ in range(rounds):
        begun_s = time.perf_counter()
        a @ a
        best_s = min(best_s, time.perf_counter() - begun_s)
    return 2e-9 * size**3 / best_s


# ---------------------------------------------------------------------- threads, memory, GPU


def _threads() -> Finding:
    from threadpoolctl import threadpool_info

    count = max((info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"), default=0)
    variable, limit = threads.pinned_by(), threads.in_force()
    if variable is not None:
        who = f"set by {variable}={os.environ[variable]}"
    elif limit is not None:
        who = f"set by {limit.reason}"
    else:
        who = "BLAS's own choice"
    warning = ""
    if count > threads.processors():
        warning = f"More BLAS threads than the {threads.processors()} usable processors: set OPENBLAS_NUM_THREADS lower"
    return Finding("BLAS threads", f"{count}, {who}", warning)


def _memory() -> Finding:
    pinned = memory.pinned_by()
    if pinned is not None:
        return Finding("freed memory", f"as {pinned} says")
    kept = memory.keep_freed_memory()
    if not kept:
        return Finding("freed memory", "goes back to the system as the C library decides")
    return Finding("freed memory", f"up to {kept >> 20} MiB stay in the process for the next step")


def _gpu() -> Finding:
    cupy = next((f"{name} {found}" for name in _cupy_packages() if (found := _version(name))), None)
    present = Path("/dev/nvidia0").exists() or Path("/proc/driver/nvidia/version").exists()
    if cupy is None:
        warning = "There is an NVIDIA GPU, but no cupy: install the extra `gpu` to use it" if present else ""
        return Finding("GPU", "NVIDIA, unused" if present else "none", warning)
    try:
        return Finding("GPU", f"{_device_names()} with {cupy}")
    except Exception as error:  # cupy's own errors cannot be named without importing it
        if not present:
            return Finding("GPU", f"none ({cupy} is installed)")
        return Finding("GPU", f"NVIDIA, unused ({cupy})", f"cupy does not reach it: {type(error).__name__}: {error}")


def _cupy_packages() -> list[str]:
    return ["cupy", "cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x"] if importlib.util.find_spec("cupy") else []


def _device_names() -> str:
    import cupy

    runtime: Any = cupy.cuda.runtime
    names = [runtime.getDeviceProperties(i)["name"].decode() for i in range(runtime.getDeviceCount())]
    return ", ".join(names) or "no device"
