"""Machine code of convolutions and of the crew, in use or not, whatever the process began with."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import pytest

import sparkflow_runtime.kernels.table  # noqa: F401  (fills the kernel table)
from sparkflow_runtime.kernels import conv_direct
from sparkflow_runtime.kernels import crew_layout as layout
from sparkflow_runtime.kernels.compiled import make_ready
from sparkflow_runtime.kernels.conv_direct_layout import lanes
from sparkflow_runtime.kernels.crew import Crew
from sparkflow_runtime.kernels.machine_code import load


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    """Of four threads, whatever the machine has."""
    made = Crew()
    make_ready(made)
    assert made.ready(4) and made.helpers == 3
    yield made
    ctypes.c_int64.from_address(made._state + layout.UNTIL).value = 0


@pytest.fixture(scope="module")
def direct() -> Iterator[Any]:
    """The module, with its machine code in use."""
    known = conv_direct.direct.functions
    if not lanes():
        pytest.skip("this processor has no vectors that are multiplied and added in one")
    codes = conv_direct.direct.build_ahead()
    sources = conv_direct.direct.sources
    conv_direct.direct.functions = [load(code, len(source.arguments)) for code, source in zip(codes, sources)]
    yield conv_direct
    conv_direct.direct.functions = known


@pytest.fixture(scope="module", params=["BLAS", "machine code"])
def products(request: Any) -> Iterator[None]:
    """Winograd's products, either way."""
    if request.param == "BLAS":
        known, conv_direct.direct.functions = conv_direct.direct.functions, []
        yield
        conv_direct.direct.functions = known
    else:
        request.getfixturevalue("direct")
        yield
