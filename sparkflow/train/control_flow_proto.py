"""What TensorFlow's MetaGraphs say of loops and the nodes do not: which have no gradient (`back_prop=False`).

The messages are those of tensorflow/core/protobuf/control_flow.proto as far as they lead there; the `tensorboard`
package has no copy of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from sparkflow.framework.graph_keys import GraphKeys

_Field = descriptor_pb2.FieldDescriptorProto
_PACKAGE = "sparkflow.control_flow"
_MESSAGES: dict[str, list[tuple[str, int, Any]]] = {  # name -> (field, number, its type: a scalar's or a message)
    "CondContextDef": [("nested_contexts", 6, "ControlFlowContextDef")],
    "WhileContextDef": [
        ("context_name", 1, _Field.TYPE_STRING),
        ("back_prop", 3, _Field.TYPE_BOOL),
        ("nested_contexts", 12, "ControlFlowContextDef"),
    ],
    "ControlFlowContextDef": [("cond_ctxt", 1, "CondContextDef"), ("while_ctxt", 2, "WhileContextDef")],
}


def _messages() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="sparkflow/control_flow.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for key, number, kind in fields:
            many = _Field.LABEL_REPEATED if key == "nested_contexts" else _Field.LABEL_OPTIONAL
            field = message.field.add(name=key, number=number, label=many)
            if isinstance(kind, str):
                field.type, field.type_name = _Field.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
            else:
                field.type = kind
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    return {n: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{n}")) for n in _MESSAGES}


_CLASSES = _messages()
OF_COLLECTIONS = {
    GraphKeys.WHILE_CONTEXT: _CLASSES["WhileContextDef"],
    GraphKeys.COND_CONTEXT: _CLASSES["CondContextDef"],
}


def without_gradient(key: str, values: Iterable[bytes]) -> Iterator[str]:
    """The names of the loops of a collection's contexts, nested ones too, that back_prop=False was said of."""
    for raw in values:
        yield from _without_gradient(OF_COLLECTIONS[key].FromString(raw))


def _without_gradient(context: Any) -> Iterator[str]:
    if isinstance(context, _CLASSES["WhileContextDef"]) and not context.back_prop:
        yield context.context_name
    for nested in context.nested_contexts:
        for kind in ("cond_ctxt", "while_ctxt"):
            if nested.HasField(kind):
                yield from _without_gradient(getattr(nested, kind))
