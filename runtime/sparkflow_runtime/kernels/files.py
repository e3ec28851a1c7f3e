"""Files, as the task that runs the node sees them."""

from __future__ import annotations

import glob
import os
import secrets
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.registry import Function, Node, bound
from sparkflow_runtime.wire.errors import InvalidArgumentError, class_of
from sparkflow_runtime.wire.tensor_proto import as_bytes


def _path(name: Any, op: str) -> str:
    array = np.asarray(name, object)
    if array.ndim:
        raise InvalidArgumentError(f"{op}: the file name must be a scalar, got shape {list(array.shape)}")
    return as_bytes(array.item()).decode()


def _named(error: OSError, path: str) -> Exception:
    return class_of(error)(f"{path}: {error.strerror or error}")


def _scalar(value: bytes) -> np.ndarray:
    out = np.empty((), object)
    out[()] = value
    return out


@bound("ReadFile")
def _read(node: Node) -> Function:
    def run(filename: Any) -> np.ndarray:
        path = _path(filename, node.op)
        try:
            with open(path, "rb") as f:
                return _scalar(f.read())
        except OSError as error:
            raise _named(error, path) from None

    return run


@bound("WriteFile", multi=True)
def _write(node: Node) -> Function:
    def run(filename: Any, contents: Any) -> tuple[()]:
        path = _path(filename, node.op)
        unfinished = f"{path}.{secrets.token_hex(4)}.tmp"
        try:
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            with open(unfinished, "wb") as f:
                f.write(as_bytes(np.asarray(contents, object).item()))
            os.replace(unfinished, path)
        except OSError as error:
            if os.path.exists(unfinished):
                os.unlink(unfinished)
            raise _named(error, path) from None
        return ()

    return run


@bound("MatchingFiles")
def _matching(node: Node) -> Function:
    def run(pattern: Any) -> np.ndarray:
        patterns = [as_bytes(p).decode() for p in np.asarray(pattern, object).ravel()]
        found = sorted(path.encode() for p in patterns for path in glob.glob(p))
        out = np.empty(len(found), object)
        out[:] = found
        return out

    return run
