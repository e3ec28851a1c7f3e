"""examples/trainer.py as its users start it: three processes, in whatever order."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path

import sparkflow as tf

TRAINER = Path(__file__).parents[2] / "examples" / "trainer.py"


def addresses(count: int) -> list[str]:
    """Free now; a Server started by hand has to be told its port."""
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    found = [f"localhost:{one.getsockname()[1]}" for one in held]
    for one in held:
        one.close()
    return found


def test_a_trainer_by_hand(tmp_path: Path) -> None:
    ps, *workers = addresses(3)

    def start(job: str, index: int) -> subprocess.Popen[str]:
        command = [sys.executable, str(TRAINER), f"--ps_hosts={ps}", f"--worker_hosts={','.join(workers)}"]
        command += [f"--job_name={job}", f"--task_index={index}", f"--train_dir={tmp_path}", "--steps=300"]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    running = [start("worker", 1), start("worker", 0)]  # the server comes last, and they wait for it
    server = start("ps", 0)
    try:
        for process in running:
            said, errors = process.communicate(timeout=60)
            assert process.returncode == 0, errors
            found = re.fullmatch(r"worker (\d): loss (\d\.\d+)\n", said)
            assert found is not None and float(found[2]) < 0.5, said
        assert server.poll() is None, "a parameter server serves on"
    finally:
        for process in (*running, server):
            process.kill()
            process.communicate()
    saved = tf.train.load_variable(tf.train.latest_checkpoint(str(tmp_path)), "global_step")
    assert saved >= 300
