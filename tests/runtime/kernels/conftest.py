"""Machine code of convolutions and of the crew, in use or not, whatever the process began with."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import sparkflow_runtime.kernels.table  # noqa: F401  (fills the kernel table)
from sparkflow_runtime.kernels import conv_direct, memories
from sparkflow_runtime.kernels import crew_layout as layout
from sparkflow_runtime.kernels import spread_products as module_of_spread_products
from sparkflow_runtime.kernels.compiled import Native, make_ready
from sparkflow_runtime.kernels.conv_direct_layout import lanes
from sparkflow_runtime.kernels.crew import Crew
from sparkflow_runtime.kernels.machine_code import load
from sparkflow_runtime.kernels.settled import Settled


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
    with _in_use(conv_direct.direct):
        yield conv_direct


@pytest.fixture(scope="module")
def spread_products() -> Iterator[Any]:
    """The module, with its machine code in use, however little there is to do."""
    known, module_of_spread_products._WORTH = module_of_spread_products._WORTH, 0
    with _in_use(module_of_spread_products.products):
        yield module_of_spread_products
    module_of_spread_products._WORTH = known


@contextmanager
def _in_use(native: Native) -> Iterator[None]:
    if isinstance(native, Settled):
        native.prepare()  # else a kernel would settle it meanwhile, and bring its own
    known = native.functions
    if not lanes():
        pytest.skip("this processor has no vectors that are multiplied and added in one")
    codes = native.build_ahead()
    native.functions = [load(code, len(source.arguments)) for code, source in zip(codes, native.sources)]
    yield
    native.functions = known


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


@pytest.fixture(name="cupy")
def cupy_fixture(gpu: None) -> Any:
    """The module, or what stands in for it."""
    return memories.arrays("/device:GPU:0")
