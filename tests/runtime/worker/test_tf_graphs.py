"""Graphs with control flow that TensorFlow 2.21 made (compat.v1, control flow v1), by both executors.

tf_graphs.zip holds each graph as NAME.pb and what TensorFlow computed in expected.json: name -> fetches, init, the
dtypes of the feeds, and runs in order (feeds, and values or the class of the error).
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.session import RuntimeSession
from sparkflow_runtime.wire import dtypes, errors
from sparkflow_runtime.wire.protos import GraphDef
from sparkflow_runtime.worker.frame_plan import FramePlan

ARCHIVE = zipfile.ZipFile(Path(__file__).parent / "tf_graphs.zip")
EXPECTED = json.loads(ARCHIVE.read("expected.json"))
NEEDS_FRAMES = {"queue_in_loop"}  # something waits inside the loop


def _session(name: str, native: bool) -> RuntimeSession:
    session = RuntimeSession()
    session._master._own.native_loops = native  # type: ignore[attr-defined]
    session.extend(GraphDef.FromString(ARCHIVE.read(f"{name}.pb")))
    if EXPECTED[name]["init"]:
        session.run({}, [], [EXPECTED[name]["init"]])
    return session


def _plans(session: RuntimeSession) -> list[Any]:
    return [part.plan for part in session._master._own._parts.values()]  # type: ignore[attr-defined]


@pytest.mark.parametrize("native", [True, False], ids=["native", "frames"])
@pytest.mark.parametrize("name", EXPECTED)
def test_as_tensorflow(name: str, native: bool) -> None:
    case = EXPECTED[name]
    session = _session(name, native)
    for run in case["runs"]:
        feeds = {f"{k}:0": np.asarray(v, dtypes.as_dtype(case["dtypes"][k]).np) for k, v in run["feeds"].items()}
        if "error" in run:
            with pytest.raises(getattr(errors, run["error"])):
                session.run(feeds, case["fetches"], [])
            continue
        for fetch, got, wanted in zip(case["fetches"], session.run(feeds, case["fetches"], []), run["values"]):
            assert np.shape(got) == np.shape(wanted) or np.size(wanted) == 0, fetch
            np.testing.assert_allclose(got, np.reshape(wanted, np.shape(got)), 1e-5, 1e-6, err_msg=fetch)
    has_frames = any(isinstance(plan, FramePlan) for plan in _plans(session))
    assert has_frames == ((not native and name not in _WITHOUT) or name in NEEDS_FRAMES)
    session.close()


_WITHOUT = {"array_concat_split", "array_partly_read", "array_read_twice", "array_bounds", "feed_after_loop"}
