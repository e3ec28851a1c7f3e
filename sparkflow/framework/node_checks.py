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
    controls = [is_control(edge) for edge in node.input]
    if controls != sorted(controls):
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
    for arg in (*spec.inputs, *spec.outputs):
        for key, kind in (
            (arg.type_attr, "a list of types" if arg.is_type_list else "a type"),
            (arg.number_attr, "int"),
        ):
            if key and not _is(kind, attrs.get(key)):
                got = f"{attrs[key]!r}" if key in attrs else "nothing"
                raise InvalidArgumentError(
                    f"Node {node.name!r} ({node.op}): NodeDef missing attr {key!r}, or of another kind: expected "
                    f"{kind}, got {got}. The op is {spec.name}({spec.signature})"
                )


def _is(kind: str, value: Any) -> bool:
    if kind == "a list of types":
        return isinstance(value, (list, tuple)) and all(isinstance(v, DType) for v in value)
    return isinstance(value, DType if kind == "a type" else int)


def check_inputs(op: Operation) -> None:
    """Raises InvalidArgumentError where inputs are not as many, or of the types, that the op's attributes say."""
    wanted = [want for arg in op.spec.inputs for want in _wanted(arg, op.attrs)]
    if len(wanted) != len(op.inputs):
        raise InvalidArgumentError(
            f"Node {op.name!r} ({op.type}): NodeDef expected {len(wanted)} inputs ({op.spec.signature}), and has "
            f"{len(op.inputs)}: {_names(op.inputs)}"
        )
    for index, (want, is_ref) in enumerate(wanted):
        given = op.inputs[index]
        if given.dtype.base_dtype is not want.base_dtype or (is_ref and not given.dtype.is_ref):
            raise InvalidArgumentError(
                f"Input {index} of node {op.name!r} ({op.type}) was passed {given.dtype.name} from {given.name} "
                f"incompatible with expected {want.name}{'_ref' if is_ref else ''}."
            )


def _wanted(arg: Arg, attrs: Mapping[str, Any]) -> list[tuple[DType, bool]]:
    types: Any = attrs[arg.type_attr] if arg.type_attr else arg.dtype
    found = list(types) if arg.is_type_list else [types] * (attrs[arg.number_attr] if arg.number_attr else 1)
    return [(dtype, arg.is_ref) for dtype in found]


def _names(tensors: Sequence[Tensor]) -> list[str]:
    return [tensor.name for tensor in tensors]
