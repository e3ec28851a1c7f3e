"""Tensor and Operation: a node of a Graph, and an output of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sparkflow.framework import shapes
from sparkflow.framework.registry import OpSpec
from sparkflow.framework.shapes import Dims, TensorShape
from sparkflow_runtime.wire import attrs as wire_attrs
from sparkflow_runtime.wire.attrs import Shape
from sparkflow_runtime.wire.devices import canonical
from sparkflow_runtime.wire.dtypes import DType
from sparkflow_runtime.wire.protos import AttrValue, NodeDef, OpDef

if TYPE_CHECKING:
    from sparkflow.framework.graph import Graph


class Tensor:
    """One output of an Operation: a name, a dtype and a static shape. Programs may give it attributes of their own."""

    __slots__ = ("__dict__", "__weakref__", "_shape", "dtype", "op", "value_index")
    __array_priority__ = 100  # numpy defers to our operators

    def __init__(self, op: Operation, index: int, dtype: DType):
        self.op, self.value_index, self.dtype = op, index, dtype
        self._shape: Dims = None

    @property
    def name(self) -> str:
        return f"{self.op.name}:{self.value_index}"

    @property
    def graph(self) -> Graph:
        return self.op.graph

    @property
    def device(self) -> str:
        return self.op.device

    @property
    def shape(self) -> TensorShape:
        return TensorShape(self._shape)

    def get_shape(self) -> TensorShape:
        return TensorShape(self._shape)

    @property
    def ndim(self) -> int | None:
        return None if self._shape is None else len(self._shape)

    def experimental_ref(self) -> Reference:
        """What stands for the tensor as a key, compared by identity; `deref()` gives the tensor."""
        return Reference(self)

    ref = experimental_ref

    def set_shape(self, shape: Any) -> None:
        """Tell what is known beyond inference. Raises InvalidArgumentError on a contradiction."""
        self._shape = shapes.merge(self._shape, shapes.as_dims(shape))

    def consumers(self) -> list[Operation]:
        return [op for op in self.graph.get_operations() if self in op.inputs]

    def __repr__(self) -> str:
        return f"<tf.Tensor {self.name!r} shape={shapes.show(self._shape)} dtype={self.dtype.name}>"

    def __str__(self) -> str:
        shape = "" if self._shape is None else f", shape={shapes.show(self._shape)}"
        device = f", device={self.device}" if self.device else ""
        return f'Tensor("{self.name}"{shape}, dtype={self.dtype.name}{device})'

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise NotImplementedError(
            f"Cannot convert a symbolic tf.Tensor ({self.name}) to a numpy array: it has a value only in a session. "
            "Run it with Session.run, or call a tf function instead of numpy's"
        )

    def __iter__(self) -> Iterator[Tensor]:
        raise TypeError(
            f"Tensor {self.name!r} is no list while the graph is built: use tf.unstack(x) for its "
            "rows, or tf.map_fn(f, x)"
        )

    def __len__(self) -> int:
        raise TypeError(f"len() of tensor {self.name!r} is not known while the graph is built; use tf.shape(x)[0]")

    def __bool__(self) -> bool:
        raise TypeError(f"Tensor {self.name!r} has no truth value while the graph is built; use tf.cond or Session.run")

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        return self.graph.session_for(session, "eval").run(self, feed_dict)

    if TYPE_CHECKING:  # sparkflow.ops.operators gives these

        def _one(self) -> Tensor: ...

        def _two(self, other: Any) -> Tensor: ...

        __neg__ = __abs__ = __invert__ = _one
        __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __pow__ = __matmul__ = __getitem__ = _two
        __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = __rmatmul__ = _two
        __lt__ = __le__ = __gt__ = __ge__ = __and__ = __or__ = __xor__ = __rand__ = __ror__ = __rxor__ = _two


class Reference:
    """A key that stands for one object, whatever the object's == says."""

    def __init__(self, referred: Any):
        self._referred = referred

    def deref(self) -> Any:
        return self._referred

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and other._referred is self._referred

    def __hash__(self) -> int:
        return id(self._referred)


class Operation:
    """A node: op type, inputs, control inputs, attributes, device."""

    __slots__ = (
        "__dict__",
        "_control_flow_context",
        "_device",
        "attrs",
        "control_inputs",
        "graph",
        "inputs",
        "name",
        "outputs",
        "spec",
        "traceback_frame",
        "type",
    )

    def __init__(
        self, graph: Graph, op_type: str, name: str, inputs: list[Tensor], attrs: dict[str, Any], spec: OpSpec
    ):
        self.graph, self.type, self.name, self.spec = graph, op_type, name, spec
        self.inputs, self.attrs = inputs, attrs
        self.control_inputs: list[Operation] = []
        self.outputs = [Tensor(self, i, dtype) for i, dtype in enumerate(spec.output_dtypes(attrs))]
        self._device = ""
        self._control_flow_context: Any = None  # the cond branch or while loop it is part of
        self.traceback_frame: tuple[str, int] | None = None

    device = property(lambda self: self._device)
    _outputs = property(lambda self: self.outputs)

    @property
    def traceback(self) -> list[tuple[str, int]]:
        """(file, line) of the program that made the node."""
        return [] if self.traceback_frame is None else [self.traceback_frame]

    def values(self) -> tuple[Tensor, ...]:
        return tuple(self.outputs)

    def attr(self, name: str) -> Any:
        """Its value as the library has it: str, Shape, an array. Raises ValueError where it has none of that name."""
        if name not in self.attrs:
            raise ValueError(f"Operation {self.name!r} has no attribute {name!r}; it has {sorted(self.attrs)}")
        return self.attrs[name]

    def get_attr(self, name: str) -> Any:
        """Its value as TensorFlow gives it: bytes, a number, a DType, a TensorShapeProto, a TensorProto, or a list."""
        return wire_attrs.told(self.attr(name))

    def _set_device(self, device: Any) -> None:
        """Where it is to run, whatever the scopes around it said; before a session has run the graph."""
        name = device if isinstance(device, str) else device.to_string()
        self._device = canonical(name) if name else ""

    def _set_attr(self, name: str, value: AttrValue) -> None:
        """As in TensorFlow, for hints such as `_recompute_hint`; before a session has run the graph."""
        self.attrs[name] = wire_attrs.decode(value)

    @property
    def node_def(self) -> NodeDef:
        node = NodeDef()
        self.write(node)
        return node

    @property
    def op_def(self) -> OpDef:
        """The inputs, outputs and attributes of ops of its type."""
        from sparkflow.framework.op_def import op_def_of  # seldom needed

        return op_def_of(self)

    def write(self, node: NodeDef) -> None:
        """Make an empty node this one."""
        node.name, node.op, node.device = self.name, self.type, self._device
        if self.inputs:
            node.input.extend([t.op.name if t.value_index == 0 else t.name for t in self.inputs])  # as edge_name
        if self.control_inputs:
            node.input.extend(["^" + op.name for op in self.control_inputs])
        attrs = node.attr
        for key, value in self.attrs.items():
            if type(value) is DType:  # half of all attributes: as `put` does it
                attrs[key].type = value.as_datatype_enum
            else:
                wire_attrs.put(attrs[key], value)

    def add_control_input(self, op: Operation) -> None:
        if op is not self and op not in self.control_inputs:
            self.control_inputs.append(op)

    def _add_control_inputs(self, ops: Iterable[Operation]) -> None:
        """Of many: an initializer of all variables waits for each of them."""
        known = {self, *self.control_inputs}
        self.control_inputs += [op for op in dict.fromkeys(ops) if op not in known]

    def _remove_control_inputs(self, ops: Iterable[Operation]) -> None:
        gone = set(ops)
        self.control_inputs = [op for op in self.control_inputs if op not in gone]

    def _update_input(self, index: int, tensor: Tensor) -> None:
        """Replace one input. Only before a session has run the graph: it does not send a node twice."""
        if tensor.graph is not self.graph or tensor.dtype.base_dtype is not self.inputs[index].dtype.base_dtype:
            raise ValueError(f"Input {index} of {self.name!r} cannot be replaced by {tensor}: wrong graph or dtype")
        self.inputs[index] = tensor

    def _get_control_flow_context(self) -> Any:
        """The CondContext or WhileContext this op was made in, None outside of any."""
        return self._control_flow_context

    def _set_control_flow_context(self, context: Any) -> None:
        self._control_flow_context = context

    def _colocated_with(self) -> list[str]:
        return list(self.attrs.get("_class", [])) or [f"loc:@{self.name}"]

    def colocation_groups(self) -> list[bytes]:
        """What it must stand beside, b"loc:@<name>" each; itself where it says nothing."""
        return [group.encode() for group in self._colocated_with()]

    def run(self, feed_dict: Any = None, session: Any = None) -> None:
        self.graph.session_for(session, "run").run(self, feed_dict)

    def __repr__(self) -> str:
        return f"<tf.Operation {self.name!r} type={self.type}>"


def edge_name(tensor: Tensor) -> str:
    """As an input is written in a NodeDef: the op's name, ':index' only above 0."""
    return tensor.op.name if tensor.value_index == 0 else tensor.name


def write(op: Operation, node: NodeDef, add_shapes: bool) -> None:
    """Fill in an empty node; add_shapes: with `_output_shapes`."""
    op.write(node)
    if add_shapes and op.outputs:
        node.attr["_output_shapes"].CopyFrom(_shapes_attr(tuple([t._shape for t in op.outputs])))


@lru_cache(maxsize=4096)
def _shapes_attr(shapes: tuple[Any, ...]) -> AttrValue:
    """Graphs have many tensors and few different shapes; the result is only copied from."""
    return wire_attrs.encode([Shape(s) for s in shapes])
