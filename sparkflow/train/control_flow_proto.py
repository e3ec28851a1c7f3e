"""The messages by which MetaGraphs tell of loops and branches, and what they say that nodes do not: which loops have
no gradient (`back_prop=False`).

They are those of tensorflow/core/protobuf/control_flow.proto; the `tensorboard` package has no copy of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from sparkflow.framework.graph_keys import GraphKeys

_Field = descriptor_pb2.FieldDescriptorProto
_PACKAGE = "sparkflow.control_flow"
_MESSAGES: dict[str, list[tuple[str, int, Any]]] = {  # name -> (field, number, its type: a scalar's or a message)
    "ExternalValue": [("key", 1, _Field.TYPE_STRING), ("value", 2, _Field.TYPE_STRING)],  # an entry of a map there
    "ValuesDef": [("values", 1, _Field.TYPE_STRING), ("external_values", 2, "ExternalValue")],
    "CondContextDef": [
        ("context_name", 1, _Field.TYPE_STRING),
        ("pred_name", 2, _Field.TYPE_STRING),
        ("pivot_name", 3, _Field.TYPE_STRING),
        ("branch", 4, _Field.TYPE_INT32),
        ("values_def", 5, "ValuesDef"),
        ("nested_contexts", 6, "ControlFlowContextDef"),
    ],
    "WhileContextDef": [
        ("context_name", 1, _Field.TYPE_STRING),
        ("parallel_iterations", 2, _Field.TYPE_INT32),
        ("back_prop", 3, _Field.TYPE_BOOL),
        ("swap_memory", 4, _Field.TYPE_BOOL),
        ("pivot_name", 5, _Field.TYPE_STRING),
        ("pivot_for_pred_name", 6, _Field.TYPE_STRING),
        ("pivot_for_body_name", 7, _Field.TYPE_STRING),
        ("loop_exit_names", 8, _Field.TYPE_STRING),
        ("values_def", 9, "ValuesDef"),
        ("loop_enter_names", 10, _Field.TYPE_STRING),
        ("maximum_iterations_name", 11, _Field.TYPE_STRING),
        ("nested_contexts", 12, "ControlFlowContextDef"),
    ],
    "ControlFlowContextDef": [("cond_ctxt", 1, "CondContextDef"), ("while_ctxt", 2, "WhileContextDef")],
}
_REPEATED = {"values", "external_values", "nested_contexts", "loop_exit_names", "loop_enter_names"}


def _messages() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="sparkflow/control_flow.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for key, number, kind in fields:
            many = _Field.LABEL_REPEATED if key in _REPEATED else _Field.LABEL_OPTIONAL
            field = message.field.add(name=key, number=number, label=many)
            if isinstance(kind, str):
                field.type, field.type_name = _Field.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
            else:
                field.type = kind
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    return {n: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{n}")) for n in _MESSAGES}


MESSAGES = _messages()
OF_COLLECTIONS = {
    GraphKeys.WHILE_CONTEXT: MESSAGES["WhileContextDef"],
    GraphKeys.COND_CONTEXT: MESSAGES["CondContextDef"],
}


def without_gradient(key: str, values: Iterable[bytes]) -> Iterator[str]:
    """The names of the loops of a collection's contexts, nested ones too, that back_prop=False was said of."""
    for raw in values:
        yield from _without_gradient(OF_COLLECTIONS[key].FromString(raw))


def _without_gradient(context: Any) -> Iterator[str]:
    if isinstance(context, MESSAGES["WhileContextDef"]) and not context.back_prop:
        yield context.context_name
    for nested in context.nested_contexts:
        for kind in ("cond_ctxt", "while_ctxt"):
            if nested.HasField(kind):
                yield from _without_gradient(getattr(nested, kind))
