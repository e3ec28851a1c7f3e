"""The tables of ops and kernels hold the same names: a graph that can be built can be run."""

from __future__ import annotations

import sparkflow  # noqa: F401 - fills the tables
import sparkflow_runtime.kernels.table  # noqa: F401  (fills the kernel table)
from sparkflow.framework.registry import registered as ops
from sparkflow_runtime.kernels.registry import registered as kernels


def test_every_op_has_a_kernel_and_every_kernel_an_op() -> None:
    of_tests = {"NobodysOp"}
    # Nodes that the runtime adds to what it runs begin with an underscore: nobody but a ring builds them.
    own = {name for name in kernels() if name.startswith("_")}
    assert set(ops()) <= set(kernels()) | of_tests
    assert set(kernels()) - own <= set(ops()) | of_tests
