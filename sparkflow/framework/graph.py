"""Graph: the nodes of a model, their names and scopes, and nothing that runs."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

from sparkflow.framework.allowed_ranks import check_ranks
from sparkflow.framework.collections import Collections
from sparkflow.framework.device_spec import DeviceSpec, device_name
from sparkflow.framework.graph_scopes import NameScope, OfThread, Pushed
from sparkflow.framework.operation import Operation, Tensor, write
from sparkflow.framework.registry import OpSpec, lookup
from sparkflow.framework.shapes import show
from sparkflow.framework.user_frame import user_frame
from sparkflow_runtime.wire import attrs as wire_attrs
from sparkflow_runtime.wire.devices import canonical, merge
from sparkflow_runtime.wire.errors import InvalidArgumentError
from sparkflow_runtime.wire.protos import AttrValue, GraphDef, NodeDef

_VALID_NAME = re.compile(r"^[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*$")
_VALID_SCOPE = re.compile(r"^[A-Za-z0-9_.\\/>-]*$")
PRODUCER = 1882  # the GraphDef version that TensorFlow 2.x writes; readers refuse a lower one


class Graph(Collections):
    """The ops of a model, in the order they were made; made current by `as_default()`."""

    def __init__(self) -> None:
        super().__init__()
        self._ops: dict[str, Operation] = {}
        self._made: list[Operation] = []  # the same, in order: a slice of it is whole while other threads add
        self._used_names: dict[str, int] = {}
        self._naming = threading.Lock()
        self._unfinished = threading.RLock()  # held while nodes are made that still change: loops, gradients
        self._thread = OfThread()
        self._device_stack: list[Any] = []
        self._control_stack: list[list[Operation]] = []
        self._attr_stack: list[dict[str, Any]] = []
        self._gradient_overrides: dict[str, str] = {}
        self._colocation_stack: list[Operation] = []
        self._sessions: list[Any] = []
        self._control_flow_context: Any = None  # the cond branch or while loop being built
        self._order: Any = None  # the ProgramOrder of the tf.function being traced
        self._unfetchable: set[Operation] = set()
        self._unfeedable: set[Operation] = set()
        self._container = ""
        self._finalized = False
        self.seed: int | None = None
        self.seeds_given = 0  # to ops without one, see random_seed.py
        self.extra: dict[Any, Any] = {}  # what rooms above keep per graph (variable store, ...)

    # ------------------------------------------------------------------ nodes

    def create_op(
        self, op_type: str, inputs: list[Tensor], attrs: dict[str, Any], name: str | None = None
    ) -> Operation:
        """Add a node. inputs in the order of the op's row, attrs complete but for defaults; names are made unique."""
        if self._finalized:
            raise RuntimeError("Graph is finalized and cannot be modified.")
        spec = lookup(op_type)
        for tensor in inputs:
            self._check_own(tensor.op, op_type)
        if self._container and spec.defaults.get("container") == "" and not attrs.get("container"):
            attrs = {**attrs, "container": self._container}
        full_name = name[:-1] if name and name.endswith("/") else self.unique_name(name or op_type)
        op = Operation(self, op_type, full_name, inputs, {**spec.defaults, **attrs}, spec)
        op.traceback_frame = user_frame()
        self._apply_scopes(op)
        for name, value in self._attr_stack[-1].items() if self._attr_stack else ():
            op.attrs.setdefault(name, value)
        if op_type in self._gradient_overrides:
            op.attrs.setdefault("_gradient_op_type", self._gradient_overrides[op_type])
        self._take_in(op)
        return op

    def _add(self, op: Operation) -> None:
        self._ops[op.name] = op  # before it counts: whoever learns of it by the version finds it by name
        self._made.append(op)

    def _infer(self, op: Operation, spec: OpSpec) -> None:
        try:
            check_ranks(op)
            for tensor, dims in zip(op.outputs, spec.shape(op), strict=True):  # type: ignore[misc]
                tensor._shape = dims
        except InvalidArgumentError as error:
            given = ", ".join(show(t._shape) for t in op.inputs)
            text = f"{error.message} [op {op.type} {op.name!r} of inputs {given}]"
            raise InvalidArgumentError(op.node_def, op, text) from None

    def _check_own(self, op: Operation, what: str) -> None:
        if op.graph is not self:
            raise ValueError(f"{op.name!r} must be from the same graph as {what}: it was made in another Graph")

    def _apply_scopes(self, op: Operation) -> None:
        if self._control_stack:
            data = {t.op for t in op.inputs}
            op._add_control_inputs(c for controls in self._control_stack for c in controls if c not in data)
        for device in reversed(self._device_stack):  # a function may count what it sees, slots too, as in TensorFlow
            if device is None:
                break
            op._device = device_name(device(op)) if callable(device) else merge(op._device, device)
        if self._colocation_stack:
            target = self._colocation_stack[-1]
            own = op.attrs.get("_class", [])
            op.attrs["_class"] = sorted({*own, *target._colocated_with()})
            op._device = target.device
            return
        op._device = canonical(op._device) if op._device else ""

    def _take_in(self, op: Operation) -> None:
        """The last of making it: what it is part of is told, and it is found by its name."""
        if op.spec.shape is not None:
            self._infer(op, op.spec)
        if self._order is not None:
            self._order.see(op)
        if self._control_flow_context is not None:
            op._control_flow_context = self._control_flow_context
            self._control_flow_context.AddOp(op)  # after inference: what it captures says less than the original
        self._add(op)

    def get_operations(self) -> list[Operation]:
        return self._made[:]

    def operations_since(self, version: int, to_version: int | None = None) -> list[Operation]:
        """Those made since the graph had that version (until it had another), without a look at the others."""
        return self._made[version:to_version]

    def get_operation_by_name(self, name: str) -> Operation:
        """Raises KeyError where the graph has none, ValueError on the name of a tensor."""
        if ":" in _text(name, "Operation"):
            raise ValueError(f"The name {name!r} appears to refer to a Tensor, not an Operation.")
        if name not in self._ops:
            raise KeyError(f"The name {name!r} refers to an Operation not in the graph.")
        return self._ops[name]

    def get_tensor_by_name(self, name: str) -> Tensor:
        """Raises ValueError on a name that is not 'op:index', KeyError where the graph has no such tensor."""
        op_name, colon, index = _text(name, "Tensor").partition(":")
        if not colon and name in self._ops:
            raise ValueError(f"The name {name!r} refers to an Operation, not a Tensor. Tensor names look like 'op:0'.")
        if not index.isdigit():
            raise ValueError(f"{name!r} is not a valid Tensor name. Tensor names look like 'op:0'.")
        op, missing = self._ops.get(op_name), f"The name {name!r} refers to a Tensor which does not exist. "
        if op is None:
            raise KeyError(missing + f"The operation, {op_name!r}, does not exist in the graph.")
        if int(index) >= len(op.outputs):
            raise KeyError(missing + f"The operation, {op_name!r}, exists but only has {len(op.outputs)} outputs.")
        return op.outputs[int(index)]

    def as_graph_element(self, obj: Any, allow_tensor: bool = True, allow_operation: bool = True) -> Any:
        """The Tensor or Operation that obj is, names, or stands for. Raises TypeError, ValueError or KeyError."""
        convert = getattr(obj, "_as_graph_element", None)
        obj = convert() if convert is not None else obj
        if isinstance(obj, (str, bytes)):
            name = obj if isinstance(obj, str) else obj.decode()
            obj = (
                self.get_tensor_by_name(name)
                if ":" in name or not allow_operation
                else self.get_operation_by_name(name)
            )
        allowed = ((Tensor,) if allow_tensor else ()) + ((Operation,) if allow_operation else ())
        if not isinstance(obj, allowed):
            raise TypeError(
                f"Can not convert a {type(obj).__name__} into a {' or '.join(t.__name__ for t in allowed)}."
            )
        if obj.graph is not self:
            raise ValueError(f"{obj} is not an element of this graph.")
        return obj

    def as_graph_def(self, from_version: int = 0, add_shapes: bool = False, to_version: int | None = None) -> GraphDef:
        """The nodes from number `from_version` up to `to_version` (the end); add_shapes writes `_output_shapes` as
        TensorBoard reads them."""
        graph_def = GraphDef(versions=self.graph_def_versions)
        for op in self._made[from_version:to_version]:
            write(op, graph_def.node.add(), add_shapes)
        return graph_def

    def write_node(self, name: str, node: NodeDef) -> None:
        """Make an empty node the one of that name, with `_output_shapes`."""
        write(self._ops[name], node, True)

    @property
    def version(self) -> int:
        return len(self._made)

    @property
    def graph_def_versions(self) -> Any:
        """A VersionDef: the `versions` of its GraphDef."""
        return GraphDef(versions={"producer": PRODUCER}).versions

    @property
    def collections(self) -> list[str]:
        """The names of its collections."""
        return self.get_all_collection_keys()

    def prevent_feeding(self, tensor: Tensor) -> None:
        """Let no session feed `tensor` (nor the other outputs of its op)."""
        self._unfeedable.add(tensor.op)

    def is_feedable(self, tensor: Tensor) -> bool:
        return tensor.op not in self._unfeedable

    def finalize(self) -> None:
        self._finalized = True

    @property
    def finalized(self) -> bool:
        return self._finalized

    building_function = False  # True of those that a dataset's functions are made of

    def _unsafe_unfinalize(self) -> None:
        self._finalized = False

    def _repr_html_(self) -> str:
        """What a notebook shows: a drawing of the scopes and what flows between them."""
        from sparkflow.framework.drawing import drawn

        return drawn(self)

    # ------------------------------------------------------------------ scopes

    def unique_name(self, name: str, mark_as_used: bool = True) -> str:
        """`name` under the current scope, with _1, _2, ... where it is taken (case does not distinguish, as in TF)."""
        scope = self._thread.name_stack
        if not (_VALID_SCOPE if scope else _VALID_NAME).match(name):
            raise ValueError(f"{name!r} is not a valid op name: letters, digits and _ . \\ / > - only")
        name = scope + name
        key = name.lower()
        with self._naming:
            n = self._used_names.get(key, 0)
            if mark_as_used:
                self._used_names[key] = n + 1
            if not n:
                return name
            while f"{key}_{n}" in self._used_names:
                n += 1
            if mark_as_used:
                self._used_names[f"{key}_{n}"] = 1
            return f"{name}_{n}"

    def name_scope(self, name: str | None) -> NameScope:
        """Prefix names with `name/`; a name ending in '/' is taken as it is, None or '' resets to the root."""
        return NameScope(self, name)

    def get_name_scope(self) -> str:
        return self._thread.name_stack[:-1]

    def device(self, device_name_or_function: str | DeviceSpec | Callable[[Operation], str] | None) -> Pushed:
        """Ops made inside ask for this device, merged with those of the scopes around; None asks for none."""
        if isinstance(device_name_or_function, DeviceSpec):
            device_name_or_function = device_name(device_name_or_function)
        if device_name_or_function is not None and not callable(device_name_or_function):
            canonical(device_name_or_function)
        return Pushed(self, "_device_stack", device_name_or_function)

    def colocate_with(self, op: Any, ignore_existing: bool = False) -> AbstractContextManager[None]:
        """Ops made inside stand on op's device; ignore_existing: no matter what the scopes around say. None drops
        those."""
        if op is None or ignore_existing:
            return self._colocated_only(op)
        element = self.as_graph_element(op)
        return Pushed(self, "_colocation_stack", element.op if isinstance(element, Tensor) else element)

    @contextmanager
    def _colocated_only(self, op: Any) -> Iterator[None]:
        stack, self._colocation_stack = self._colocation_stack, []
        try:
            with nullcontext() if op is None else self.colocate_with(op):
                yield
        finally:
            self._colocation_stack = stack

    def control_dependencies(self, control_inputs: Iterable[Any] | None) -> AbstractContextManager[None]:
        """Ops made inside run after these; None drops the dependencies, the cond and the loop of the scopes around."""
        if control_inputs is None:
            return self._controlled_by_nobody()
        elements = [self.as_graph_element(c) for c in control_inputs]
        return Pushed(self, "_control_stack", [e.op if isinstance(e, Tensor) else e for e in elements])

    @contextmanager
    def _controlled_by_nobody(self) -> Iterator[None]:
        stack, self._control_stack = self._control_stack, []
        context, self._control_flow_context = self._control_flow_context, None
        try:
            yield
        finally:
            self._control_stack, self._control_flow_context = stack, context

    @contextmanager
    def _attr_scope(self, attr_map: dict[str, Any]) -> Iterator[None]:
        """Nodes made inside have these attributes, Python values or AttrValues; None takes one away again."""
        inside = dict(self._attr_stack[-1]) if self._attr_stack else {}
        for name, value in attr_map.items():
            if value is None:
                inside.pop(name, None)
            else:
                inside[name] = wire_attrs.decode(value) if isinstance(value, AttrValue) else value
        with Pushed(self, "_attr_stack", inside):
            yield

    @contextmanager
    def gradient_override_map(self, op_type_map: dict[str, str]) -> Iterator[None]:
        """Ops of these types made inside have the gradients registered under other names (tf.RegisterGradient)."""
        if not all(isinstance(s, str) for pair in op_type_map.items() for s in pair):
            raise TypeError(f"op_type_map must be a dictionary mapping strings to strings, got {op_type_map!r}")
        old, self._gradient_overrides = self._gradient_overrides, {**self._gradient_overrides, **op_type_map}
        try:
            yield
        finally:
            self._gradient_overrides = old

    def _get_control_flow_context(self) -> Any:
        """The cond branch or while loop that ops made now become part of."""
        return self._control_flow_context

    def _set_control_flow_context(self, context: Any) -> None:
        self._control_flow_context = context

    def prevent_fetching(self, op: Operation) -> None:
        self._unfetchable.add(op)

    def is_fetchable(self, tensor_or_op: Any) -> bool:
        """False inside a cond branch or a loop, where a value may be missing or there are many."""
        op = tensor_or_op.op if isinstance(tensor_or_op, Tensor) else tensor_or_op
        return op not in self._unfetchable

    @contextmanager
    def container(self, container_name: str) -> Iterator[str]:
        """Variables, and what has a shared_name, of ops made inside live in the container of that name."""
        old, self._container = self._container, container_name
        try:
            yield container_name
        finally:
            self._container = old

    # ------------------------------------------------------------------ defaults

    @contextmanager
    def as_default(self) -> Iterator[Graph]:
        token = _default.set(self)
        try:
            yield self
        finally:
            _default.reset(token)

    def session_for(self, session: Any, method: str) -> Any:
        found = session or default_session()
        if found is None:
            raise ValueError(
                f"Cannot use `{method}()`: no default session is registered. Use `with sess.as_default()` or pass "
                "`session=`"
            )
        if found.graph is not self:
            raise ValueError(f"Cannot use the given session for `{method}()`: it belongs to another graph")
        return found


def _text(name: Any, what: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"{what} names are strings, not {type(name).__name__}.")
    return name


_default: ContextVar[Graph | None] = ContextVar("sparkflow_default_graph", default=None)
_session: ContextVar[Any] = ContextVar("sparkflow_default_session", default=None)
_global_graph: list[Graph] = [Graph()]


def default_session() -> Any:
    return _session.get()


@contextmanager
def session_as_default(session: Any) -> Iterator[Any]:
    token = _session.set(session)
    try:
        yield session
    finally:
        _session.reset(token)


def get_default_graph() -> Graph:
    return _default.get() or _global_graph[0]


def leave_default_graphs() -> None:
    """Until a `with graph.as_default()` block around ends, be in none of them."""
    _default.set(None)


def reset_default_graph() -> None:
    if _default.get() is not None:
        raise AssertionError("Do not use tf.reset_default_graph() inside a `with graph.as_default()` block")
    _global_graph[0] = Graph()
