"""TensorFlow's error classes, by code (source: google.rpc.Code, tensorflow/core/protobuf/error_codes.proto)."""

from __future__ import annotations

import errno
from typing import Any

OK, CANCELLED, UNKNOWN, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED = range(8)
RESOURCE_EXHAUSTED, FAILED_PRECONDITION, ABORTED, OUT_OF_RANGE, UNIMPLEMENTED, INTERNAL, UNAVAILABLE, DATA_LOSS = range(
    8, 16
)
UNAUTHENTICATED = 16


class OpError(Exception):
    """An error of the runtime; `node_def` names where it arose when that is known.

    node_def: anything with `.name` and `.op` (a NodeDef), or None.
    op: the graph Operation of that name, filled in by the session.
    """

    code = UNKNOWN

    def __init__(self, node_def: Any = None, op: Any = None, message: str | None = None, error_code: int | None = None):
        if message is None and isinstance(
            node_def, str
        ):  # raise X("text") as well as TensorFlow's X(node_def, op, text)
            node_def, message = None, node_def
        super().__init__(message or "")
        self.node_def, self.op, self.message = node_def, op, message or ""
        self.error_code = self.code if error_code is None else error_code
        self.device: str | None = None

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (None, None, self.message)


class CancelledError(OpError):
    code = CANCELLED


class UnknownError(OpError):
    code = UNKNOWN


class InvalidArgumentError(OpError, ValueError):
    """Also a ValueError: TensorFlow raises that when a node is built and this when it runs."""

    code = INVALID_ARGUMENT


class DeadlineExceededError(OpError):
    code = DEADLINE_EXCEEDED


class NotFoundError(OpError):
    code = NOT_FOUND


class AlreadyExistsError(OpError):
    code = ALREADY_EXISTS


class PermissionDeniedError(OpError):
    code = PERMISSION_DENIED


class ResourceExhaustedError(OpError):
    code = RESOURCE_EXHAUSTED


class FailedPreconditionError(OpError):
    code = FAILED_PRECONDITION


class AbortedError(OpError):
    code = ABORTED


class OutOfRangeError(OpError):
    code = OUT_OF_RANGE


class UnimplementedError(OpError):
    code = UNIMPLEMENTED


class InternalError(OpError):
    code = INTERNAL


class UnavailableError(OpError):
    code = UNAVAILABLE


class DataLossError(OpError):
    code = DATA_LOSS


class UnauthenticatedError(OpError):
    code = UNAUTHENTICATED


_BY_CODE: dict[int, type[OpError]] = {cls.code: cls for cls in OpError.__subclasses__()}


_BY_ERRNO: dict[int, type[OpError]] = {
    errno.ENOENT: NotFoundError,
    errno.EEXIST: AlreadyExistsError,
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), PermissionDeniedError),
    **dict.fromkeys((errno.EISDIR, errno.ENOTDIR, errno.ENOTEMPTY), FailedPreconditionError),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE), ResourceExhaustedError),
}


def class_of(error: OSError) -> type[OpError]:
    """What the system says of a file, as a class of errors."""
    return _BY_ERRNO.get(error.errno or 0, UnknownError)


def error_class(code: int) -> type[OpError]:
    return _BY_CODE.get(code, UnknownError)


def to_dict(error: BaseException) -> dict[str, Any]:
    """JSON-able form of any exception; `from_dict` gives an OpError of the same class back."""
    if not isinstance(error, OpError):
        return {"code": INTERNAL, "message": f"{type(error).__name__}: {_text(error)}"}
    node = error.node_def
    where = {"node": node.name, "op": node.op} if node is not None else {}
    return {"code": error.code, "message": error.message, "device": error.device, **where}


def _text(error: BaseException) -> str:
    """What it says; of a class whose own __str__ fails, what it was made of."""
    try:
        return str(error)
    except Exception as why:
        return f"{error.args!r} (its __str__ raised {type(why).__name__})"


def from_dict(fields: dict[str, Any]) -> OpError:
    from tensorboard.compat.proto.node_def_pb2 import NodeDef

    node = NodeDef(name=fields["node"], op=fields["op"]) if "node" in fields else None
    error = error_class(fields["code"])(node, None, fields["message"])
    error.device = fields.get("device")
    return error
