"""The SavedModel message, which the `tensorboard` package has no copy of: a list of MetaGraphs."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from tensorboard.compat.proto import meta_graph_pb2

_FIELD = descriptor_pb2.FieldDescriptorProto


def _saved_model() -> Any:
    meta = meta_graph_pb2.DESCRIPTOR
    file = descriptor_pb2.FileDescriptorProto(
        name="sparkflow/saved_model.proto", package="sparkflow.saved_model", syntax="proto3", dependency=[meta.name]
    )
    message = file.message_type.add(name="SavedModel")
    message.field.add(name="saved_model_schema_version", number=1, type=_FIELD.TYPE_INT64, label=_FIELD.LABEL_OPTIONAL)
    message.field.add(
        name="meta_graphs", number=2, type=_FIELD.TYPE_MESSAGE, label=_FIELD.LABEL_REPEATED,
        type_name="." + meta_graph_pb2.MetaGraphDef.DESCRIPTOR.full_name,
    )  # fmt: skip
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("sparkflow.saved_model.SavedModel"))


SavedModel = _saved_model()
