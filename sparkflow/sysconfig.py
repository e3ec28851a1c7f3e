"""tf.sysconfig: there are no headers and no library to compile ops against."""

from __future__ import annotations

from typing import Any, NoReturn

from sparkflow.behavior import CXX11_ABI_FLAG, CXX_VERSION, MONOLITHIC_BUILD
from sparkflow_runtime.wire.errors import UnimplementedError

__all__ = [
    "CXX11_ABI_FLAG", "CXX_VERSION", "MONOLITHIC_BUILD", "get_build_info", "get_compile_flags", "get_include",
    "get_lib", "get_link_flags",
]  # fmt: skip


def _none() -> NoReturn:
    raise UnimplementedError(
        "tf.sysconfig: sparkflow is Python, so there is nothing to compile ops of C++ against. Use tf.py_func or "
        "tf.numpy_function, or register an op (docs/adding-an-op.md)"
    )


get_include = get_lib = get_compile_flags = get_link_flags = _none


def get_build_info() -> dict[str, Any]:
    """Nothing is built for CUDA or ROCm: GPUs are reached by cupy, where that is installed."""
    return {"is_cuda_build": False, "is_rocm_build": False, "is_tensorrt_build": False}
