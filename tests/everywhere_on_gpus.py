"""`make gpu`: tests of graphs in which whatever asks for no device computes on a GPU, or where there is none on a
stand-in for cupy. What these tests see is to be what they see on a CPU."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

import pytest

from sparkflow_runtime.kernels import memories
from sparkflow_runtime.master.placement import Placement
from sparkflow_runtime.wire.devices import task_of
from tests.stand_in_cupy import gpus

OF_CPUS = [  # they say which devices there are, in whose memory a value is, or what a step's nodes are
    "tests/runtime/worker/test_reuse.py::*",
    "tests/session/test_gpu*.py::*",
    "tests/session/test_distributed.py::test_a_graph_over_two_tasks",
    "tests/session/test_explain.py::test_what_is_explained_is_what_runs",
    "tests/session/test_like_tensorflow.py::test_values[[]its device]",
    "tests/session/test_remote.py::test_any_task_is_a_master*",
    "tests/session/test_server.py::test_a_client_that_comes_before_the_cluster_is_known_waits_for_it",
    "tests/session/test_server.py::test_a_server_of_a_server_def",
    "tests/session/test_server.py::test_a_session_sees_the_tasks_that_its_filters_name*",
    "tests/session/test_session.py::test_more_cpu_devices_than_one",
    "tests/session/test_session.py::test_runtime_errors_name_node_op_device_and_line",
    "tests/session/test_tracing.py::*",
]
OF_GPUS = [  # no cuSOLVER, no cuFFT in the stand-in
    *("*linalg*", "*linear_operators_more*", "*signal*", "*test_orthogonal*", "*idct*", "*dct 3*", "*test_wals*"),
]

_real = memories.count() > 0
_begin = Placement.__init__


def _asking(self: Placement, devices: Any, *more: Any) -> None:
    _begin(self, devices, *more)
    self._asking.setdefault(task_of(devices[0]))


def pytest_configure(config: pytest.Config) -> None:
    if not _real:
        config.add_cleanup(_stand_in())
    Placement.__init__ = _asking  # type: ignore[method-assign]


def _stand_in() -> Any:
    there = gpus(1)
    there.__enter__()
    return lambda: there.__exit__(None, None, None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    left = OF_CPUS + ([] if _real else OF_GPUS)
    items[:] = [item for item in items if not any(fnmatchcase(item.nodeid, pattern) for pattern in left)]
