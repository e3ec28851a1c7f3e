"""Arrays of Python's numbers: each has its own, though equal ones are worked out once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from sparkflow.framework.python_values import as_array
from sparkflow_runtime.wire import dtypes

VALUES: list[Any] = [0, 1, True, 1.0, 0.0, -0.0, math.nan, math.inf, -3, 2**40, [1], [1, 2], [True, 1], [1.0], [-0.0],
                     [], [2**40], [[1, 2]], (1, 2)]  # fmt: skip


@pytest.mark.parametrize("dtype", [None, dtypes.float32, dtypes.int64, dtypes.bool_], ids=str)
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_every_time_the_same(value: Any, dtype: Any) -> None:
    def told() -> Any:
        try:
            array = as_array(value, dtype)
        except (TypeError, ValueError) as error:
            return type(error), str(error)
        return array.dtype, array.shape, array.tobytes()

    for other in VALUES:  # of which some are equal to it
        try:
            as_array(other, dtype)
        except (TypeError, ValueError):
            continue
    first = told()
    assert told() == first
    if first[0] not in (TypeError, ValueError):
        plain = np.asarray(value).astype(first[0])
        assert first[1:] == (plain.shape, plain.tobytes())


def test_nobody_changes_what_another_has() -> None:
    for value in (7, 7.5, [7, 8]):
        one = as_array(value)
        one[...] = 1
        assert as_array(value).tolist() == value and as_array(value).flags.writeable


def test_what_does_not_fit_is_shown_as_it_was_given() -> None:
    for _ in range(2):
        with pytest.raises(ValueError, match=r"\[300\] does not fit int8"):
            as_array([300], dtypes.int8)
        with pytest.raises(ValueError, match="-1 does not fit uint8"):
            as_array(-1, dtypes.uint8)
