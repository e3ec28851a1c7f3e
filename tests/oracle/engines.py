"""Both sides of the oracle behind one face: an engine builds nodes, exports and imports GraphDefs, and runs them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.framework import op_def_library, op_def_registry

import sparkflow
from sparkflow.framework import apply
from sparkflow.framework.graph import Graph
from sparkflow_runtime.wire.attrs import Shape, decode
from sparkflow_runtime.wire.dtypes import DType
from sparkflow_runtime.wire.protos import AttrValue, ConfigProto, GraphDef
from tests.oracle.compare import as_value

tf.disable_eager_execution()
tf.disable_resource_variables()
tf.disable_control_flow_v2()

# What TensorFlow raises while it builds is a ValueError where a run raises InvalidArgumentError.
_SAME_CLASS = {
    "ValueError": "InvalidArgumentError",
    "IndexError": "InvalidArgumentError",
    "OperatorNotAllowedInGraphError": "TypeError",  # it is one
}


class Outcome(NamedTuple):
    """What a run gave: the arrays, or the class and text of its error."""

    values: list[np.ndarray] | None
    error: str | None = None
    message: str = ""

    @property
    def unsupported(self) -> bool:
        """TensorFlow has no CPU kernel for these types, so it cannot be asked."""
        text = self.message
        return self.error is not None and (
            "No OpKernel" in text
            or ("not in" in text and "list of allowed values" in text)
            or "Unsupported dtype" in text
            or self.error == "UnimplementedError"
        )


def failed(error: BaseException) -> Outcome:
    name = type(error).__name__
    return Outcome(None, _SAME_CLASS.get(name, name), str(error))


class Engine:
    """name; tf: the module whose public names are tf.compat.v1's."""

    name: str
    tf: Any

    def graph(self) -> Any:
        raise NotImplementedError

    def session(self, graph: Any, config: Any = None) -> Any:
        raise NotImplementedError

    def apply(self, op: str, inputs: Sequence[Any], attrs: dict[str, Any], name: str) -> list[Any]:
        """The outputs of a node of type `op`."""
        raise NotImplementedError

    def import_graph(self, serialized: bytes, name: str) -> None:
        raise NotImplementedError

    def placeholder(self, array: np.ndarray, name: str, shape: Any = None) -> Any:
        return self.tf.placeholder(self.tf.as_dtype(_dtype_name(array)), shape, name)

    def constant(self, array: np.ndarray, name: str) -> Any:
        return self.tf.constant(array, self.tf.as_dtype(_dtype_name(array)), name=name)

    def run(self, session: Any, fetches: Any, feeds: dict[str, Any]) -> Outcome:
        try:
            return self.outcome(session.run(fetches, feeds))
        except Exception as error:  # any class: it is what is compared
            return failed(error)

    def outcome(self, values: list[Any]) -> Outcome:
        return Outcome([as_value(v) for v in values])

    def export(self, graph: Any) -> bytes:
        return graph.as_graph_def().SerializeToString()


class SparkFlow(Engine):
    name, tf = "sparkflow", sparkflow

    def graph(self) -> Any:
        return Graph()

    def session(self, graph: Any, config: Any = None) -> Any:
        return sparkflow.Session(graph=graph, config=config or ConfigProto())

    def apply(self, op: str, inputs: Sequence[Any], attrs: dict[str, Any], name: str) -> list[Any]:
        return list(apply.create(op, list(inputs), dict(attrs), name).outputs)

    def import_graph(self, serialized: bytes, name: str) -> None:
        sparkflow.import_graph_def(GraphDef.FromString(serialized), name=name)


class TensorFlow(Engine):
    name, tf = "tensorflow", tf

    def graph(self) -> Any:
        return tf.Graph()

    def session(self, graph: Any, config: Any = None) -> Any:
        """On one thread and without graph optimization: what each node says is what is computed."""
        plain = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=2)
        plain.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
        plain.graph_options.rewrite_options.disable_meta_optimizer = True
        return tf.Session(graph=graph, config=plain)

    def apply(self, op: str, inputs: Sequence[Any], attrs: dict[str, Any], name: str) -> list[Any]:
        definition = op_def_registry.get(op)
        if op == "Const":
            return [tf.constant(attrs["value"], tf.as_dtype(attrs["dtype"].name), name=name)]
        named = dict(zip((arg.name for arg in definition.input_arg), inputs, strict=True))
        made = op_def_library.apply_op(op, name=name, **named, **_all_attrs(definition, attrs))
        if isinstance(made, tf.Operation):
            return list(made.outputs)
        parts = made if isinstance(made, (list, tuple)) else [made]
        return [t for part in parts for t in (part if isinstance(part, list) else [part])]

    def import_graph(self, serialized: bytes, name: str) -> None:
        tf.import_graph_def(tf.GraphDef.FromString(serialized), name=name)


def _all_attrs(definition: Any, attrs: dict[str, Any]) -> dict[str, Any]:
    """The attributes that the inputs do not tell, those that are not given as the op defines them."""
    told = {t for a in definition.input_arg for t in (a.type_attr, a.number_attr, a.type_list_attr)}
    given = {k: _as_theirs(v) for k, v in attrs.items() if k not in told}
    for attr in definition.attr:
        if attr.name not in told and attr.name not in given and attr.HasField("default_value"):
            given[attr.name] = _as_theirs(decode(AttrValue.FromString(attr.default_value.SerializeToString())))
    return given


def _as_theirs(value: Any) -> Any:
    if isinstance(value, DType):
        return tf.as_dtype(value.name)
    if isinstance(value, list):
        return [_as_theirs(item) for item in value]
    return tf.TensorShape(value.dims) if isinstance(value, Shape) else value


def _dtype_name(array: np.ndarray) -> str:
    return "string" if array.dtype.kind == "O" else array.dtype.name


OURS, THEIRS = SparkFlow(), TensorFlow()
