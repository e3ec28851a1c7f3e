"""Variables: made, assigned, added to, and changed row by row. Each op but the reads returns the variable itself."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import numpy as np

from sparkflow_runtime.kernels import table_memory
from sparkflow_runtime.kernels.host import check_indices, host
from sparkflow_runtime.kernels.memories import gpu_of, memory_of, on_its_device
from sparkflow_runtime.kernels.parallel import copied, copy_into
from sparkflow_runtime.kernels.registry import Node, bound
from sparkflow_runtime.kernels.rows import combine_in_rounds, has_repeats
from sparkflow_runtime.kernels.sum_loops import add_at
from sparkflow_runtime.resources.variables import Variable
from sparkflow_runtime.wire.devices import on_cpu
from sparkflow_runtime.wire.errors import InvalidArgumentError, OutOfRangeError

Update = Callable[..., Variable]


@bound("VariableV2", "Variable")
def _variable(node: Node) -> Callable[[], Variable]:
    dtype, name = node.attrs["dtype"], node.resource_name
    dims = node.attrs["shape"].dims
    shape = None if dims == () and node.op == "Variable" else dims
    held = node.resources.get_or_create(node.container, name, Variable, lambda: Variable(name, dtype, shape))
    if held.dtype is not dtype:
        raise InvalidArgumentError(
            f"Variable {name!r} is held on this task with dtype {held.dtype.name}, and this graph declares "
            f"{dtype.name}. "
            "Give it another name or shared_name, or reset the containers of the session"
        )
    with held.lock:
        _bring(held, node)
        held.homes[node.session] = node.device
    return lambda: held


def _bring(held: Variable, node: Node) -> None:
    """Have a variable's value where its node is now: the session before, or the graph before it asked for a GPU, may
    have had it elsewhere. A session that is open still has it there, and its kernels know that memory alone."""
    there = held.elsewhere(node.session, node.device)
    if there and not (on_cpu(there) and on_cpu(node.device)):
        raise InvalidArgumentError(
            f"Variable {held.name!r} is on {there} in another session that is open, and this graph has it on "
            f"{node.device}. Place it by the same device scope in both graphs, or close that session"
        )
    if held.value is not None and memory_of(held.value) != gpu_of(node.device):
        held.value = on_its_device(node.xp.asarray, node.device)(host(held.value))


@bound("IsVariableInitialized", refs=(0,), stateful=False)
def _is_initialized(node: Node) -> Callable[[Variable], np.bool_]:
    return lambda ref: np.bool_(ref.initialized)


@bound("_AreInitialized")
def _are_initialized(node: Node) -> Callable[[], np.ndarray]:
    """Of variables by their names; one that no graph has named here yet has no value."""
    containers = map(node.container_of, node.attrs["containers"])
    asked, held = list(zip(containers, node.attrs["names"])), node.resources.find

    def run() -> np.ndarray:
        found = [held(container, name, Variable) for container, name in asked]
        return np.array([variable is not None and variable.initialized for variable in found])

    return run


@bound("CountUpTo", refs=(0,))
def _count_up_to(node: Node) -> Callable[[Variable], Any]:
    limit = node.attrs["limit"]

    def run(ref: Variable) -> Any:
        with ref.lock:
            now = ref.read()
            if now >= limit:
                raise OutOfRangeError(f"Reached limit of {limit}")
            before = now.copy()
            now += 1
        return before

    return run


def locked(node: Node, ref: Variable) -> AbstractContextManager[Any]:
    """The variable's lock where the node asks for locking; without it concurrent updates may mix, as in TensorFlow."""
    return ref.lock if node.attrs.get("use_locking") else nullcontext()


def show(shape: Any) -> str:
    return "[" + ",".join("?" if d is None else str(d) for d in shape) + "]"


# ---------------------------------------------------------------------- whole variables


@bound("Assign", refs=(0,), in_place=(1,))
def _assign(node: Node) -> Update:
    validate = node.attrs.get("validate_shape", True)
    on_host = node.xp is np
    own = copied if on_host else partial(node.xp.array, copy=True, order="C")

    def run(ref: Variable, value: Any, out: Any = None) -> Variable:
        """out: the value, where it may become the variable's memory."""
        with locked(node, ref):
            if validate:
                _check_assignable(ref, np.shape(value))
            taken = out is not None and out.base is None and out.dtype == ref.dtype.np
            if on_host and not ref.initialized and table_memory.takes(value):
                ref.value = copied(value, ref.dtype.np, table_memory.new_table)
            elif taken and not _is_read(ref):
                ref.value = out  # no view: whoever reads a part of it holds this very array (see _is_read)
            elif not _overwrite(ref, value):
                ref.value = out if taken else own(value, dtype=ref.dtype.np)
        return ref

    return run


def _check_assignable(ref: Variable, shape: tuple[int, ...]) -> None:
    held = ref.value.shape if ref.initialized else ref.shape
    if held is None or held == shape:
        return
    if len(held) != len(shape) or any(h not in (None, s) for h, s in zip(held, shape)):
        raise InvalidArgumentError(
            f"Assign requires shapes of both tensors to match. lhs shape= {show(held)} rhs shape= {show(shape)} "
            f"(variable {ref.name!r})"
        )


def _is_read(ref: Variable) -> bool:
    """Whether anybody but the variable refers to its memory.

    A reader (a Send, a fetch, an op between two kernels) holds the array itself or a view whose base it is. The count
    is two for the attribute and the call's argument.
    """
    return sys.getrefcount(ref.value) > 2


def _overwrite(ref: Variable, value: Any) -> bool:
    """Copy into the memory held, where the value fits.

    Who has read the variable holds this memory and so sees the new value, as in TensorFlow: `v.assign(x)` followed by
    `v + 1` under a control dependency is x + 1, though v was read before. Big arrays cost less so than new pages, too.
    """
    held = ref.value
    if not ref.initialized or held.shape != np.shape(value):
        return False
    if type(held) is np.ndarray and not held.flags.writeable:
        return False
    if type(held) is not np.ndarray or type(value) is not np.ndarray or held.dtype == object:
        held[...] = value
        return True
    copy_into(held, value.copy() if np.may_share_memory(held, value) else value)
    return True


@bound("AssignAdd", "AssignSub", refs=(0,))
def _assign_update(node: Node) -> Update:
    combine = node.xp.add if node.op == "AssignAdd" else node.xp.subtract

    def run(ref: Variable, value: Any) -> Variable:
        with locked(node, ref):
            held = ref.read()
            if held.shape != np.shape(value):
                raise InvalidArgumentError(
                    f"{node.op}: variable {ref.name!r} has shape {show(held.shape)}, the value {show(np.shape(value))}"
                )
            combine(held, value, out=held)
        return ref

    return run


# ---------------------------------------------------------------------- rows of a variable

_SCATTER = {
    "ScatterAdd": "add",
    "ScatterSub": "subtract",
    "ScatterMul": "multiply",
    "ScatterMin": "minimum",
    "ScatterMax": "maximum",
}


@bound("ScatterUpdate", "ScatterDiv", *_SCATTER, refs=(0,))
def _scatter(node: Node) -> Update:
    """Rows are changed under the variable's lock, asked for or not: they are read, changed and written back, and
    another step's change of a row in between would be lost."""
    xp = node.xp

    def run(ref: Variable, indices: Any, updates: Any) -> Variable:
        with ref.lock:
            held = ref.read()
            indices, updates = xp.asarray(indices), xp.asarray(updates)
            check_scatter(ref, held, indices, updates)
            check_indices(indices, len(held), f"{node.op} into the rows of variable {ref.name!r}")
            if node.op == "ScatterUpdate":
                held[indices] = updates  # of a repeated index the last row stays
            else:
                combine_rows(xp, node.op, held, indices, updates)
        return ref

    return run


def combine_rows(xp: Any, op: str, held: Any, indices: Any, updates: Any) -> None:
    """One row after the other where an index repeats."""
    adds = xp is np and op in ("ScatterAdd", "ScatterSub") and held.dtype.kind == "f"
    if adds and add_at(held, indices, updates if op == "ScatterAdd" else -updates):
        return
    whole = "floor_divide" if held.dtype.kind in "iu" else "divide"
    combine = getattr(xp, _SCATTER.get(op, whole))
    if not has_repeats(xp, indices):
        held[indices] = combine(held.take(indices, axis=0), updates)
    elif xp is np and op not in ("ScatterMul", "ScatterDiv"):
        combine.at(held, indices, updates)
    else:
        flat = indices.ravel()
        rows = xp.broadcast_to(updates, indices.shape + held.shape[1:]).reshape(flat.shape + held.shape[1:])
        combine_in_rounds(xp, combine, held, flat, rows)


def check_scatter(ref: Variable, held: Any, indices: Any, updates: Any) -> None:
    if not held.shape:
        raise InvalidArgumentError(f"params must be at least 1-D: variable {ref.name!r} is a scalar")
    if updates.shape and updates.shape != indices.shape + held.shape[1:]:
        raise InvalidArgumentError(
            "Must have updates.shape = indices.shape + params.shape[1:] or updates.shape = [], got updates.shape "
            f"{show(updates.shape)}, indices.shape {show(indices.shape)}, params.shape {show(held.shape)} "
            f"(variable {ref.name!r})"
        )
