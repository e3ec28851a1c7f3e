"""The messages of a SavedModel that the `tensorboard` package has no copy of, or not by the name that files have."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from tensorboard.compat.proto import meta_graph_pb2

_FIELD = descriptor_pb2.FieldDescriptorProto


def _saved_model() -> Any:
    """A list of MetaGraphs."""
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


def _asset() -> Any:
    """The asset of a collection. A file says its type in words, tensorflow.AssetFileDef, and only a message called so
    can be unpacked from there; it is in a pool of its own, as TensorFlow's is in everyone's once that is imported."""
    file = descriptor_pb2.FileDescriptorProto(name="sparkflow/asset.proto", package="tensorflow", syntax="proto3")
    info, asset = file.message_type.add(name="TensorInfo"), file.message_type.add(name="AssetFileDef")
    info.field.add(name="name", number=1, type=_FIELD.TYPE_STRING, label=_FIELD.LABEL_OPTIONAL)
    asset.field.add(
        name="tensor_info", number=1, type=_FIELD.TYPE_MESSAGE, label=_FIELD.LABEL_OPTIONAL,
        type_name=".tensorflow.TensorInfo",
    )  # fmt: skip
    asset.field.add(name="filename", number=2, type=_FIELD.TYPE_STRING, label=_FIELD.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tensorflow.AssetFileDef"))


SavedModel, AssetFileDef = _saved_model(), _asset()


def __getattr__(name: str) -> Any:
    """What else tensorflow.core.protobuf.meta_graph_pb2 has."""
    return getattr(meta_graph_pb2, name)
