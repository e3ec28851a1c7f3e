"""Ops that leave a value in the session and take it up again in another run, named by a handle."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import apply_op
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.registry import op
from sparkflow.ops import array
from sparkflow_runtime.wire.devices import DeviceSpec
from sparkflow_runtime.wire.dtypes import as_dtype, string

op("GetSessionHandle", "value: T -> handle: string", lambda op: [()], stateful=True)
op("GetSessionTensor", "handle: string -> value: dtype", lambda op: [None], stateful=True)
op("DeleteSessionTensor", "handle: string ->", stateful=True)


def get_session_handle(data: Any, name: str | None = None) -> Tensor:
    """Of what `data` is in a run: fetched, a TensorHandle by which later runs of the session have that value.

    The value stays on the device that made it. Raises TypeError where data is no Tensor.
    """
    if not isinstance(data, Tensor):
        raise TypeError(f"`data` must be of type Tensor, got {type(data).__name__}")
    with get_default_graph().colocate_with(data.op):
        return apply_op("GetSessionHandle", [data], name=name)


def get_session_tensor(handle: str, dtype: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """(a placeholder for a handle, the value that it names), on the device of `handle` (TensorHandle.handle).

    InvalidArgumentError in a step that is fed the handle of a deleted value, or of another type.
    """
    with get_default_graph().device(_device(handle)):
        holder = array.placeholder(string, [])
        return holder, apply_op("GetSessionTensor", [holder], {"dtype": as_dtype(dtype)}, name)


def delete_session_tensor(handle: str, name: str | None = None) -> tuple[Tensor, Operation]:
    """(a placeholder for a handle, the op that drops the value that it names), on the device of `handle`."""
    with get_default_graph().device(_device(handle)):
        holder = array.placeholder(string, [])
        return holder, apply_op("DeleteSessionTensor", [holder], name=name)


def _device(handle: str) -> str:
    parts = handle.split(";") if isinstance(handle, str) else []
    if len(parts) != 3:
        raise ValueError(f"'handle' must be the string that a TensorHandle has as its `handle`, got {handle!r}")
    return DeviceSpec.from_string(parts[2]).to_string()
