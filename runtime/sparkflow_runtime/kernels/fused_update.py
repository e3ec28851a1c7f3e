"""A large variable's update by a gradient that is one product: block by block, each changed while it is in the cache.

The gradient of a layer of 25,088 x 4,096 is 411 MB; written to memory and read again it takes longer than all else that
the layer does, and at that moment it doubles what the layer holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.kernels.fused import Body
from sparkflow_runtime.kernels.parallel import runs, scratch, share
from sparkflow_runtime.kernels.registry import EVERY_INPUT, Node, bound
from sparkflow_runtime.kernels.state import locked
from sparkflow_runtime.kernels.updates import Updater
from sparkflow_runtime.resources.variables import Variable

_BLOCK = 1 << 17  # items of a gradient at once
_THIN = 8  # columns of the first factor up to which BLAS is no help
_SIGNATURE = "void(Array({0}, 2, 'C', readonly=True), Array({0}, 2, 'C', readonly=True), {0}[:, ::1])"


@compiled([_SIGNATURE.format(kind) for kind in ("float32", "float64")])
def thin_product(a: Any, b: Any, out: Any) -> None:
    """out = a @ b, column by column of a; it has one or more."""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = a[i, 0] * b[0, j]
        for k in range(1, a.shape[1]):
            factor = a[i, k]
            for j in range(out.shape[1]):
                out[i, j] += factor * b[k, j]


@thin_product.otherwise
def _(a: Any, b: Any, out: Any) -> None:
    np.multiply(a[:, :1], b[0], out=out)
    for k in range(1, a.shape[1]):
        out += a[:, k : k + 1] * b[k]


@bound("_FusedUpdate", refs=EVERY_INPUT)
def _fused_update(node: Node) -> Callable[..., Variable]:
    """Members: MatMul, and the dense update that takes it."""
    body, xp = Body(node), node.xp
    updater = Updater(xp, body.nodes[1].op, body.attrs[1])
    thin_product.prepare()
    update, inputs_at = updater.update, [i for _, i in body.sources[1]]
    a_at, b_at = (i for _, i in body.sources[0])
    refs_at = set(inputs_at[: update.num_refs])
    turn_a, turn_b = (bool(body.attrs[0].get(name)) for name in ("transpose_a", "transpose_b"))
    apply_node = Node(body.nodes[1].name, body.nodes[1].op, body.attrs[1], node.device, xp, node.resources, node.task)

    def run(*given: Any) -> Variable:
        values = [i.read() if type(i) is Variable else i for i in given]
        a, b = (v.T if turn else v for v, turn in ((values[a_at], turn_a), (values[b_at], turn_b)))
        refs = [given[i] for i in inputs_at[: update.num_refs]]
        scalars = [values[i] for k, i in enumerate(inputs_at) if k >= update.num_refs and k != update.grad_at]
        with locked(apply_node, refs[0]):
            held = [ref.read() for ref in refs]
            change = updater.by_parts(held, scalars) if _fits(xp, a, b, held, scalars) else None
            if change is not None:
                _change_by_product(a, b, change)
        if change is None:  # the members take values, and variables where the update takes a reference
            return body.run([g if i in refs_at else v for i, (g, v) in enumerate(zip(given, values))])[0]
        return refs[0]

    return run


def _fits(xp: Any, a: Any, b: Any, held: list[Any], scalars: list[Any]) -> bool:
    """Whether everything is as the update wants it, and no factor is what changes; else the members run by themselves,
    and say what is wrong."""
    return (
        xp is np
        and a.ndim == b.ndim == 2
        and a.shape[1] == b.shape[0]
        and a.dtype == b.dtype == held[0].dtype
        and all(array.shape == (a.shape[0], b.shape[1]) for array in held)
        and all(np.shape(s) == () for s in scalars)
        and not any(np.may_share_memory(array, factor) for array in held for factor in (a, b))
    )


def _change_by_product(a: np.ndarray, b: np.ndarray, change: Callable[[int, np.ndarray], None]) -> None:
    """change(first item, block of a @ b) for all blocks of rows, in several threads."""
    columns, thin = b.shape[1], 0 < len(b) <= _THIN
    b = np.ascontiguousarray(b) if thin else b

    def work(blocks: Sequence[tuple[int, int]]) -> None:
        for first, count in blocks:
            grad = scratch("gradient", (count, columns), a.dtype)
            rows = a[first : first + count]
            if thin:
                thin_product(np.ascontiguousarray(rows), b, grad)
            else:
                np.matmul(rows, b, grad)
            change(first * columns, grad)

    share(work, runs(a.shape[0], max(16, _BLOCK // columns)))
