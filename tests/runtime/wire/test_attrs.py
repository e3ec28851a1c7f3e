"""Constants as passes read them."""

from __future__ import annotations

import numpy as np
import pytest

from sparkflow_runtime.wire.attrs import constant, encode
from sparkflow_runtime.wire.control_flow import has_control_flow
from sparkflow_runtime.wire.protos import NodeDef


def test_small_constants_are_made_once_and_only_read() -> None:
    first, again = constant(encode(np.array([1, 2]))), constant(encode(np.array([1, 2])))
    assert first is again and first.tolist() == [1, 2]
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 3
    large = np.arange(100.0)
    np.testing.assert_array_equal(constant(encode(large)), large)
    assert constant(encode(large)) is not constant(encode(large))


def test_a_transfer_that_may_die_is_control_flow() -> None:
    plain, dying = NodeDef(name="a", op="_Recv"), NodeDef(name="b", op="_Recv")
    dying.attr["_may_die"].b = True
    assert not has_control_flow([plain]) and has_control_flow([plain, dying])
