"""Pure kernels on a GPU: what each makes of cupy's arrays is what it makes of numpy's, errors included.

The cases are those that are held against TensorFlow (tests/oracle/cases), in the types that cupy has.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from importlib.util import find_spec
from itertools import chain
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
import sparkflow_runtime.kernels.table  # noqa: F401  (fills the kernel table)
from sparkflow.framework import apply
from sparkflow_runtime.kernels import registry
from sparkflow_runtime.kernels.host import host
from sparkflow_runtime.kernels.registry import Kernel, Node
from sparkflow_runtime.resources.manager import ResourceManager
from sparkflow_runtime.wire.attrs import decode
from sparkflow_runtime.wire.dtypes import float32
from sparkflow_runtime.worker.locate import locate
from tests.oracle.cases.table import Case, table
from tests.oracle.cases.values import i32, i64, noise, s32
from tests.oracle.compare import as_value, difference


def unreachable() -> str:
    """Why there is no GPU to run on; nothing where there is one."""
    if find_spec("cupy") is None:
        return "cupy is not installed"
    import cupy

    try:
        cupy.zeros(1)
    except Exception as error:  # cupy's own errors cannot be named without importing it
        return f"cupy reaches no GPU: {error}"
    return ""


if _why := unreachable():
    pytest.skip(_why, allow_module_level=True)

X = noise("float32", 4, 6, 6, 2)
MORE = [  # of ops that are not in that table
    Case("IdentityN", ([X, i32(1, 2)],)),
    Case("SpaceToBatchND", (X, i32(2, 3), i32([0, 0], [1, 2]))),
    Case("BatchToSpaceND", (X, i32(2, 2), i32([0, 1], [2, 0]))),
    Case("ResizeNearestNeighborGrad", (X, i32(3, 2))),
    Case("SparseSplit", (i64(0), i64([0, 1], [2, 0], [3, 3]), X[0, 0, :3, 0], i64(4, 4)), {"num_split": 2}),
    Case("StatelessRandomUniform", (i32(3, 4), i32(1, 2)), {"dtype": float32}),
    Case("StatelessRandomNormal", (i32(3, 4), i32(1, 2)), {"dtype": float32}),
    Case("StatelessTruncatedNormal", (i32(3, 4), i32(1, 2)), {"dtype": float32}),
    Case("StatelessRandomUniformInt", (i32(3, 4), i32(1, 2), s32(-3), s32(9))),
    Case("StatelessMultinomial", (X[0, 0], s32(5), i32(1, 2))),
]
_ZERO = "complex division by zero: which parts are infinite and which nan is open"
KNOWN = {  # pattern of case ids -> why they may differ
    "Cast-complex*-to-uint*": "a negative number as an unsigned one: C leaves open what it is",
    "MatrixTriangularSolve-complex*-zero-on-diagonal": _ZERO,
    "NextAfter-float32-*": "cupy has its kernels compiled so that a subnormal float32 is 0",
    "Reciprocal-complex*-values": _ZERO,
    "Rsqrt-complex*-values": _ZERO,
    "SqrtGrad-complex*-grid": _ZERO,
}


def pure(op: str) -> Kernel | None:
    """The row of a kernel that maps arrays to arrays on every device."""
    row = registry.rows(op)[0]
    return None if row is None or row.stateful or row.is_async or row.refs else row


def on_gpu(case: Case) -> bool:
    """Whether cupy has its types, and should agree."""
    return all(a.dtype.kind in "biufc" for a in case.arrays()) and not any(fnmatchcase(case.id, k) for k in KNOWN)


def groups() -> dict[str, list[Case]]:
    found: dict[str, list[Case]] = {}
    for case in chain(MORE, (c for by_dtype in table().values() for some in by_dtype.values() for c in some)):
        if pure(case.op) and on_gpu(case):
            found.setdefault(case.op, []).append(case)
    return found


def node(case: Case, xp: Any) -> Node:
    """What a plan tells the kernel of a node on these inputs."""
    with tf.Graph().as_default():
        entered = [[tf.placeholder(a.dtype) for a in (i if isinstance(i, list) else [i])] for i in case.inputs]
        inputs = [some if isinstance(i, list) else some[0] for i, some in zip(case.inputs, entered)]
        op = apply.create(case.op, inputs, dict(case.attrs))
    attrs = {name: decode(value) for name, value in op.node_def.attr.items()}
    return Node(op.name, op.type, attrs, "", xp, ResourceManager(), inputs=tuple(t.name for t in op.inputs))


def outcome(case: Case, xp: Any) -> list[np.ndarray] | Exception:
    row = pure(case.op)
    assert row is not None
    try:
        with np.errstate(all="ignore"):
            made = row.factory(node(case, xp))(*map(xp.asarray, case.arrays()))
            return [as_value(host(value)) for value in (made if row.multi else [made])]
    except Exception as error:  # any class: it is what is compared, as a step would raise it
        return locate(error, None)


def unlike(case: Case, found: list[np.ndarray] | Exception, wanted: list[np.ndarray] | Exception) -> str:
    """What differs."""
    if isinstance(found, Exception) or isinstance(wanted, Exception):
        return "" if type(found) is type(wanted) else f"{found!r} instead of {wanted!r}"
    pairs = [p for i, p in enumerate(zip(found, wanted, strict=True)) if not case.outputs or i in case.outputs]
    return "; ".join(filter(None, [difference(a, b, case.tolerance)[0] for a, b in pairs]))


GROUPS = groups()


@pytest.mark.parametrize("op", GROUPS)
@pytest.mark.filterwarnings("ignore")  # numpy's of infinities, cupy's of slow ways
def test_as_numpy(op: str) -> None:
    import cupy

    wrong = {c.id: what for c in GROUPS[op] if (what := unlike(c, outcome(c, cupy), outcome(c, np)))}
    assert not wrong, "\n" + "\n".join(f"{case}: {what}" for case, what in wrong.items())
