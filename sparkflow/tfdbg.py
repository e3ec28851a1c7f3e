"""tensorflow.python.debug: scripts import it at their top and use it behind a flag. There is no debugger here."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow.train.session_run_hook import SessionRunHook
from sparkflow_runtime.wire.errors import UnimplementedError


def has_inf_or_nan(datum: Any, tensor: Any) -> bool:
    """Whether an array has an infinity or a NaN in it."""
    array = np.asarray(tensor)
    return array.dtype.kind in "fc" and not bool(np.isfinite(array).all())


class _None:
    """Raises UnimplementedError, which says what there is instead."""

    def __init__(self, *args: Any, **kwargs: Any):
        raise UnimplementedError(
            f"{type(self).__name__}: there is no debugger here; tf.Print shows values, tf.add_check_numerics_ops and "
            "tf.debugging.check_numerics name the node of a NaN, and RunMetadata of FULL_TRACE what ran"
        )


class LocalCLIDebugWrapperSession(_None): ...


class DumpingDebugWrapperSession(_None): ...


class TensorBoardDebugWrapperSession(_None): ...


class LocalCLIDebugHook(_None, SessionRunHook): ...


class DumpingDebugHook(_None, SessionRunHook): ...


class TensorBoardDebugHook(_None, SessionRunHook): ...
