"""Clusters whose tasks are processes, for tests of what only processes show."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

SERVE = Path(__file__).with_name("serve.py")


class Task:
    """A Server in a process of its own. address: host:port."""

    def __init__(self, job: str, index: int, *arguments: str):
        command = [sys.executable, str(SERVE), job, str(index), *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.job, self.index = job, index

    def begin(self) -> Task:
        self.address = self._said()
        return self

    @property
    def target(self) -> str:
        return f"sparkflow://{self.address}"

    def join(self, cluster: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(cluster) + "\n")
        self.process.stdin.flush()
        assert self._said() == "ready"

    def _said(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def stop(self) -> None:
        """However it is: ended, stopped or alive."""
        self.process.kill()
        self.process.communicate()


class Cluster:
    """Of processes, by name: cluster["ps0"]. All start at once."""

    def __init__(self, **counts: int):
        self.tasks = {f"{job}{i}": Task(job, i) for job, n in counts.items() for i in range(n)}
        for task in self.tasks.values():
            task.begin()
        self.spec = {job: [self.tasks[f"{job}{i}"].address for i in range(n)] for job, n in counts.items()}
        for task in self.tasks.values():
            task.join(self.spec)

    def __getitem__(self, name: str) -> Task:
        return self.tasks[name]

    def restart(self, name: str) -> None:
        """End a task and begin it again at its address, without what it held."""
        old = self.tasks[name]
        old.stop()
        fresh = Task(old.job, old.index, old.address.rpartition(":")[2]).begin()
        assert fresh.address == old.address
        fresh.join(self.spec)
        self.tasks[name] = fresh

    def stop(self) -> None:
        for task in self.tasks.values():
            task.stop()
