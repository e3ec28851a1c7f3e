"""tf.debugging."""

from types import SimpleNamespace as _SimpleNamespace
from typing import Any as _Any
from typing import NoReturn as _NoReturn

from sparkflow.ops.checks import (
    assert_equal,
    assert_greater,
    assert_greater_equal,
    assert_integer,
    assert_less,
    assert_less_equal,
    assert_near,
    assert_negative,
    assert_non_negative,
    assert_non_positive,
    assert_none_equal,
    assert_positive,
    assert_proper_iterable,
    assert_rank,
    assert_rank_at_least,
    assert_rank_in,
    assert_same_float_dtype,
    assert_scalar,
    assert_type,
    is_non_decreasing,
    is_numeric_tensor,
    is_strictly_increasing,
)
from sparkflow.ops.checks import verify_tensor_all_finite as assert_all_finite
from sparkflow.ops.checks_shapes import assert_shapes
from sparkflow.ops.control_flow import Assert, check_numerics
from sparkflow.ops.math import is_finite, is_inf, is_nan
from sparkflow.session.defaults import settings as _settings
from sparkflow_runtime.wire.errors import UnimplementedError as _UnimplementedError


def get_log_device_placement() -> bool:
    return bool(_settings().log_device_placement)


def set_log_device_placement(enabled: bool) -> None:
    """Whether sessions that are made from now on, without a ConfigProto, print where they place nodes."""
    _settings().log_device_placement = bool(enabled)


def enable_check_numerics(stack_height_limit: int = 30, path_length_limit: int = 50) -> _NoReturn:
    raise _UnimplementedError(
        "tf.debugging.enable_check_numerics: nodes are not checked as they are made; run tf.add_check_numerics_ops() "
        "with the step, or put tf.check_numerics where you suspect them"
    )


def disable_check_numerics() -> None:
    """It is off."""


def is_traceback_filtering_enabled() -> bool:
    """False: tracebacks are Python's own."""
    return False


def enable_traceback_filtering() -> _NoReturn:
    raise _UnimplementedError(
        "tf.debugging.enable_traceback_filtering: tracebacks are Python's own; leave the call out"
    )


def disable_traceback_filtering() -> None:
    """It is off."""


def _no_dump(*args: _Any, **kwargs: _Any) -> _NoReturn:
    raise _UnimplementedError(
        "tf.debugging.experimental.enable_dump_debug_info: use tfdbg, or tf.profiler and RunOptions"
    )


experimental = _SimpleNamespace(enable_dump_debug_info=_no_dump, disable_dump_debug_info=lambda: None)
