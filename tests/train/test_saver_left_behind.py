"""What a process leaves that is killed as it saves: the next save removes it, and nothing of one that is alive."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.framework.graph import Graph
from sparkflow_runtime.wire import temporaries

DYING = """
import os, signal, sys
import sparkflow as tf
from sparkflow_runtime.kernels import checkpoint_bytes, checkpoint_files
from sparkflow_runtime.wire import checkpoint

path, sharded, moment = sys.argv[1], sys.argv[2] == "sharded", sys.argv[3]
die = lambda *args, **kwargs: os.kill(os.getpid(), signal.SIGKILL)
tf.Variable([1.0, 2.0], name="w")
saver = tf.train.Saver(sharded=sharded)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    saver.save(session, path, 1)
    module, name = {
        "data": (checkpoint_bytes, "write"),
        "index": (checkpoint, "encode"),
        "merge": (checkpoint_files, "merge"),
    }[moment]
    setattr(module, name, die)
    saver.save(session, path, 2)
"""


@pytest.mark.parametrize(
    "how, moment", [("whole", "data"), ("whole", "index"), ("sharded", "data"), ("sharded", "merge")]
)
def test_the_next_save_removes_what_a_killed_one_left(graph: Graph, tmp_path: Path, how: str, moment: str) -> None:
    path = str(tmp_path / "model.ckpt")
    ended = subprocess.run([sys.executable, "-c", DYING, path, how, moment], check=False, timeout=120)
    assert ended.returncode == -signal.SIGKILL
    left = {p.name for p in tmp_path.iterdir() if p.name.startswith("model.ckpt-2")}
    assert left and (how == "whole" or "model.ckpt-2_temp" in left)
    assert tf.train.latest_checkpoint(str(tmp_path)) == path + "-1"
    tf.Variable(np.zeros(2, np.float32), name="w")
    saver = tf.train.Saver(sharded=how == "sharded")
    with tf.Session() as session:
        saver.restore(session, path + "-1")
        saver.save(session, path, 3, write_meta_graph=False)
    found = sorted(p.name for p in tmp_path.iterdir())
    ending = ".data-00000-of-00001"
    assert found == [
        "checkpoint", "model.ckpt-1" + ending, "model.ckpt-1.index", "model.ckpt-1.meta",
        "model.ckpt-3" + ending, "model.ckpt-3.index",
    ]  # fmt: skip


def save(path: Path) -> None:
    tf.Variable(np.zeros(2, np.float32), name="w")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        tf.train.Saver().save(session, str(path), 3, write_meta_graph=False)


def test_what_others_write_stays(graph: Graph, tmp_path: Path) -> None:
    """Processes that are alive, here or (for all that is known) elsewhere, and files of other names."""
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        own = temporaries.temporary("m-2.index")
        start = temporaries._start(other.pid)
        alive = re.sub(r"\.\d+\.\d+-", f".{other.pid}.{start}-", own)
        anew = re.sub(r"\.\d+\.\d+-", f".{other.pid}.{start + 1}-", own)  # type: ignore[operator]
        far = re.sub(r"tmp-.{8}", "tmp-00000000", own)
        keep = [own, alive, far, "n-2.index" + alive.removeprefix("m-2.index"), "m-2.data-00000-of-00001", "mine.txt"]
        for name in [*keep, anew]:
            (tmp_path / name).write_bytes(b"half")
        parts = [name.replace("m-2.index", "m-7_temp") for name in (alive, anew)]
        for name in parts:
            (tmp_path / name).touch()
        (tmp_path / "m-7_temp").mkdir()
        save(tmp_path / "m")
        left = {p.name for p in tmp_path.iterdir()}
        assert left == {*keep, *parts, "m-7_temp", "checkpoint", "m-3.data-00000-of-00001", "m-3.index"}
    finally:
        other.kill()
        other.communicate()
    for path in tmp_path.glob("m-3.*"):
        path.unlink()
    with Graph().as_default():
        save(tmp_path / "m")
    assert {p.name for p in tmp_path.iterdir()} == left - {alive, "m-7_temp", *parts}


def test_what_another_machine_wrote_goes_when_it_is_old(graph: Graph, tmp_path: Path) -> None:
    far = re.sub(r"tmp-.{8}", "tmp-00000000", temporaries.temporary("m-2.index"))
    names = [far, "m-1.data-00000-of-00001.tmp-0123456789ab", "m-4_temp", "m-5_temp"]
    for name in names[:2]:
        (tmp_path / name).write_bytes(b"half")
    for name in names[2:]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "part").write_bytes(b"part")
    for path in [*tmp_path.iterdir(), *tmp_path.glob("*/part")]:
        if path != tmp_path / "m-5_temp" / "part":
            then = path.stat().st_mtime - 2 * temporaries.UNKNOWN_S
            os.utime(path, (then, then))
    save(tmp_path / "m")
    assert {p.name for p in tmp_path.iterdir()} & set(names) == {"m-5_temp"}, "a part of it is young"


def test_whose_number_another_process_has_is_gone() -> None:
    own = temporaries.temporary("x")
    assert temporaries.abandoned(own) is False
    start = temporaries._start(os.getpid())
    assert temporaries.abandoned(own.replace(f".{start}-", ".1-")) is True
    assert temporaries.abandoned("x.tmp-0123456789ab") is None


def test_who_has_ended_and_was_not_waited_for_is_gone() -> None:
    """In a container whose first process waits for nobody, killed ones are there for ever."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    own = temporaries.temporary("x", child.pid)
    assert temporaries.abandoned(own) is False
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and is still to be waited for
    assert temporaries.abandoned(own) is True
    child.communicate()
