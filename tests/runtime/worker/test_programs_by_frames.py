"""The programs of tests/control_flow_programs.py by the general executor: what the native form gives, it gives too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.framework.graph import Graph
from sparkflow_runtime.worker.frame_plan import FramePlan
from sparkflow_runtime.worker.worker import Worker
from tests.control_flow_programs import PROGRAMS


def _run(name: str, native: bool) -> list[Any]:
    with Graph().as_default():
        feeds, fetches = PROGRAMS[name](tf)
        with tf.Session() as session:
            worker: Worker = session._runtime._master._own  # type: ignore[assignment]
            worker.native_loops = native
            found = session.run([f for f in fetches if f is not None], feeds)
            has_frames = any(isinstance(part.plan, FramePlan) for part in worker._parts.values())
            assert not (native and has_frames), "what the front end makes has a native form"
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_both_ways(name: str) -> None:
    for got, want in zip(_run(name, False), _run(name, True), strict=True):
        if np.asarray(want).dtype == object:
            assert np.asarray(got).tolist() == np.asarray(want).tolist()
        else:
            np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)
