"""ServerDef: a task of a cluster and how it serves, in TensorFlow's bytes.

The `tensorboard` package does not carry this message, so it is declared here, under a package name of our own: an
imported TensorFlow registers its own, and two of one name cannot live in a process.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from tensorboard.compat.proto import cluster_pb2, config_pb2

from sparkflow_runtime.wire.cluster import ClusterSpec

_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS = (("job_name", 2, _FIELD.TYPE_STRING), ("task_index", 3, _FIELD.TYPE_INT32),
            ("protocol", 5, _FIELD.TYPE_STRING), ("port", 6, _FIELD.TYPE_INT32),
            ("replica", 8, _FIELD.TYPE_INT32))  # fmt: skip
_MESSAGES = (("cluster", 1, cluster_pb2.ClusterDef), ("default_session_config", 4, config_pb2.ConfigProto))


def _declared() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="sparkflow/server_def.proto", package="sparkflow", syntax="proto3")
    message = file.message_type.add(name="ServerDef")
    for name, number, kind in _SCALARS:
        message.field.add(name=name, number=number, type=kind, label=_FIELD.LABEL_OPTIONAL)
    for name, number, other in _MESSAGES:
        file.dependency.append(other.DESCRIPTOR.file.name)
        message.field.add(
            name=name,
            number=number,
            type=_FIELD.TYPE_MESSAGE,
            type_name=f".{other.DESCRIPTOR.full_name}",
            label=_FIELD.LABEL_OPTIONAL,
        )
    pool = descriptor_pool.Default()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("sparkflow.ServerDef"))


ServerDef = _declared()
"""Fields: cluster, job_name, task_index, default_session_config, protocol, port, replica."""


def is_server_def(value: Any) -> bool:
    """Ours, or TensorFlow's own."""
    return hasattr(value, "cluster") and hasattr(value, "job_name") and hasattr(value, "SerializeToString")


def make(cluster: ClusterSpec, job: str, index: int, protocol: str, config: Any) -> Any:
    made = ServerDef(job_name=job, task_index=index, protocol=protocol, cluster=cluster.as_cluster_def())
    if config is not None:
        made.default_session_config.CopyFrom(config)
    return made


def read(value: Any) -> Any:
    """A ServerDef of ours from one of either kind."""
    return value if isinstance(value, ServerDef) else ServerDef.FromString(value.SerializeToString())
