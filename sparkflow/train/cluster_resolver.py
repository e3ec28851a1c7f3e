"""Which tasks there are and which of them this process is, as others have said it: tf.distribute.cluster_resolver.

TF_CONFIG is JSON in the environment:
{"cluster": {"ps": ["host:port", ...], "worker": [...]}, "task": {"type": "worker", "index": 0}}; a target in
"session_master" goes before the address of the task.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from sparkflow_runtime.wire.cluster import SCHEMES, ClusterSpec
from sparkflow_runtime.wire.errors import InvalidArgumentError

TF_CONFIG = "TF_CONFIG"
CHIEFS = ("chief", "master")


def read_tf_config(environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The fields of TF_CONFIG, {} where it is not set. Raises InvalidArgumentError where it is no JSON object, or its
    task is none of its cluster."""
    text = (os.environ if environment is None else environment).get(TF_CONFIG, "")
    try:
        fields = json.loads(text or "{}")
    except ValueError as error:
        raise InvalidArgumentError(f"{TF_CONFIG} is no JSON ({error}): {text[:200]!r}") from None
    if not isinstance(fields, dict) or not isinstance(fields.get("task", {}), dict):
        raise InvalidArgumentError(f'{TF_CONFIG}: expected {{"cluster": ..., "task": {{...}}}}, got {text[:200]!r}')
    cluster, task = ClusterSpec(fields.get("cluster") or {}), fields.get("task") or {}
    index = _index(task)
    if cluster and task and task.get("type") not in ("evaluator", None):  # an evaluator stands outside the cluster
        cluster.task_address(str(task["type"]), index or 0)
    return fields


def tf_config(cluster: Any, task_type: str, task_id: int) -> str:
    """The value of TF_CONFIG for a task of a cluster."""
    return json.dumps({"cluster": ClusterSpec(cluster).as_dict(), "task": {"type": task_type, "index": task_id}})


class ClusterResolver:
    """task_type and task_id: this process, None and None where it is no task (a client). rpc_layer: of `master()`."""

    task_type: str | None = None
    task_id: int | None = None
    rpc_layer: str | None = SCHEMES[0]

    def cluster_spec(self) -> ClusterSpec:
        raise NotImplementedError(f"{type(self).__name__} does not say which tasks there are: define cluster_spec()")

    def master(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> str:
        """The target of a session whose master is that task, this one by default; "" where there is no cluster."""
        cluster = self.cluster_spec()
        job = task_type or self.task_type
        index = self.task_id if task_id is None else task_id
        if not cluster or job is None:
            return ""
        layer, address = rpc_layer or self.rpc_layer, cluster.task_address(job, index or 0)
        return f"{layer}://{address}" if layer else address


class SimpleClusterResolver(ClusterResolver):
    """Of a cluster that is known here."""

    def __init__(
        self,
        cluster_spec: Any,
        master: str = "",
        task_type: str | None = None,
        task_id: int | None = None,
        environment: str = "",
        rpc_layer: str | None = None,
    ):
        self._cluster, self._master = ClusterSpec(cluster_spec), master
        self.task_type, self.task_id, self.environment = task_type, task_id, environment
        self.rpc_layer = rpc_layer or SCHEMES[0]

    def cluster_spec(self) -> ClusterSpec:
        return self._cluster

    def master(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> str:
        if self._master and task_type is None and task_id is None:
            return self._master
        return super().master(task_type, task_id, rpc_layer)


class TFConfigClusterResolver(ClusterResolver):
    """Of the cluster that the environment variable TF_CONFIG names; what is given here goes before what it says."""

    def __init__(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
        environment: str | None = None,
    ):
        fields = read_tf_config()
        task = fields.get("task") or {}
        self._cluster = ClusterSpec(fields.get("cluster") or {})
        self.task_type = task_type or task.get("type")
        self.task_id = task_id if task_id is not None else _index(task)
        self.rpc_layer = rpc_layer or fields.get("rpc_layer") or SCHEMES[0]
        self.environment = environment or fields.get("environment") or ""
        self._master: str | None = fields.get("session_master")

    def cluster_spec(self) -> ClusterSpec:
        return self._cluster

    def master(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> str:
        return super().master(task_type, task_id, rpc_layer) if self._master is None else self._master


def _index(task: Mapping[str, Any]) -> int | None:
    try:
        return int(task["index"]) if "index" in task else None
    except (TypeError, ValueError):
        raise InvalidArgumentError(f"{TF_CONFIG}: the task's index should be a number, got {task['index']!r}") from None
