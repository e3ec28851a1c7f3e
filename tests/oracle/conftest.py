"""The oracle: TensorFlow runs the same graphs. `make oracle` makes the environment that has it; elsewhere nothing here
is collected, since sparkflow and its other tests do without TensorFlow."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

import pytest

# Before TensorFlow is imported, by whichever module does it first: the reference is its own kernels, quiet.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"

HAVE_TENSORFLOW = find_spec("tensorflow") is not None
collect_ignore_glob = [] if HAVE_TENSORFLOW else ["*.py"]

WORST: dict[tuple[str, str], tuple[int, float]] = {}  # (op, dtype) -> how many cases, the worst error in ulps


def _configs() -> dict[str, Any]:
    """The configurations that every case runs under, by name: None is the default one, with every graph pass."""
    from sparkflow_runtime.wire.protos import ConfigProto

    plain = ConfigProto()
    plain.graph_options.rewrite_options.disable_meta_optimizer = True
    return {"default": None, "no_passes": plain}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("filterwarnings", "ignore")  # TensorFlow's own, and numpy's of infinities


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "session_config" in metafunc.fixturenames:
        configs = _configs()
        metafunc.parametrize("session_config", list(configs.values()), ids=list(configs))


@pytest.fixture
def tally() -> dict[tuple[str, str], tuple[int, float]]:
    return WORST


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What was covered, and the worst error of each op."""
    if not WORST:
        return
    by_op: dict[str, list[tuple[str, int, float]]] = {}
    for (op, dtype), (count, worst) in sorted(WORST.items()):
        by_op.setdefault(op, []).append((dtype, count, worst))
    cases = sum(count for count, _ in WORST.values())
    terminalreporter.section(f"oracle: {len(by_op)} ops, {cases} cases; op, cases, worst error in ulps: dtypes")
    for op, rows in by_op.items():
        worst = max(ulps for _, _, ulps in rows)
        terminalreporter.line(f"{op}\t{sum(n for _, n, _ in rows)}\t{worst:.3g}\t{' '.join(d for d, _, _ in rows)}")
