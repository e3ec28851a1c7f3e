"""tf.train.Example and its kin as protobuf messages, described here: the `tensorboard` package has no such file.

The package of their names is `sparkflow`, so that TensorFlow's can live in the same process; the bytes are the same.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_Field = descriptor_pb2.FieldDescriptorProto
_KINDS = {
    "bytes": _Field.TYPE_BYTES,
    "float": _Field.TYPE_FLOAT,
    "int64": _Field.TYPE_INT64,
    "string": _Field.TYPE_STRING,
}

# message -> (name, number, type, repeated, one of `kind`)
_MESSAGES: dict[str, list[tuple[str, int, str, bool, bool]]] = {
    "BytesList": [("value", 1, "bytes", True, False)],
    "FloatList": [("value", 1, "float", True, False)],
    "Int64List": [("value", 1, "int64", True, False)],
    "Feature": [
        ("bytes_list", 1, "BytesList", False, True),
        ("float_list", 2, "FloatList", False, True),
        ("int64_list", 3, "Int64List", False, True),
    ],
    "Features": [("feature", 1, "map Feature", True, False)],
    "FeatureList": [("feature", 1, "Feature", True, False)],
    "FeatureLists": [("feature_list", 1, "map FeatureList", True, False)],
    "Example": [("features", 1, "Features", False, False)],
    "SequenceExample": [("context", 1, "Features", False, False), ("feature_lists", 2, "FeatureLists", False, False)],
}


def _described() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="sparkflow/example.proto", package="sparkflow", syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field in fields:
            _add(message, *field)
        if any(alternative for *_, alternative in fields):
            message.oneof_decl.add(name="kind")
    return file


def _add(message: Any, name: str, number: int, kind: str, repeated: bool, alternative: bool) -> None:
    field = message.field.add(name=name, number=number)
    field.label = _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
    if kind in _KINDS:
        field.type = _KINDS[kind]
    else:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".sparkflow.{kind}"
    if kind.startswith("map "):
        entry = message.nested_type.add(name="".join(w.capitalize() for w in name.split("_")) + "Entry")
        entry.options.map_entry = True
        _add(entry, "key", 1, "string", False, False)
        _add(entry, "value", 2, kind[4:], False, False)
        field.type_name = f".sparkflow.{message.name}.{entry.name}"
    if alternative:
        field.oneof_index = 0


_pool = descriptor_pool.Default()
_pool.Add(_described())


def _message(name: str) -> Any:
    return message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"sparkflow.{name}"))


BytesList, FloatList, Int64List = _message("BytesList"), _message("FloatList"), _message("Int64List")
Feature, Features, Example = _message("Feature"), _message("Features"), _message("Example")
FeatureList, FeatureLists, SequenceExample = (
    _message("FeatureList"),
    _message("FeatureLists"),
    _message("SequenceExample"),
)
