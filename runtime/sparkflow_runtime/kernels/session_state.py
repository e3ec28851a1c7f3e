"""Values kept between the steps of a session, named by handles."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.registry import Function, Node, bound
from sparkflow_runtime.resources.kept_values import KeptValues
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError


def _kept(node: Node) -> KeptValues:
    return node.resources.get_or_create(node.container, "kept values", KeptValues, KeptValues)


def _named(handle: Any) -> str:
    value = handle.item() if isinstance(handle, np.ndarray) else handle
    return value.decode() if isinstance(value, bytes) else str(value)


def _own(value: Any) -> Any:
    """A copy: the memory is a variable's, or another step's to be."""
    return value.copy() if hasattr(value, "copy") else value


@bound("GetSessionHandle")
def _keep(node: Node) -> Function:
    kept = _kept(node)
    return lambda value: np.array(kept.keep(node.name, node.device, _own(value)).encode(), object)


@bound("GetSessionTensor")
def _find(node: Node) -> Function:
    kept, want = _kept(node), dtypes.as_dtype(node.attrs["dtype"])

    def run(handle: Any) -> Any:
        value = kept.find(_named(handle))
        if value.dtype != want.np:
            raise InvalidArgumentError(f"{node.name!r} asks for {want.name}, and {_named(handle)!r} is {value.dtype}")
        return _own(value)

    return run


@bound("DeleteSessionTensor", multi=True)
def _drop(node: Node) -> Function:
    kept = _kept(node)

    def run(handle: Any) -> tuple[()]:
        kept.drop(_named(handle))
        return ()

    return run
