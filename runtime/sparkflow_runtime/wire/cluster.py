"""ClusterSpec: which address serves which task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tensorboard.compat.proto.cluster_pb2 import ClusterDef

from sparkflow_runtime.wire.devices import DeviceSpec, task_name
from sparkflow_runtime.wire.errors import InvalidArgumentError

SCHEMES = ("sparkflow", "grpc")  # of a target; the second is what TensorFlow's programs say
_LOCALHOST = "127.0.0.1"


def address_of(target: str) -> str:
    """'host:port' of a session's target such as 'sparkflow://host:port', where localhost is its number.

    Raises InvalidArgumentError on another form.
    """
    scheme, found, address = target.partition("://")
    host, _, port = address.rpartition(":")
    if not found or scheme not in SCHEMES or not host or not port.isdigit():
        raise InvalidArgumentError(f"Session target {target!r}: expected '', sparkflow://host:port or grpc://host:port")
    return numbered(address)


def numbered(address: str) -> str:
    """The address with localhost as a number, which is how servers print what they are bound to."""
    host, _, port = address.rpartition(":")
    return f"{_LOCALHOST}:{port}" if host == "localhost" else address


class ClusterSpec:
    """Job name -> task addresses.

    cluster: a dict {"ps": ["host:port", ...]} (or {task index: address} per job), a ClusterDef, or a ClusterSpec.
    Raises TypeError on anything else.
    """

    def __init__(self, cluster: Any):
        self._jobs: dict[str, dict[int, str]] = {}
        if isinstance(cluster, ClusterSpec):
            self._jobs = {job: dict(tasks) for job, tasks in cluster._jobs.items()}
        elif isinstance(cluster, ClusterDef) or hasattr(cluster, "job"):  # TensorFlow's own class is another
            self._jobs = {job.name: dict(job.tasks) for job in cluster.job}
        elif isinstance(cluster, Mapping):
            if wrong := [job for job in cluster if not isinstance(job, str)]:
                raise TypeError(f"ClusterSpec: Job name {wrong[0]!r} must be a string")
            self._jobs = {job: self._tasks(job, tasks) for job, tasks in cluster.items()}
        else:
            raise TypeError(f"ClusterSpec takes a dict, a ClusterDef or a ClusterSpec, got {type(cluster).__name__}")

    @staticmethod
    def _tasks(job: str, tasks: Any) -> dict[int, str]:
        if isinstance(tasks, Sequence) and not isinstance(tasks, str):
            tasks = dict(enumerate(tasks))
        if isinstance(tasks, Mapping):
            if wrong := [address for address in tasks.values() if not isinstance(address, str)]:
                raise TypeError(f"Job {job!r}: an address is a string 'host:port', got {wrong[0]!r}")
            try:
                return {int(index): address for index, address in tasks.items()}
            except ValueError:
                raise ValueError(f"Job {job!r}: tasks are numbered, got the indices {list(tasks)!r}") from None
        raise TypeError(f"Job {job!r}: expected a list of addresses or a dict index -> address, got {tasks!r}")

    @property
    def jobs(self) -> list[str]:
        return sorted(self._jobs)

    def num_tasks(self, job_name: str) -> int:
        return len(self._job(job_name))

    def task_indices(self, job_name: str) -> list[int]:
        return sorted(self._job(job_name))

    def job_tasks(self, job_name: str) -> list[str | None]:
        """The addresses by index, None at an index that no task has."""
        tasks = self._job(job_name)
        return [tasks.get(i) for i in range(max(tasks) + 1)]

    def task_address(self, job_name: str, task_index: int) -> str:
        tasks = self._job(job_name)
        if not hasattr(task_index, "__index__"):  # above all one of sys.argv that nobody has made a number of
            raise TypeError(f"Job {job_name!r}: a task's index is a whole number, got {task_index!r}")
        if task_index not in tasks:
            raise InvalidArgumentError(f"Job {job_name!r} has no task {task_index}; it has {sorted(tasks)}")
        return tasks[task_index]

    def _job(self, job_name: str) -> dict[int, str]:
        if job_name not in self._jobs:
            raise InvalidArgumentError(f"The cluster has no job {job_name!r}; it has {self.jobs}")
        return self._jobs[job_name]

    def addresses(self, filters: Sequence[str] = ()) -> dict[str, str]:
        """Of every task, by its name /job:.../task:n; with `filters` only of those that one of them names, whole or in
        part, as ConfigProto has it. Raises InvalidArgumentError where one is no device name."""
        found = {task_name(job, i): address for job in self.jobs for i, address in sorted(self._jobs[job].items())}
        wanted = [DeviceSpec.from_string(f) for f in filters]
        return {name: a for name, a in found.items() if not wanted or any(w.fits_task(name) for w in wanted)}

    def as_dict(self) -> dict[str, Any]:
        """Job -> list of addresses, or a dict index -> address where indices have holes."""
        dense = {job: list(tasks) == list(range(len(tasks))) for job, tasks in self._jobs.items()}
        return {job: list(tasks.values()) if dense[job] else dict(tasks) for job, tasks in self._jobs.items()}

    def as_cluster_def(self) -> ClusterDef:
        cluster = ClusterDef()
        for name in self.jobs:
            cluster.job.add(name=name, tasks=self._jobs[name])
        return cluster

    def with_address(self, job_name: str, task_index: int, address: str) -> ClusterSpec:
        """The same cluster with one task elsewhere."""
        made = ClusterSpec(self)
        made._job(job_name)[task_index] = address
        return made

    def __len__(self) -> int:
        """How many tasks there are."""
        return sum(map(len, self._jobs.values()))

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClusterSpec) and self._jobs == other._jobs

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ClusterSpec({self.as_dict()!r})"
