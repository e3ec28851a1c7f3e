"""Where nodes go whose device name lacks a part."""

from __future__ import annotations

from typing import Any

import pytest

from sparkflow_runtime.master.place import place
from sparkflow_runtime.wire.errors import InvalidArgumentError

DEVICES = [
    f"/job:{job}/replica:0/task:{task}/device:CPU:0"
    for job, tasks in (("zeta", (0, 1, 10, 2)), ("worker", (0, 1)), ("ps", (0, 1)), ("late", (3, 4)))
    for task in tasks
]


@pytest.mark.parametrize(
    "default, asked, found",
    [
        ("worker/task:0", "/task:1", "ps/task:1"),
        ("worker/task:0", "/task:2", "zeta/task:2"),
        ("worker/task:0", "/task:10", "zeta/task:10"),
        ("worker/task:0", "/task:0", "worker/task:0"),
        ("worker/task:1", "/task:0", "ps/task:0"),
        ("worker/task:1", "/replica:0/task:2/cpu:0", "zeta/task:2"),
        ("ps/task:1", "/job:zeta", "zeta/task:0"),
        ("zeta/task:2", "/job:zeta", "zeta/task:2"),
        ("ps/task:1", "/job:late", "late/task:3"),
        ("ps/task:1", "/cpu:0", "ps/task:1"),
    ],
)
def test_as_tensorflow_completes_it(node: Any, graph_def: Any, default: str, asked: str, found: str) -> None:
    """From the session's own task; where there is no such device, from the first job, and in it the first task, that
    has one."""

    def full(name: str) -> str:
        return "/job:{}/replica:0/{}/device:CPU:0".format(*name.split("/"))

    graph = graph_def(node("a", "NoOp", device=asked))
    assert [n.device for n in place(graph, DEVICES, full(default)).node] == [full(found)]


def test_a_device_that_no_job_has_is_refused(node: Any, graph_def: Any) -> None:
    for asked in ("/task:7", "/job:ps/task:2", "/task:1/device:GPU:0", "/job:late/cpu:1"):
        with pytest.raises(InvalidArgumentError, match=f"it asks for '{asked.replace('cpu', 'device:CPU')}', and the"):
            place(graph_def(node("a", "NoOp", device=asked)), DEVICES, DEVICES[0])
