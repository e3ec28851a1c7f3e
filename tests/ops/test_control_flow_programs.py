"""Programs with branches, loops, arrays and cells give what TensorFlow gives for them, gradients included.

control_flow_values.json holds what TensorFlow 2.21 computed; tests/oracle/test_control_flow.py computes it anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.framework.graph import Graph
from tests.control_flow_programs import PROGRAMS

VALUES = json.loads((Path(__file__).parent / "control_flow_values.json").read_text(encoding="utf-8"))


def test_every_program_has_its_values() -> None:
    assert list(PROGRAMS) == list(VALUES)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, graph: Graph) -> None:
    feeds, fetches = PROGRAMS[name](tf)
    wanted = VALUES[name]
    assert [f is None for f in fetches] == [w is None for w in wanted]
    with tf.Session() as session:
        for _ in range(2):  # what a step leaves behind must not change the next one
            found = iter(session.run([f for f in fetches if f is not None], feeds))
            for fetch, want in zip(fetches, wanted, strict=True):
                if fetch is not None:
                    _compare(next(found), want, fetch)


def _compare(got: Any, want: Any, fetch: Any) -> None:
    assert fetch.shape.is_compatible_with(np.shape(want)), f"{fetch} came out with shape {np.shape(want)}"
    if np.asarray(got).dtype == object:
        assert [v.decode() for v in got] == want
    else:
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12, err_msg=fetch.name)
