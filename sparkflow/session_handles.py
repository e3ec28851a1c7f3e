"""TensorHandle: what a run gives for tf.get_session_handle, a value that stayed in the session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from sparkflow.ops.session_state import delete_session_tensor, get_session_handle, get_session_tensor
from sparkflow.session.fetches import register_output
from sparkflow_runtime.wire.dtypes import DType

if TYPE_CHECKING:
    from sparkflow.framework.graph import Tensor
    from sparkflow.session.session import Session

__all__ = ["TensorHandle", "delete_session_tensor", "get_session_handle", "get_session_tensor"]

_MANY = 10  # values that nobody can name any more are dropped so many at a time
_unnamed: WeakKeyDictionary[Session, list[str]] = WeakKeyDictionary()


class TensorHandle:
    """A value kept in `session`. Fed to a placeholder it stands for its value; it is dropped with its last reference,
    unless get_raw_handle was called."""

    def __init__(self, handle: str, dtype: DType, session: Session):
        self._handle, self._dtype, self._session = handle, dtype, session
        self._persistent = self._deleted = False

    handle: str = property(lambda self: self._handle)  # type: ignore[assignment]
    dtype: DType = property(lambda self: self._dtype)  # type: ignore[assignment]

    def get_raw_handle(self) -> str:
        """The handle, whose value from now on is dropped by tf.delete_session_tensor alone."""
        self._persistent = True
        return self._handle

    def eval(self) -> Any:
        """The value, fetched. Raises TypeError after `delete`."""
        if self._deleted:
            raise TypeError(f"The value of TensorHandle {self._handle!r} has been deleted")
        with self._session.graph.as_default():
            holder, value = self._ops("read", lambda: get_session_tensor(self._handle, self._dtype))
        return self._session.run(value, {holder: self._handle})

    def to_numpy_array(self) -> Any:
        return self.eval()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.eval(), dtype)

    def delete(self) -> None:
        """Drop the value. Raises InvalidArgumentError where it was."""
        self._persistent = self._deleted = True
        _drop(self._session, self._handle)

    def _ops(self, what: str, make: Any) -> Any:
        return _ops_of(self._session, (what, self._handle.rpartition(";")[2], self._dtype), make)

    def __str__(self) -> str:
        return self._handle

    def __del__(self) -> None:
        if not getattr(self, "_persistent", True):
            _unnamed.setdefault(self._session, []).append(self._handle)


def _ops_of(session: Session, key: Any, make: Any) -> Any:
    """Made once a graph and device."""
    made = session.graph.extra.setdefault("session handles", {})
    if key not in made:
        with session.graph.as_default(), session.graph.name_scope(None), session.graph.control_dependencies(None):
            made[key] = make()
    return made[key]


def _drop(session: Session, handle: str) -> None:
    key = ("drop", handle.rpartition(";")[2], None)
    holder, dropped = _ops_of(session, key, lambda: delete_session_tensor(handle))
    session.run(dropped, {holder: handle})


def _handle(value: Any, tensor: Tensor, session: Session) -> TensorHandle:
    unnamed = _unnamed.get(session, [])
    if len(unnamed) >= _MANY:
        gone, unnamed[:] = list(unnamed), []
        for handle in gone:
            _drop(session, handle)
    return TensorHandle(value.decode(), tensor.op.inputs[0].dtype.base_dtype, session)


register_output("GetSessionHandle", _handle)
