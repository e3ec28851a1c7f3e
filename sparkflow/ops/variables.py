"""Variable: a VariableV2, its initial value, the Assign that initializes it, and the Identity that reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, convert_to_tensor, register_conversion
from sparkflow.framework.conversions import VariableAggregation, VariableSynchronization
from sparkflow.framework.graph import Graph, Operation, Tensor, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.framework.indexed_slices import IndexedSlices
from sparkflow.framework.operation import Reference
from sparkflow.framework.shapes import TensorShape
from sparkflow.ops import array_scatter, array_slice, control_flow, operators, state, variable_protos
from sparkflow.ops.control_flow_cond import cond
from sparkflow.ops.initial_values import of_initial_values
from sparkflow.ops.resource_variables import resource_variables_enabled
from sparkflow.ops.variable_creators import Created
from sparkflow.ops.variable_protos import SaveSliceInfo
from sparkflow_runtime.wire.dtypes import DType, as_dtype
from sparkflow_runtime.wire.edges import KEPT_READ


class Variable(metaclass=Created):
    """Memory that outlives a step; stands for its value wherever a tensor is wanted.

    initial_value: a tensor or what converts to one, or a function of no arguments that makes it (dtype is then needed
    only to convert). trainable: also listed in TRAINABLE_VARIABLES, which optimizers take by default.
    collections: the lists it joins, [GLOBAL_VARIABLES] when None. validate_shape: False lets the value change shape.
    expected_shape: for initial values of unknown shape. constraint: a function of the variable, applied by optimizers
    after each update. variable_def: of a variable whose nodes are in the graph already, under import_scope; then no
    other argument counts. use_resource: reads are made where they are asked for and keep their value when the variable
    changes, as those of a resource variable; otherwise they share its memory. Adds the nodes name, name/Assign and
    name/read, all on the variable's device.
    Raises ValueError where no initial value is given or its shape is not known while validate_shape is True.
    """

    synchronization: VariableSynchronization
    aggregation: VariableAggregation

    def __init__(
        self,
        initial_value: Any = None,
        trainable: bool | None = None,
        collections: Iterable[str] | None = None,
        validate_shape: bool = True,
        caching_device: Any = None,
        name: str | None = None,
        variable_def: Any = None,
        dtype: Any = None,
        expected_shape: Any = None,
        import_scope: str | None = None,
        constraint: Callable[[Any], Any] | None = None,
        use_resource: bool | None = None,
        synchronization: Any = None,
        aggregation: Any = None,
        shape: Any = None,
    ):
        if variable_def is not None:
            if initial_value is not None:
                raise ValueError("variable_def and initial_value are mutually exclusive.")
            variable_protos.adopt(self, variable_def, import_scope)
            return
        if initial_value is None:
            raise ValueError("initial_value must be specified.")
        if constraint is not None and not callable(constraint):
            raise ValueError(f"The `constraint` argument must be a callable, got {constraint!r}")
        variable_protos.keep_modes(self, synchronization, aggregation)
        kept = self.synchronization is not VariableSynchronization.ON_READ
        self._trainable = kept if trainable is None else bool(trainable)
        self._constraint = constraint
        self._keeps_reads = resource_variables_enabled() if use_resource is None else bool(use_resource)
        self._save_slice_info: SaveSliceInfo | None = None
        self._graph = graph = get_default_graph()
        dims = shapes.as_dims(expected_shape if shape is None else shape)
        # The order and the scopes of TensorFlow: no control input of the moment may delay an initializer.
        with graph.control_dependencies(None), graph.name_scope(name or "Variable") as scope:
            if callable(initial_value):
                self._init_from_function(initial_value, scope, dtype, dims, validate_shape)
            else:
                self._init_from_value(initial_value, scope, dtype, dims, validate_shape)
            self._finish(validate_shape, caching_device)
        self._join(collections)

    # ------------------------------------------------------------------ how it is made

    def _init_from_function(
        self, make: Callable[[], Any], scope: str, dtype: Any, dims: shapes.Dims, validate_shape: bool
    ) -> None:
        """The initializer's nodes follow the variable to its device, so that big tables are filled where they live."""
        graph, first = self._graph, self._graph.version
        with graph.name_scope("Initializer"), graph.device(None):
            self._initial_value = convert_to_tensor(make(), dtype, name="initial_value")
        made = graph.operations_since(first)
        self._make_node(scope, dims, validate_shape)
        for op in made:
            if not op.device and "_class" not in op.attrs:
                op.attrs["_class"], op._device = self.op._colocated_with(), self.op.device

    def _init_from_value(self, value: Any, scope: str, dtype: Any, dims: shapes.Dims, validate_shape: bool) -> None:
        self._initial_value = convert_to_tensor(value, dtype, name="initial_value")
        if self._initial_value.graph is not self._graph:
            raise ValueError(f"Variable {scope[:-1]!r}: its initial value {self._initial_value} is of another Graph")
        if self._initial_value.op._get_control_flow_context() is not None:
            raise ValueError(
                f"Initializer for variable {scope} is from inside a control-flow construct, such as a loop or "
                "conditional. When creating a variable inside a loop or conditional, use a lambda as the initializer."
            )
        self._make_node(scope, dims, validate_shape)

    def _make_node(self, scope: str, dims: shapes.Dims, validate_shape: bool) -> None:
        initial = self._initial_value
        if dims is None:
            dims = initial._shape if validate_shape else None
        if validate_shape and not shapes.fully_known(initial._shape) and not shapes.fully_known(dims):
            raise ValueError(f"initial_value must have a shape specified: {initial}. Or pass validate_shape=False")
        self._variable = state.variable_op_v2(dims, initial.dtype.base_dtype, name=scope)

    def _finish(self, validate_shape: bool, caching_device: Any) -> None:
        graph = self._graph
        with graph.colocate_with(self.op):
            initial = of_initial_values(self._initial_value)
            self._initializer_op = state.assign(
                self._variable, initial, validate_shape=validate_shape, name="Assign"
            ).op
            if caching_device is None:
                self._snapshot = self._read()
        if caching_device is not None:
            with graph.colocate_with(None), graph.device(caching_device):
                self._snapshot = self._read()
        self._is_cached = caching_device is not None

    def _read(self) -> Tensor:
        read = apply_op("Identity", [self._variable], name="read")
        if self._keeps_reads:
            read.op.attrs[KEPT_READ] = True
        return read

    def _join(self, collections: Iterable[str] | None) -> None:
        if collections is not None and not isinstance(collections, (list, tuple, set)):  # a text is letters
            raise ValueError(f"collections must be a list, tuple, or set of names, got {collections!r}")
        names = [GraphKeys.GLOBAL_VARIABLES] if collections is None else list(collections)
        if self._trainable and GraphKeys.TRAINABLE_VARIABLES not in names:
            names.append(GraphKeys.TRAINABLE_VARIABLES)
        self._graph.add_to_collections(names, self)

    # ------------------------------------------------------------------ what it is

    name: str = property(lambda self: self._variable.name)  # type: ignore[assignment]
    op: Operation = property(lambda self: self._variable.op)  # type: ignore[assignment]
    graph: Graph = property(lambda self: self._graph)  # type: ignore[assignment]
    device: str = property(lambda self: self._variable.device)  # type: ignore[assignment]
    dtype: DType = property(lambda self: self._variable.dtype)  # type: ignore[assignment]
    trainable: bool = property(lambda self: self._trainable)  # type: ignore[assignment]
    constraint = property(lambda self: self._constraint)
    initializer: Operation = property(lambda self: self._initializer_op)  # type: ignore[assignment]
    initial_value: Tensor = property(lambda self: self._initial_value)  # type: ignore[assignment]

    @property
    def shape(self) -> TensorShape:
        return self._variable.shape

    def get_shape(self) -> TensorShape:
        return self._variable.shape

    def set_shape(self, shape: Any) -> None:
        self._variable.set_shape(shape)
        self._snapshot.set_shape(shape)

    @property
    def _shape(self) -> shapes.Dims:
        return self._variable._shape

    @property
    def _shared_name(self) -> str:
        return self.name.partition(":")[0]

    def _set_save_slice_info(self, info: SaveSliceInfo) -> None:
        self._save_slice_info = info

    def _get_save_slice_info(self) -> SaveSliceInfo | None:
        return self._save_slice_info

    def __repr__(self) -> str:
        return f"<tf.Variable {self.name!r} shape={self.shape} dtype={self.dtype.name}>"

    def __iter__(self) -> Any:
        raise TypeError("'Variable' object is not iterable.")

    # ------------------------------------------------------------------ its value as tensors

    def value(self) -> Tensor:
        """The tensor that reads it, the same one at each call; a new one in tf.function, and with use_resource."""
        anew = self._graph._order is not None or (self._keeps_reads and not self._is_cached)
        return self.read_value() if anew else self._snapshot

    def read_value(self) -> Tensor:
        """A new read: under control_dependencies it sees what those ops assigned."""
        with self._graph.colocate_with(self.op):
            return self._read()

    def _ref(self) -> Tensor:
        return self._variable

    def _as_graph_element(self) -> Tensor:
        return self._variable

    def initialized_value(self) -> Tensor:
        """The variable's value where it is initialized, else its initial value: for the initial values of others."""
        with self._graph.control_dependencies(None), self._graph.colocate_with(self.op):
            return cond(is_variable_initialized(self), self.read_value, lambda: self._initial_value)

    def eval(self, session: Any = None) -> Any:
        return self._variable.eval(session=session)

    def load(self, value: Any, session: Any = None) -> None:
        """Assign `value` now, in `session` or the default one, without adding nodes to the graph."""
        session = self._graph.session_for(session, "load")
        session.run(self._initializer_op, {self._initializer_op.inputs[1]: value})

    # ------------------------------------------------------------------ changes

    def assign(self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True) -> Any:
        """self = value; the reference after it, or the Operation when read_value is False. See state.assign."""
        return _result(state.assign(self._variable, value, use_locking=use_locking, name=name), read_value)

    def assign_add(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        return _result(state.assign_add(self._variable, delta, use_locking=use_locking, name=name), read_value)

    def assign_sub(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        return _result(state.assign_sub(self._variable, delta, use_locking=use_locking, name=name), read_value)

    def scatter_add(self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None) -> Tensor:
        return self._scatter(state.scatter_add, sparse_delta, use_locking, name)

    def scatter_sub(self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None) -> Tensor:
        return self._scatter(state.scatter_sub, sparse_delta, use_locking, name)

    def scatter_mul(self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None) -> Tensor:
        return self._scatter(state.scatter_mul, sparse_delta, use_locking, name)

    def scatter_div(self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None) -> Tensor:
        return self._scatter(state.scatter_div, sparse_delta, use_locking, name)

    def scatter_min(self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None) -> Tensor:
        return self._scatter(state.scatter_min, sparse_delta, use_locking, name)

    def scatter_max(self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None) -> Tensor:
        return self._scatter(state.scatter_max, sparse_delta, use_locking, name)

    def scatter_update(self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None) -> Tensor:
        return self._scatter(state.scatter_update, sparse_delta, use_locking, name)

    def scatter_nd_add(self, indices: Any, updates: Any, name: str | None = None) -> Tensor:
        return array_scatter.scatter_nd_add(self._variable, indices, updates, use_locking=True, name=name)

    def scatter_nd_sub(self, indices: Any, updates: Any, name: str | None = None) -> Tensor:
        return array_scatter.scatter_nd_sub(self._variable, indices, updates, use_locking=True, name=name)

    def scatter_nd_update(self, indices: Any, updates: Any, name: str | None = None) -> Tensor:
        return array_scatter.scatter_nd_update(self._variable, indices, updates, use_locking=True, name=name)

    def batch_scatter_update(
        self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None
    ) -> Tensor:
        return self._scatter(array_scatter.batch_scatter_update, sparse_delta, use_locking, name)

    def count_up_to(self, limit: int) -> Tensor:
        """Its value before 1 is added to it. Raises OutOfRangeError where that is the limit."""
        return state.count_up_to(self._variable, limit)

    def sparse_read(self, indices: Any, name: str | None = None) -> Tensor:
        """The rows at these indices."""
        return array_slice.gather(self, indices, name=name)

    def gather_nd(self, indices: Any, name: str | None = None) -> Tensor:
        return array_slice.gather_nd(self, indices, name=name)

    def is_initialized(self, name: str | None = None) -> Tensor:
        """bool scalar, computed where the variable is."""
        with self._graph.colocate_with(self.op):
            return state.is_variable_initialized(self._ref(), name)

    def experimental_ref(self) -> Reference:
        """What stands for the variable as a key, compared by identity; `deref()` gives the variable."""
        return Reference(self)

    ref = experimental_ref

    def to_proto(self, export_scope: str | None = None) -> Any:
        """A VariableDef, names without export_scope; None where it is not in that scope."""
        return variable_protos.to_proto(self, export_scope)

    @classmethod
    def from_proto(cls, variable_def: Any, import_scope: str | None = None) -> Variable:
        """The variable whose nodes, which a VariableDef names, are in the graph already, under import_scope."""
        variable = cls.__new__(cls)  # no variable creator is asked: nothing is made
        variable_protos.adopt(variable, variable_def, import_scope)
        return variable

    def _scatter(self, function: Callable[..., Tensor], delta: Any, use_locking: bool, name: str | None) -> Tensor:
        if not isinstance(delta, IndexedSlices):
            raise TypeError(f"sparse_delta is not IndexedSlices: {delta!r}")
        return function(self._variable, delta.indices, delta.values, use_locking=use_locking, name=name)


RefVariable = VariableV1 = Variable


def _result(reference: Tensor, read_value: bool) -> Any:
    return reference if read_value else reference.op


def _convert(value: Variable, dtype: Any, name: str | None, as_ref: bool) -> Tensor:
    if dtype is not None and not as_dtype(dtype).is_compatible_with(value.dtype):
        raise ValueError(
            f"Incompatible type conversion requested to type {as_dtype(dtype).name} for variable of type "
            f"{value.dtype.name}: {value}"
        )
    return value._ref() if as_ref else value.value()


register_conversion(Variable, _convert)
variable = Variable  # as tensorflow.python.ops.variable_scope calls it
Variable.SaveSliceInfo = SaveSliceInfo  # type: ignore[attr-defined]
operators.install(Variable)


# ---------------------------------------------------------------------- all variables of a graph


def global_variables(scope: str | None = None) -> list[Any]:
    """The variables that training shares and checkpoints keep; with `scope`, those whose name it matches."""
    return get_default_graph().get_collection(GraphKeys.GLOBAL_VARIABLES, scope)


def local_variables(scope: str | None = None) -> list[Any]:
    """Those that a worker keeps to itself, and no checkpoint has; with `scope`, those whose name it matches."""
    return get_default_graph().get_collection(GraphKeys.LOCAL_VARIABLES, scope)


def model_variables(scope: str | None = None) -> list[Any]:
    """Those listed as needed for inference; with `scope`, those whose name it matches."""
    return get_default_graph().get_collection(GraphKeys.MODEL_VARIABLES, scope)


def trainable_variables(scope: str | None = None) -> list[Any]:
    """Those that optimizers change by default; with `scope`, those whose name it matches."""
    return get_default_graph().get_collection(GraphKeys.TRAINABLE_VARIABLES, scope)


def moving_average_variables(scope: str | None = None) -> list[Any]:
    """Those with moving averages; with `scope`, those whose name it matches."""
    return get_default_graph().get_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, scope)


def all_variables() -> list[Any]:
    """The old name of global_variables."""
    return global_variables()


def variables_initializer(var_list: Iterable[Any], name: str = "init") -> Operation:
    """An op that runs the initializers of these variables, in no particular order."""
    return control_flow.group(*[v.initializer for v in var_list], name=name)


def global_variables_initializer() -> Operation:
    return variables_initializer(global_variables())


def local_variables_initializer() -> Operation:
    return variables_initializer(local_variables())


def initialize_all_variables() -> Operation:
    """The old name of global_variables_initializer."""
    return global_variables_initializer()


def initialize_variables(var_list: Iterable[Any], name: str = "init") -> Operation:
    """The old name of variables_initializer."""
    return variables_initializer(var_list, name)


def initialize_local_variables() -> Operation:
    """The old name of local_variables_initializer."""
    return local_variables_initializer()


def is_variable_initialized(variable: Any) -> Tensor:
    """bool scalar, computed where the variable is."""
    reference = convert_to_tensor(variable, as_ref=True)
    with reference.graph.colocate_with(reference.op):
        return state.is_variable_initialized(reference)
