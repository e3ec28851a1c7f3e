"""Python functions as kernels."""

from __future__ import annotations

import traceback
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.host import host
from sparkflow_runtime.kernels.registry import Function, Node, asynchronous, bound
from sparkflow_runtime.wire import dtypes, py_functions
from sparkflow_runtime.wire.errors import (
    InvalidArgumentError,
    OpError,
    OutOfRangeError,
    ResourceExhaustedError,
    UnimplementedError,
    UnknownError,
)
from sparkflow_runtime.wire.sessions import FunctionCall

_KINDS: dict[type[Exception], type[OpError]] = {  # TensorFlow's: that of StopIteration ends a training
    TypeError: InvalidArgumentError,
    ValueError: InvalidArgumentError,
    StopIteration: OutOfRangeError,
    MemoryError: ResourceExhaustedError,
    NotImplementedError: UnimplementedError,
}

_FRAMES = 10  # of a function's traceback, the last ones


def _array(node: Node, value: Any, want: dtypes.DType, place: int) -> Any:
    array = np.asarray(value, object if isinstance(value, bytes) else None)  # numpy's own strings have less than 2 GiB
    if want is dtypes.string and array.dtype.kind in "SUO":
        if array is not value:
            array = np.asarray(value, object)  # numpy's own strings end before their last zeros
        return _texts(node, array, place)
    if array.dtype != want.np:
        raise InvalidArgumentError(
            node, None, f"{place}-th value returned by {node.attrs['token']} is {array.dtype}, but expects {want.name}"
        )
    return node.xp.asarray(array if array.flags.aligned else array.copy())


def _texts(node: Node, array: np.ndarray, place: int) -> np.ndarray:
    """An array of bytes."""
    found = np.empty(array.shape, object)
    for at in np.ndindex(array.shape):
        item = array[at]
        if not isinstance(item, str | bytes):
            what = f"{place}-th value returned by {node.attrs['token']} has a {type(item).__name__}"
            raise InvalidArgumentError(node, None, f"{what}, but expects string")
        found[at] = item.encode() if isinstance(item, str) else bytes(item)
    return found


class _State(dict[str, Any]):
    """What a function keeps from one call to the next."""

    def close(self, cancel_pending: bool) -> None:
        """Threads that make elements end with what asks for them."""
        self.clear()


def _states(node: Node) -> tuple[Any, ...]:
    """The arguments before the inputs: nothing, a state, or what finds states by name."""
    name = node.attrs.get(py_functions.STATE)
    if name is None:
        return ()

    def of_name(key: str) -> _State:
        container = node.container_of("") if key.startswith(py_functions.SHARED) else node.container
        return node.resources.get_or_create(container, key, _State, _State)

    return (of_name(name) if name else of_name,)


def py_function(node: Node) -> Function:
    """The kernel of a node whose function is in this process."""
    wanted, first = node.attrs["Tout"], _states(node)

    def run(*inputs: Any) -> Any:
        try:
            value = py_functions.find(node.attrs["token"])(*first, *map(_argument, inputs))
        except OpError:
            raise
        except Exception as error:  # the user's own function may raise anything
            kind = next((kind for base, kind in _KINDS.items() if isinstance(error, base)), UnknownError)
            text = f"{type(error).__name__}: {error} [in the function of {node.name!r}]{_frames(error)}"
            raise kind(node, None, text) from error
        values = value if isinstance(value, (list, tuple)) else [] if value is None and not wanted else [value]
        if len(values) != len(wanted):
            raise InvalidArgumentError(
                node,
                None,
                f"{node.attrs['token']} returns {len(values)} values, but expects to see {len(wanted)} values.",
            )
        return [_array(node, v, t, i) for i, (v, t) in enumerate(zip(values, wanted))]

    return run


def _frames(error: Exception) -> str:
    """Where the function raised it, as in TensorFlow: the traceback itself does not travel to another process."""
    frames = traceback.extract_tb(error.__traceback__)[1:][-_FRAMES:]  # the first one is this file's
    return "\nTraceback (most recent call last):\n" + "".join(traceback.format_list(frames)).rstrip() if frames else ""


def _argument(value: Any) -> Any:
    """An array; one string is bytes."""
    array: Any = host(value)
    return array.item() if array.dtype.kind in "OS" and not array.ndim else array


bound("PyFunc", multi=True)(py_function)
bound("PyFuncStateless", multi=True, stateful=False)(py_function)


@asynchronous(py_functions.ELSEWHERE)
def _elsewhere(node: Node) -> Function:
    """Of a function that the session's client has, and calls when it is asked to."""
    token, types = node.attrs["token"], tuple(t.name for t in node.attrs["Tout"])
    told = FunctionCall(node.name, token, types, node.attrs.get(py_functions.STATE)).encode()

    def run(step: Any, done: Function, *inputs: Any) -> None:
        call = node.resources.callers.get(node.session)
        if call is None:
            py_functions.find(token)  # which says that nobody has it
            raise InvalidArgumentError(node, None, f"{node.name}: the client that has {token} is gone")
        waits, registered = [True], list[int]()

        def ended(error: OpError | None, outputs: Any = ()) -> None:
            """The first of two: the answer, and the step's end."""
            try:
                waits.pop()
            except IndexError:
                return
            if registered and error is None:
                step.off_cancel(registered[0])
            done(error, outputs)

        registered.append(step.on_cancel(ended, lambda: f"{node.name} waits for its client's function"))
        call(told, [np.array(host(value)) for value in inputs], lambda error, _, tensors: ended(error, tuple(tensors)))

    return run
