"""What the table of ops and an operation's own attributes say of its type, as TensorFlow's message: for tools that
walk a graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sparkflow.framework import older_ops, resource_variables
from sparkflow.framework.registry import Arg, OpSpec, is_registered, lookup, registered
from sparkflow_runtime.wire import attrs
from sparkflow_runtime.wire.dtypes import DType, resource
from sparkflow_runtime.wire.protos import OpDef

if TYPE_CHECKING:
    from sparkflow.framework.operation import Operation

_NAMES = {"b": "bool", "i": "int", "f": "float", "s": "string", "type": "type", "shape": "shape", "tensor": "tensor"}
_OF_EMPTY_LISTS = {"shapes": "shape", "component_types": "type", "unigrams": "float", "labels": "string"}


def op_def_of(operation: Operation) -> OpDef:
    """Inputs and outputs in order, then the attributes: those that types and numbers of inputs are, then the others.
    TensorFlow's descriptions and constraints on attributes are not there."""
    return _message(operation.spec, operation.attrs)


def get(name: str) -> OpDef | None:
    """Of a type of op, without the attributes that have no default and that its inputs and outputs do not name; None
    where there is no such op. Of one that import_graph_def puts another in place of, no more than its kind."""
    if is_registered(name):
        return _message(lookup(name), {})
    if name in older_ops.RENAMED:
        made = _message(lookup(older_ops.RENAMED[name]), {})
        made.name = name
        return made
    return _of_resource(name) if resource_variables.is_known(name) else None


def get_registered_ops() -> dict[str, OpDef]:
    names = {*registered(), *older_ops.RENAMED, *resource_variables.KNOWN}
    return {name: made for name in sorted(names) if (made := get(name)) is not None}


def _of_resource(name: str) -> OpDef:
    made = OpDef(name=name, is_stateful=True)
    args = made.output_arg if name == resource_variables.HANDLE else made.input_arg
    args.add(name="resource", type=resource.as_datatype_enum)
    return made


def sync() -> None:
    """TensorFlow adds ops of loaded libraries to those that Python knows; here is one table."""


def _message(spec: OpSpec, given: Mapping[str, Any]) -> OpDef:
    made = OpDef(name=spec.name, is_stateful=spec.stateful)
    kinds: dict[str, str] = {}
    for args, told in ((spec.inputs, made.input_arg), (spec.outputs, made.output_arg)):
        for arg in args:
            _describe(arg, told.add(), kinds)
    for key, value in {**spec.defaults, **given}.items():
        if not key.startswith("_"):  # hints, which any node may have
            kinds.setdefault(key, _kind(key, value))
    for key, kind in kinds.items():
        attr = made.attr.add(name=key, type=kind)
        if key in spec.defaults:
            attr.default_value.CopyFrom(attrs.encode(spec.defaults[key]))
    return made


def _describe(arg: Arg, told: Any, kinds: dict[str, str]) -> None:
    told.name, told.is_ref = arg.name, arg.is_ref
    if arg.dtype is not None:
        told.type = arg.dtype.as_datatype_enum
    elif arg.type_attr and arg.is_type_list:
        told.type_list_attr = arg.type_attr
        kinds.setdefault(arg.type_attr, "list(type)")
    elif arg.type_attr:
        told.type_attr = arg.type_attr
        kinds.setdefault(arg.type_attr, "type")
    if arg.number_attr:
        told.number_attr = arg.number_attr
        kinds.setdefault(arg.number_attr, "int")


def _kind(key: str, value: Any) -> str:
    if not isinstance(value, (list, tuple)):
        return _NAMES[attrs.encode(value).WhichOneof("value") or ""]
    if not value:
        return f"list({_OF_EMPTY_LISTS.get(key, 'int')})"
    return "list(type)" if isinstance(value[0], DType) else f"list({_kind(key, value[0])})"
