"""The optimizers' update steps as kernels. Their formulas are in rules and update_loops.

A dense op changes whole variables, a Sparse* op the rows that `indices` names, one after the other where one repeats.
`_FusedSparseApply` and `_FusedApply` stand for many of one op with the same factors (master/passes/fuse_embeddings.py).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.registry import EVERY_INPUT, Node, bound
from sparkflow_runtime.kernels.state import locked, show
from sparkflow_runtime.kernels.updates import UPDATES, Updater, said, same
from sparkflow_runtime.resources.variables import Variable
from sparkflow_runtime.wire.errors import InvalidArgumentError


def _apply(node: Node) -> Callable[..., Variable]:
    updater = Updater(node.xp, node.op, node.attrs)
    num_refs, grad_at = updater.update.num_refs, updater.update.grad_at

    def run(*inputs: Any) -> Variable:
        refs, grad = inputs[:num_refs], inputs[grad_at]
        scalars = scalars_of(node, inputs, {*range(num_refs), grad_at})
        with locked(node, refs[0]):
            held = [ref.read() for ref in refs]
            _check_same_shape(node.op, refs, held, getattr(grad, "shape", ()))
            updater.dense(held, grad, scalars)
        return refs[0]

    return run


def _sparse_apply(node: Node) -> Callable[..., Variable]:
    """Under the variable's lock, as scatter is."""
    updater = Updater(node.xp, node.op, node.attrs)
    num_refs, grad_at, indices_at = updater.update.num_refs, updater.update.grad_at, updater.update.indices_at

    def run(*inputs: Any) -> Variable:
        refs, grad, indices = inputs[:num_refs], inputs[grad_at], inputs[indices_at]
        scalars = scalars_of(node, inputs, {*range(num_refs), grad_at, indices_at})
        update_tables(node, updater, node.op, [refs], [grad], [indices], scalars, "")
        return refs[0]

    return run


@bound("_FusedApply", refs=EVERY_INPUT, multi=True)
def _fused_apply(node: Node) -> Callable[..., Sequence[Variable]]:
    """Inputs: N variables, N of each slot, the op's factors, N gradients. Attributes: N, op, and those of the op."""
    op, n = node.attrs["op"], node.attrs["N"]
    updater = Updater(node.xp, op, node.attrs)
    num_refs, locks = updater.update.num_refs, Locks()

    def run(*inputs: Any) -> Sequence[Variable]:
        refs = [inputs[t : num_refs * n : n] for t in range(n)]
        values = [i.read() if type(i) is Variable else i for i in inputs[num_refs * n :]]
        scalars, grads = scalars_of(node, values[:-n], set()), [node.xp.asarray(g) for g in values[-n:]]
        with locks.of(inputs[:n]):
            tables = [[ref.read() for ref in mine] for mine in refs]
            for mine, held, grad in zip(refs, tables, grads):
                _check_same_shape(op, mine, held, grad.shape)
            updater.dense_tables(tables, grads, scalars)
        return inputs[:n]

    return run


@bound("_FusedSparseApply", refs=EVERY_INPUT, multi=True)
def _fused_sparse_apply(node: Node) -> Callable[..., Sequence[Variable]]:
    """Inputs: N variables, N of each slot, the op's factors, N gradients, N indices. Attributes: N, op, rows, and those
    of the op. rows: "summed" where rows of one index are added up before the update, "distinct" where none repeats."""
    op, n = node.attrs["op"], node.attrs["N"]
    updater = Updater(node.xp, op, node.attrs)
    num_refs, how = updater.update.num_refs, node.attrs["rows"]

    def run(*inputs: Any) -> Sequence[Variable]:
        refs = [inputs[t : num_refs * n : n] for t in range(n)]
        values = [i.read() if type(i) is Variable else i for i in inputs[num_refs * n :]]
        factors, grads, indices = values[: -2 * n], values[-2 * n : -n], values[-n:]
        update_tables(node, updater, op, refs, grads, indices, scalars_of(node, factors, set()), how)
        return inputs[:n]

    return run


def update_tables(
    node: Node, updater: Updater, op: str, refs: Any, grads: Any, indices: Any, scalars: list[Any], how: str
) -> None:
    grads, indices = [node.xp.asarray(g) for g in grads], [node.xp.asarray(i) for i in indices]
    with Locks().of([mine[0] for mine in refs]):
        tables = [[ref.read() for ref in mine] for mine in refs]
        for mine, held, grad, rows in zip(refs, tables, grads, indices):
            check_rows(op, mine, held, grad.shape, rows.shape)
        names = [f"{said(op)} of the rows of variable {mine[0].name!r}" for mine in refs]
        try:
            updater.sparse(tables, grads, indices, scalars, how, names)
        except InvalidArgumentError as error:
            _name_member(error, node, op, tables, indices)
            raise


def _name_member(error: InvalidArgumentError, node: Node, op: str, tables: Any, indices: Any) -> None:
    """Where an index of one of several updates in one is out of range: that update, as the user wrote it."""
    outside = (rows.size and not 0 <= rows.min() <= rows.max() < len(held[0]) for held, rows in zip(tables, indices))
    error.node_def = next((node.member(t, op) for t, wrong in enumerate(outside) if wrong), None)


class Locks:
    """The locks of some variables, which mostly stay the same ones, in the one order in which all take them who take
    several. Variables are held weakly."""

    def __init__(self) -> None:
        self._known: tuple[list[weakref.ref[Variable]], list[Any]] = [], []

    def of(self, variables: Sequence[Variable]) -> _Locked:
        """To be entered."""
        seen, locks = self._known  # both at once: other threads may be here too
        if not same(seen, variables):
            locks = [v.lock for v in sorted({id(v): v for v in variables}.values(), key=id)]
            self._known = [weakref.ref(v) for v in variables], locks
        return _Locked(locks)


class _Locked:
    __slots__ = ("_locks", "_taken")

    def __init__(self, locks: list[Any]):
        self._locks, self._taken = locks, 0

    def __enter__(self) -> None:
        try:
            for lock in self._locks:
                lock.acquire()
                self._taken += 1
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *raised: Any) -> None:
        for lock in self._locks[: self._taken]:
            lock.release()


def scalars_of(node: Node, inputs: Sequence[Any], others: set[int]) -> list[Any]:
    scalars = [value for i, value in enumerate(inputs) if i not in others]
    for value in scalars:
        if getattr(value, "shape", ()) != ():
            op = said(node.attrs.get("op", node.op))  # of one that stands for several: what they are
            raise InvalidArgumentError(
                f"{op}: learning rate and other factors are scalars, got shape {show(np.shape(value))}"
            )
    return scalars


def _check_same_shape(op: str, refs: Sequence[Variable], held: Sequence[Any], grad: tuple[int, ...]) -> None:
    for ref, array in zip(refs, held):
        if array.shape != held[0].shape:
            raise InvalidArgumentError(
                f"{op}: var {refs[0].name!r} and slot {ref.name!r} do not have the same shape "
                f"{show(held[0].shape)} {show(array.shape)}"
            )
    if grad != held[0].shape:
        raise InvalidArgumentError(
            f"{op}: var {refs[0].name!r} and grad do not have the same shape {show(held[0].shape)} {show(grad)}"
        )


def check_rows(
    op: str, refs: Sequence[Variable], held: Sequence[Any], grad: tuple[int, ...], indices: tuple[int, ...]
) -> None:
    """Shapes of a gradient and its indices, of a variable with its slots and of what they hold."""
    _check_same_shape(op, refs, held, held[0].shape)
    if not held[0].shape or len(indices) != 1 or grad != indices + held[0].shape[1:]:
        raise InvalidArgumentError(
            f"{said(op)}: grad must have shape indices.shape + var.shape[1:], got grad {show(grad)}, "
            f"indices {show(indices)}, var {refs[0].name!r} {show(held[0].shape)}"
        )


for _op, _update in UPDATES.items():
    if _update.decays:  # alone, its ids may repeat: decayed_adam.py
        continue
    bound(_op, refs=range(_update.num_refs))(_apply if _update.indices_at < 0 else _sparse_apply)
