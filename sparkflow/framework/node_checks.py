"""What is wrong with a node of a GraphDef that somebody else wrote, said before it is a node of the graph."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sparkflow.framework.graph import PRODUCER, Operation, Tensor
from sparkflow.framework.registry import Arg, OpSpec, is_registered, lookup
from sparkflow_runtime.wire.dtypes import DType
from sparkflow_runtime.wire.edges import is_control
from sparkflow_runtime.wire.errors import InvalidArgumentError, NotFoundError
from sparkflow_runtime.wire.protos import GraphDef, NodeDef

_OLDEST_PRODUCER = 0
_KINDS: dict[type, str] = {DType: "a type", list: "a list of types", int: "an int"}
_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*$")


def check_versions(graph_def: GraphDef) -> None:
    """Raises InvalidArgumentError where the GraphDef says that it is not for readers of this version."""
    said = graph_def.versions
    if said.producer < _OLDEST_PRODUCER:
        raise InvalidArgumentError(
            f"GraphDef producer version {said.producer} below min producer {_OLDEST_PRODUCER} supported here. "
            "Write the graph again"
        )
    if said.min_consumer > PRODUCER or PRODUCER in said.bad_consumers:
        raise InvalidArgumentError(
            f"GraphDef is not for consumer version {PRODUCER}, which reads it here: its min consumer version is "
            f"{said.min_consumer}, its bad consumers are {list(said.bad_consumers)}"
        )


def check_nodes(nodes: Iterable[NodeDef]) -> None:
    """Raises InvalidArgumentError on a name that is none or is another node's too, and on controls before inputs."""
    names: set[str] = set()
    for node in nodes:
        if node.name in names:
            raise InvalidArgumentError(f"Node {node.name!r} is not unique")
        names.add(node.name)
        _check_node(node)


def _check_node(node: NodeDef) -> None:
    if not _NAME.match(node.name):
        raise InvalidArgumentError(f"Node {node.name!r}: Node name contains invalid characters")
    kinds = [is_control(edge) for edge in node.input]
    if True in kinds and False in kinds[kinds.index(True) :]:
        raise InvalidArgumentError(f"Node {node.name!r}: Control dependencies must come after regular dependencies")


def known_op(node: NodeDef) -> OpSpec:
    """Raises NotFoundError where the table has none."""
    if not is_registered(node.op):
        raise NotFoundError(
            node,
            None,
            f"Op type not registered {node.op!r}, of node {node.name!r}; tf.raw_ops has those that are known",
        )
    return lookup(node.op)


def check_attrs(node: NodeDef, spec: OpSpec, attrs: Mapping[str, Any]) -> None:
    """Raises InvalidArgumentError where an attribute that says types or numbers is missing or of another kind."""
    for key, kind in spec.counts:
        if not isinstance(attrs.get(key), kind) or (kind is list and not all(isinstance(v, DType) for v in attrs[key])):
            got = f"{attrs[key]!r}" if key in attrs else "nothing"
            raise InvalidArgumentError(
                f"Node {node.name!r} ({node.op}): NodeDef missing attr {key!r}, or of another kind: expected "
                f"{_KINDS[kind]}, got {got}. The op is {spec.name}({spec.signature})"
            )


def check_inputs(op: Operation) -> None:
    """Raises InvalidArgumentError where inputs are not as many, or of the types, that the op's attributes say."""
    at = 0
    for arg in op.spec.inputs:
        types: Any = op.attrs[arg.type_attr] if arg.type_attr else arg.dtype
        if arg.is_list:
            wanted = types if arg.is_type_list else [types] * op.attrs[arg.number_attr]  # type: ignore[index]
        else:
            wanted = (types,)
        for want in wanted:
            if at < len(op.inputs):
                _check_input(op, at, want, arg)
            at += 1
    if at != len(op.inputs):
        raise InvalidArgumentError(
            f"Node {op.name!r} ({op.type}): NodeDef expected {at} inputs ({op.spec.signature}), and has "
            f"{len(op.inputs)}: {_names(op.inputs)}"
        )


def _check_input(op: Operation, index: int, want: DType, arg: Arg) -> None:
    given = op.inputs[index]
    if given.dtype.base_dtype is not want.base_dtype or (arg.is_ref and not given.dtype.is_ref):
        raise InvalidArgumentError(
            f"Input {index} of node {op.name!r} ({op.type}) was passed {given.dtype.name} from {given.name} "
            f"incompatible with expected {want.name}{'_ref' if arg.is_ref else ''}."
        )


def _names(tensors: Sequence[Tensor]) -> list[str]:
    return [tensor.name for tensor in tensors]
