"""Functions of a GraphDef's library: their nodes, made anew wherever one is called.

What a node that calls functions becomes is the business of its op (`expands`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sparkflow.framework import shapes
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.node_checks import known_op
from sparkflow.framework.older_ops import modern
from sparkflow.framework.registry import lookup
from sparkflow.framework.resource_variables import OUTPUTS, with_reference
from sparkflow_runtime.wire import attrs as wire_attrs
from sparkflow_runtime.wire.edges import is_control, node_name, sort_by
from sparkflow_runtime.wire.errors import InvalidArgumentError, NotFoundError
from sparkflow_runtime.wire.protos import AttrValue, FunctionDef, NodeDef

Expander = Callable[["Call"], list[Tensor]]
Library = Mapping[str, FunctionDef]
BY_NAME = ""  # of a node whose op is the name of a function
_EXPANDERS: dict[str, Expander] = {}
_OUTPUTS: dict[str, Sequence[str]] = {}


def expands(*op_types: str, outputs: Sequence[str] = ()) -> Callable[[Expander], Expander]:
    """Register what nodes of these ops become; the function returns what stands for their outputs.

    outputs: their names, of ops that have a certain number of them."""

    def register(expander: Expander) -> Expander:
        _EXPANDERS.update(dict.fromkeys(op_types, expander))
        _OUTPUTS.update(dict.fromkeys(op_types, outputs))
        return expander

    return register


def calls_functions(node: NodeDef, library: Library) -> bool:
    return node.op in _EXPANDERS or node.op in library


@dataclass(frozen=True)
class Call:
    """A node that calls functions, with its inputs in the graph that is being built."""

    node: NodeDef
    inputs: Sequence[Tensor]
    library: Library

    @property
    def name(self) -> str:
        return self.node.name.rpartition("/")[2]

    @property
    def has_outputs(self) -> bool:
        if self.node.op in self.library:
            return bool(self.library[self.node.op].signature.output_arg)
        if _OUTPUTS.get(self.node.op):
            return True
        return bool(self.node.attr["Tout" if self.has("Tout") else "T"].list.type)

    def has(self, attr: str) -> bool:
        return attr in self.node.attr

    def function(self, attr: str) -> Function:
        """The function that an attribute names. Raises NotFoundError where the library does not have it."""
        named = self.node.attr[attr].func
        return self._found(named.name, named.attr)

    def functions(self, attr: str) -> list[Function]:
        return [self._found(named.name, named.attr) for named in self.node.attr[attr].list.func]

    def own_function(self) -> Function:
        """Of a node whose op is the name of a function."""
        return self._found(self.node.op, self.node.attr)

    def _found(self, name: str, attrs: Mapping[str, AttrValue]) -> Function:
        if name not in self.library:
            raise NotFoundError(
                self.node,
                None,
                f"Node {self.node.name!r} ({self.node.op}) calls the function {name!r}, which the GraphDef's library "
                f"does not have; it has {sorted(self.library)[:8]}",
            )
        return Function(self.library[name], dict(attrs), self.library)


def expand(call: Call) -> list[Tensor]:
    """Make the nodes that a call stands for; what stands for its outputs."""
    return _EXPANDERS.get(call.node.op, _EXPANDERS[BY_NAME])(call)


class Function:
    """Called with tensors it makes its nodes in the current graph, and returns (its outputs, the ops that must run
    although no output needs them)."""

    def __init__(self, definition: FunctionDef, attrs: Mapping[str, AttrValue], library: Library):
        """attrs: values of the attributes that the definition leaves open."""
        self.definition, self.attrs, self.library = definition, attrs, library

    def __call__(self, args: Sequence[Tensor]) -> tuple[list[Tensor], list[Operation]]:
        signature = self.definition.signature
        if len(args) != len(signature.input_arg):
            raise InvalidArgumentError(
                f"Function {signature.name!r} takes {len(signature.input_arg)} tensors, and is called with {len(args)}"
            )
        body = _Body(self)
        body.values = {arg.name: [value] for arg, value in zip(signature.input_arg, args, strict=True)}
        for node in _ordered(self.definition):
            body.add(node)
        outputs = [body.tensor(self.definition.ret[arg.name]) for arg in signature.output_arg]
        return outputs, [op for name in self.definition.control_ret.values() for op in body.ops[name]]


class _Body:
    """One call: `values` of arguments ('x') and outputs ('node:output'), `ops` that stand for nodes."""

    def __init__(self, function: Function):
        self.function, self.graph = function, get_default_graph()
        self.values: dict[str, list[Tensor]] = {}
        self.ops: dict[str, list[Operation]] = {}

    def tensor(self, e: str) -> Tensor:
        """'x' or 'x:0' of an argument, 'node:output:0' of a node."""
        name, *rest = e.split(":")
        output, index = (rest[0], rest[1]) if len(rest) == 2 else ("", rest[0] if rest else "0")
        found = self.values.get(f"{name}:{output}" if output else name)
        if found is None or int(index) >= len(found):
            raise InvalidArgumentError(f"Function {self.function.definition.signature.name!r} has no tensor {e!r}")
        return found[int(index)]

    def add(self, given: NodeDef) -> None:
        node = modern(self._completed(given))
        inputs = [self.tensor(e) for e in node.input if not is_control(e)]
        controls = [op for e in node.input if is_control(e) for op in self.ops.get(node_name(e), ())]
        with self.graph.control_dependencies(controls), self.graph.device(node.device):
            if calls_functions(node, self.function.library):
                with self.graph.name_scope(node.name):
                    outputs = expand(Call(node, inputs, self.function.library))
                self.values[f"{node.name}:output"] = outputs
                self.ops[node.name] = list(dict.fromkeys(t.op for t in outputs))
                self._name_outputs(node, outputs)
            else:
                self._made(node, inputs)

    def _completed(self, node: NodeDef) -> NodeDef:
        """With the attributes that the caller gives."""
        copy = NodeDef()
        copy.CopyFrom(node)
        for key, value in copy.attr.items():
            if value.WhichOneof("value") == "placeholder":
                copy.attr[key].CopyFrom(self.function.attrs[value.placeholder])
        return copy

    def _made(self, given: NodeDef, inputs: list[Tensor]) -> None:
        variables = [value for value in inputs if value.dtype.is_ref]  # of a function, only those that were handles
        node = self._referring(given, variables[0]) if variables else given
        if node.op == "NoOp":
            inputs = []
        attrs = {k: v for k, v in wire_attrs.node_attrs(node).items() if k != "_class"}
        known_op(node)
        op = self.graph.create_op(node.op, inputs, attrs, node.name)
        self.ops[node.name] = [op]
        at = 0
        for arg in lookup(node.op).outputs:
            count = len(op.attrs[arg.type_attr]) if arg.is_type_list else 1  # type: ignore[index]
            count = op.attrs[arg.number_attr] if arg.number_attr else count
            name = OUTPUTS.get(given.op, arg.name) if variables else arg.name
            self.values[f"{node.name}:{name}"] = op.outputs[at : at + count]
            at += count

    @staticmethod
    def _referring(node: NodeDef, variable: Tensor) -> NodeDef:
        dtype = AttrValue(type=variable.dtype.base_dtype.as_datatype_enum)
        return with_reference(node, variable.op.name, dtype, shapes.fully_known(variable._shape))

    def _name_outputs(self, node: NodeDef, outputs: list[Tensor]) -> None:
        """Of a call by the function's own name, outputs have the names of its signature."""
        names = _OUTPUTS.get(node.op, ())
        if node.op in self.function.library:
            names = [arg.name for arg in self.function.library[node.op].signature.output_arg]
        for name, value in zip(names, outputs):
            self.values[f"{node.name}:{name}"] = [value]


def _ordered(definition: FunctionDef) -> list[NodeDef]:
    nodes = {node.name: node for node in definition.node_def}

    def waits(name: str) -> list[str]:
        return [n for e in nodes[name].input if (n := node_name(e)) in nodes]

    return [nodes[name] for name in sort_by(list(nodes), waits, "Node")]
