"""The QueueRunnerDef message, which the `tensorboard` package has no copy of: a queue runner by its nodes' names."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_Field = descriptor_pb2.FieldDescriptorProto


def _queue_runner_def() -> Any:
    file = descriptor_pb2.FileDescriptorProto(
        name="sparkflow/queue_runner.proto", package="sparkflow.queue_runner", syntax="proto3"
    )
    message = file.message_type.add(name="QueueRunnerDef")
    for number, name in enumerate(("queue_name", "enqueue_op_name", "close_op_name", "cancel_op_name"), 1):
        many = _Field.LABEL_REPEATED if name == "enqueue_op_name" else _Field.LABEL_OPTIONAL
        message.field.add(name=name, number=number, type=_Field.TYPE_STRING, label=many)
    codes = {"name": "queue_closed_exception_types", "number": 5}
    message.field.add(type=_Field.TYPE_INT32, label=_Field.LABEL_REPEATED, **codes)  # of tensorflow.error.Code
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("sparkflow.queue_runner.QueueRunnerDef"))


QueueRunnerDef = _queue_runner_def()
