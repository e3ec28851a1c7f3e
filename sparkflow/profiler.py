"""tf.profiler: what the scopes of a graph hold and cost: parameters, floating point operations, time and memory."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sparkflow.framework.graph import Graph, Operation, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.framework.shapes import fully_known, product

__all__ = ["GraphNodeProto", "ProfileOptionBuilder", "Profiler", "profile"]

_Options = dict[str, Any]
_COLUMNS = {"params": "parameters", "float_ops": "float_ops", "micros": "exec_micros", "bytes": "requested_bytes"}


@dataclass
class GraphNodeProto:
    """A scope, or a type of ops: its own figures, those of all in it (total_...), and its parts."""

    name: str
    parameters: int = 0
    float_ops: int = 0
    exec_micros: int = 0
    requested_bytes: int = 0
    children: list[GraphNodeProto] = field(default_factory=list)

    def _total(self, what: str) -> int:
        return getattr(self, what) + sum(child._total(what) for child in self.children)

    total_parameters = property(lambda self: self._total("parameters"))
    total_float_ops = property(lambda self: self._total("float_ops"))
    total_exec_micros = property(lambda self: self._total("exec_micros"))
    total_requested_bytes = property(lambda self: self._total("requested_bytes"))


class ProfileOptionBuilder:
    """Options of profile, one call after the other; build() gives them."""

    def __init__(self, options: _Options | None = None):
        self._options: _Options = {
            "max_depth": 100, "min_params": 0, "min_float_ops": 0, "min_micros": 0, "min_bytes": 0,
            "account_type_regexes": [".*"], "show_name_regexes": [".*"], "hide_name_regexes": [], "order_by": "name",
            "select": ["params"], "output": "stdout",
        } | dict(options or {})  # fmt: skip

    @staticmethod
    def trainable_variables_parameter() -> _Options:
        """How many trained numbers each scope holds."""
        options = ProfileOptionBuilder().with_accounted_types(["_trainable_variables"]).select(["params"])
        return options.order_by("name").build()

    @staticmethod
    def float_operation() -> _Options:
        """How many floating point operations a step of each scope takes, as far as static shapes tell."""
        return ProfileOptionBuilder().with_min_float_operations(1).select(["float_ops"]).order_by("float_ops").build()

    @staticmethod
    def time_and_memory(min_micros: int = 1, min_bytes: int = 1, **_: Any) -> _Options:
        """What the traced step that run_meta tells of took."""
        options = ProfileOptionBuilder().with_min_execution_time(min_micros, 0, 0).with_min_memory(min_bytes, 0, 0, 0)
        return options.select(["micros", "bytes"]).order_by("micros").build()

    def build(self) -> _Options:
        return dict(self._options)

    def _with(self, **changes: Any) -> ProfileOptionBuilder:
        self._options.update(changes)
        return self

    def with_max_depth(self, max_depth: int) -> ProfileOptionBuilder:
        """Scopes shown, one in the other."""
        return self._with(max_depth=max_depth)

    def with_min_parameters(self, min_params: int) -> ProfileOptionBuilder:
        return self._with(min_params=min_params)

    def with_min_float_operations(self, min_float_ops: int) -> ProfileOptionBuilder:
        return self._with(min_float_ops=min_float_ops)

    def with_min_execution_time(
        self, min_micros: int = 0, min_accelerator_micros: int = 0, min_cpu_micros: int = 0
    ) -> ProfileOptionBuilder:
        return self._with(min_micros=min_micros)

    def with_min_memory(
        self, min_bytes: int = 0, min_peak_bytes: int = 0, min_residual_bytes: int = 0, min_output_bytes: int = 0
    ) -> ProfileOptionBuilder:
        return self._with(min_bytes=min_bytes)

    def with_accounted_types(self, account_type_regexes: Iterable[str]) -> ProfileOptionBuilder:
        """Only ops whose type matches; "_trainable_variables" means those variables."""
        return self._with(account_type_regexes=list(account_type_regexes))

    def with_node_names(
        self, start_name_regexes: Any = None, show_name_regexes: Any = None, hide_name_regexes: Any = None,
        trim_name_regexes: Any = None,
    ) -> ProfileOptionBuilder:  # fmt: skip
        """Only ops whose name matches one of the regexes to show, and none of those to hide."""
        return self._with(
            show_name_regexes=list(show_name_regexes or [".*"]), hide_name_regexes=list(hide_name_regexes or ())
        )

    def order_by(self, attribute: str) -> ProfileOptionBuilder:
        """ "name", or one of the columns that can be selected, the largest first."""
        return self._with(order_by=attribute)

    def select(self, attributes: Iterable[str]) -> ProfileOptionBuilder:
        """Which columns are printed: params, float_ops, micros, bytes."""
        return self._with(select=[a for a in attributes if a in _COLUMNS])

    def with_stdout_output(self) -> ProfileOptionBuilder:
        return self._with(output="stdout")

    def with_file_output(self, outfile: str) -> ProfileOptionBuilder:
        return self._with(output=f"file:outfile={outfile}")

    def with_empty_output(self) -> ProfileOptionBuilder:
        return self._with(output="none")


def profile(
    graph: Graph | None = None, run_meta: Any = None, op_log: Any = None, cmd: str = "scope", options: Any = None
) -> GraphNodeProto:
    """The figures of a graph: by name scope (cmd "scope", "graph", "code"), or by type of op ("op"); printed too.

    run_meta: the RunMetadata of a traced step, for time and memory. options: of ProfileOptionBuilder.
    Raises ValueError on another cmd.
    """
    if cmd not in ("scope", "graph", "code", "op"):
        raise ValueError(f"profile: cmd must be scope, graph, code or op, got {cmd!r}")
    chosen = ProfileOptionBuilder(options).build()
    graph = graph or get_default_graph()
    root, measured = GraphNodeProto("_TFProfRoot"), _measured(run_meta)
    trained = {v.op for v in graph.get_collection(GraphKeys.TRAINABLE_VARIABLES)}
    for op in graph.get_operations():
        if _counts(op, chosen, trained):
            path = [op.type] if cmd == "op" else op.name.split("/")
            _account(root, path, _figures(op, measured))
    _write(root, chosen)
    return root


def _counts(op: Operation, options: _Options, trained: set[Operation]) -> bool:
    kinds = [op.type, *(["_trainable_variables"] if op in trained else [])]
    wanted = any(re.fullmatch(p, kind) for p in options["account_type_regexes"] for kind in kinds)
    shown = any(re.match(p, op.name) for p in options["show_name_regexes"])
    return wanted and shown and not any(re.match(p, op.name) for p in options["hide_name_regexes"])


def _account(root: GraphNodeProto, path: list[str], figures: Mapping[str, int]) -> None:
    node, name = root, ""
    for part in path:
        name = f"{name}/{part}" if name else part
        found = next((c for c in node.children if c.name == name), None)
        if found is None:
            found = GraphNodeProto(name)
            node.children.append(found)
        node = found
    for what, value in figures.items():
        setattr(node, what, getattr(node, what) + value)


def _figures(op: Operation, measured: Mapping[str, tuple[int, int]]) -> dict[str, int]:
    micros, size = measured.get(op.name, (0, 0))
    numbers = product(op.outputs[0]._shape) if op.type in ("VariableV2", "Variable") and _known(op) else 0
    return {"parameters": numbers, "float_ops": float_operations(op), "exec_micros": micros, "requested_bytes": size}


def _measured(run_meta: Any) -> dict[str, tuple[int, int]]:
    """Op -> (microseconds, bytes) of a traced step."""
    found: dict[str, tuple[int, int]] = {}
    for device in run_meta.step_stats.dev_stats if run_meta is not None else ():
        for node in device.node_stats:
            micros, size = found.get(node.node_name, (0, 0))
            asked = sum(m.total_bytes for m in node.memory) or sum(
                o.tensor_description.allocation_description.requested_bytes for o in node.output
            )
            found[node.node_name] = micros + node.all_end_rel_micros, size + asked
    return found


# ---------------------------------------------------------------------- floating point operations


def _known(op: Operation) -> bool:
    return bool(op.outputs) and all(fully_known(t._shape) for t in (*op.inputs, op.outputs[0]))


def _size(tensor: Any) -> int:
    return product(tensor._shape)


def _matmul(op: Operation) -> int:
    inner = op.inputs[0]._shape[-2 if op.attrs.get("transpose_a") or op.attrs.get("adj_x") else -1]  # type: ignore[index]
    return 2 * _size(op.outputs[0]) * int(inner or 0)


def _conv(op: Operation) -> int:
    *window, depth, _ = op.inputs[1]._shape or (0, 0)
    return 2 * _size(op.outputs[0]) * product(window) * int(depth or 0)


def _depthwise(op: Operation) -> int:
    return 2 * _size(op.outputs[0]) * product((op.inputs[1]._shape or ())[:-2])


def _pool(op: Operation) -> int:
    return _size(op.outputs[0]) * product(op.attrs["ksize"])


_ONE_EACH = (
    "Add", "AddV2", "Sub", "Mul", "RealDiv", "Div", "Maximum", "Minimum", "Neg", "Square", "Sqrt", "Rsqrt", "Pow",
    "SquaredDifference", "BiasAdd", "Relu", "Exp", "Log", "Reciprocal", "Greater", "Less", "Equal",
)  # fmt: skip
_COUNTED: dict[str, Callable[[Operation], int]] = {
    "MatMul": _matmul, "BatchMatMul": _matmul, "BatchMatMulV2": _matmul, "Conv2D": _conv, "Conv3D": _conv,
    "DepthwiseConv2dNative": _depthwise, "MaxPool": _pool, "AvgPool": _pool,
    **{kind: lambda op: _size(op.outputs[0]) for kind in _ONE_EACH},
    **{kind: lambda op: _size(op.inputs[0]) for kind in ("Sum", "Mean", "Max", "Min", "Prod", "ArgMax", "L2Loss")},
    "Softmax": lambda op: 5 * _size(op.outputs[0]),
}  # fmt: skip


def float_operations(op: Operation) -> int:
    """Of one step, 0 where shapes are not known, or the op is no arithmetic."""
    count = _COUNTED.get(op.type)
    return count(op) if count is not None and _known(op) else 0


# ---------------------------------------------------------------------- as text


def _write(root: GraphNodeProto, options: _Options) -> None:
    if options["output"] == "none":
        return
    text = "\n".join(_lines(root, options, 0)) + "\n"
    if options["output"].startswith("file:outfile="):
        with open(options["output"].partition("=")[2], "w", encoding="utf-8") as file:
            file.write(text)
    else:
        sys.stdout.write(text)


def _lines(node: GraphNodeProto, options: _Options, depth: int) -> list[str]:
    totals = {column: node._total(what) for column, what in _COLUMNS.items()}
    if depth > options["max_depth"] or (depth and any(totals[c] < options[f"min_{c}"] for c in totals)):
        return []
    shown = ", ".join(f"{totals[c]:,} {c}" for c in options["select"])
    by = _COLUMNS.get(options["order_by"])
    children = sorted(node.children, key=lambda c: (-c._total(by) if by else 0, c.name))
    return [f"{'  ' * depth}{node.name} ({shown})"] + [
        line for child in children for line in _lines(child, options, depth + 1)
    ]


class Profiler:
    """Profiles several traced steps of a graph: add_step, then one of the profile methods."""

    def __init__(self, graph: Graph | None = None, op_log: Any = None):
        self._graph, self._steps = graph or get_default_graph(), dict[int, Any]()

    def add_step(self, step: int, run_meta: Any) -> None:
        self._steps[step] = run_meta

    def _profile(self, cmd: str, options: Any) -> GraphNodeProto:
        last = self._steps[max(self._steps)] if self._steps else None
        return profile(self._graph, last, cmd=cmd, options=options)

    def profile_name_scope(self, options: Any) -> GraphNodeProto:
        """Of the newest step, by name scope."""
        return self._profile("scope", options)

    def profile_operations(self, options: Any) -> GraphNodeProto:
        """Of the newest step, by type of op."""
        return self._profile("op", options)

    profile_graph = profile_python = profile_name_scope
