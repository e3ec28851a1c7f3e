"""tf.debugging."""

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
