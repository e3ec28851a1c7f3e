"""py_func: a Python function as a node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.graph import get_default_graph
from sparkflow.framework.registry import op
from sparkflow_runtime.wire import dtypes, py_functions

op("PyFunc", "input: [Tin] -> output: [Tout]", lambda op: [None] * len(op.outputs), stateful=True)
op("PyFuncStateless", "input: [Tin] -> output: [Tout]", lambda op: [None] * len(op.outputs))


def py_func(
    func: Callable[..., Any], inp: Sequence[Any], Tout: Any, stateful: bool = True, name: str | None = None
) -> Any:
    """The value of func(*arrays) when it runs, in this process, as tensors of the types Tout (one, a list, or none).

    The static shapes are not known. stateful=False: it may be run once for equal inputs. Raises InvalidArgumentError
    when it runs where a result has another type than Tout says.
    """
    return _node(func, inp, Tout, {}, stateful, name)


def py_func_of_session(
    func: Callable[..., Any], inp: Sequence[Any], Tout: Any, state: str, name: str | None = None
) -> Any:
    """py_func of func(its session's state of that name, a dict, *arrays); where no name is given, of
    func(the function from names to states, *arrays). A session's states are forgotten with it."""
    return _node(func, inp, Tout, {py_functions.STATE: state}, True, name)


def _node(
    func: Callable[..., Any], inp: Sequence[Any], Tout: Any, more: dict[str, Any], stateful: bool, name: str | None
) -> Any:
    if not callable(func):
        raise ValueError(f"py_func: expected func to be callable, got {func!r} of type {type(func).__name__}")
    token, held = py_functions.register(func)
    graph = get_default_graph()
    graph.extra.setdefault("py_functions", []).append(held)
    listed = isinstance(Tout, (list, tuple))
    wanted = [dtypes.as_dtype(t) for t in (Tout if listed else [Tout])]
    attrs = {"token": token, "Tout": wanted, **more}
    tensors = [convert_to_tensor(x) for x in inp]
    found = apply_op("PyFunc" if stateful else "PyFuncStateless", [tensors], attrs, name or "PyFunc")
    return found if listed else found[0]


def numpy_function(
    func: Callable[..., Any], inp: Sequence[Any], Tout: Any, stateful: bool = True, name: str | None = None
) -> Any:
    """py_func under its later name."""
    return py_func(func, inp, Tout, stateful, name)


def py_function(func: Callable[..., Any], inp: Sequence[Any], Tout: Any, name: str | None = None) -> Any:
    """py_func: func is given numpy arrays and no eager tensors, which this library does not have."""
    return py_func(func, inp, Tout, True, name)
