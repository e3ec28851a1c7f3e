"""The variables that get_variable made in a graph, by full name, and the rules for sharing them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Graph, Operation, Tensor, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.framework.user_frame import cell_of, source_of
from sparkflow.ops import array_slice, init_ops
from sparkflow.ops.partitioned_variables import PartitionedVariable, PartitionInfo, cuts
from sparkflow.ops.variables import SaveSliceInfo, Variable
from sparkflow_runtime.wire.dtypes import DType, as_dtype, string


class VariableStore:
    """name -> Variable or PartitionedVariable; get_variable makes or shares. How often scopes were opened is
    kept too."""

    def __init__(self) -> None:
        self.vars: dict[str, Variable] = {}
        self.partitioned: dict[str, PartitionedVariable] = {}
        self.scope_counts: dict[str, int] = {}

    def get_variable(
        self,
        name: str,
        shape: Any,
        dtype: DType,
        initializer: Any,
        regularizer: Any,
        reuse: Any,
        trainable: bool | None,
        collections: Iterable[str] | None,
        caching_device: Any,
        partitioner: Any,
        validate_shape: bool,
        constraint: Any,
        use_resource: bool | None = None,
        synchronization: Any = None,
        aggregation: Any = None,
    ) -> Any:
        """The variable of that name: shared when reuse is True, new when it is False, either when AUTO_REUSE."""
        dims = shapes.as_dims(shape)
        make = {
            "regularizer": regularizer,
            "trainable": trainable,
            "collections": list(collections) if isinstance(collections, (tuple, set)) else collections,
            "caching_device": caching_device,
            "validate_shape": validate_shape,
            "constraint": constraint,
            "use_resource": use_resource,
            "synchronization": synchronization,
            "aggregation": aggregation,
        }
        if partitioner is not None and dims != ():  # a scope's partitioner is not for its scalars
            return self._get_partitioned(name, dims, dtype, initializer, partitioner, reuse, make)
        if f"{name}/part_0" in self.vars:
            raise ValueError(
                f"No partitioner was provided, but a partitioned version of the variable was found: {name}/part_0. "
                "Perhaps a variable of the same name was already created with partitioning?"
            )
        return self._get_single(name, dims, dtype, initializer, reuse, make, None, None)

    # ------------------------------------------------------------------ sharing

    def _get_single(
        self,
        name: str,
        dims: shapes.Dims,
        dtype: DType,
        initializer: Any,
        reuse: Any,
        make: dict[str, Any],
        part: PartitionInfo | None,
        slice_info: SaveSliceInfo | None,
    ) -> Variable:
        found = self.vars.get(name)
        if found is not None:
            if not reuse:
                raise ValueError(_already_exists(found))
            _check_shared(found, name, dims, dtype)
            return found
        if reuse is True:
            raise ValueError(
                f"Variable {_shown(name)} does not exist, or was not created with tf.get_variable(). "
                "Did you mean to set reuse=tf.AUTO_REUSE in VarScope?"
            )
        self.vars[name] = variable = _make(name, dims, dtype, initializer, part, make)
        if slice_info is not None:
            variable._set_save_slice_info(slice_info)
        _regularize(variable, name, make["regularizer"])
        return variable

    # ------------------------------------------------------------------ partitions

    def _get_partitioned(
        self,
        name: str,
        dims: shapes.Dims,
        dtype: DType,
        initializer: Any,
        partitioner: Any,
        reuse: Any,
        make: dict[str, Any],
    ) -> PartitionedVariable:
        if name in self.vars:
            raise ValueError(
                f"A partitioner was provided, but an unpartitioned version of the variable was found: {name}. "
                "Perhaps a variable of the same name was already created without partitioning?"
            )
        if name in self.partitioned:
            found = self.partitioned[name]
            if not reuse:
                raise ValueError(_already_exists(found._get_variable_list()[0], name))
            _check_shared(found, name, dims, dtype)
            return found
        if reuse is True:
            raise ValueError(
                f"PartitionedVariable {name} does not exist, or was not created with tf.get_variable(). "
                "Did you mean to set reuse=False or reuse=tf.AUTO_REUSE in VarScope?"
            )
        if not callable(partitioner):
            raise ValueError(f"Variable {name}: partitioner must be callable, got {partitioner!r}")
        whole = None if initializer is None or callable(initializer) else convert_to_tensor(initializer, dtype)
        full = _full_shape(name, dims, whole)
        partitions = list(partitioner(shape=shapes.TensorShape(full), dtype=dtype))
        parts = []
        for i, (offset, size) in enumerate(cuts(full, partitions)):
            piece = initializer if whole is None else _piece(whole, offset, size)
            info = SaveSliceInfo(name, list(full), offset, size)
            part = PartitionInfo(full, offset)
            parts.append(self._get_single(f"{name}/part_{i}", tuple(size), dtype, piece, reuse, make, part, info))
        self.partitioned[name] = PartitionedVariable(name, full, dtype, parts, partitions)
        return self.partitioned[name]


def _full_shape(name: str, dims: shapes.Dims, whole: Tensor | None) -> tuple[int, ...]:
    dims = shapes.merge(dims, whole._shape) if whole is not None else dims
    if not shapes.fully_known(dims):
        raise ValueError(
            f"Shape of a new partitioned variable ({name}) must be fully defined, but instead was {shapes.show(dims)}."
        )
    return dims  # type: ignore[return-value]


def _piece(whole: Tensor, offset: list[int], size: list[int]) -> Callable[..., Tensor]:
    return lambda: array_slice.slice_(whole, offset, size)


# ---------------------------------------------------------------------- making one


def _make(
    name: str, dims: shapes.Dims, dtype: DType, initializer: Any, part: PartitionInfo | None, make: dict[str, Any]
) -> Variable:
    if initializer is None:
        initializer = _default_initializer(name, dtype)
    elif isinstance(initializer, type):
        initializer = initializer()
    if callable(initializer):
        takes_shape = _takes_arguments(initializer)
        if takes_shape and not shapes.fully_known(dims):
            raise ValueError(
                f"Shape of a new variable ({_shown(name)}) must be fully defined, but instead was {shapes.show(dims)}."
            )
        value = _call(initializer, dims, dtype, part) if takes_shape else initializer
    else:
        if dims is not None:
            raise ValueError(f"Variable {_shown(name)}: if initializer is a constant, do not specify shape.")
        value = initializer
    known = {k: v for k, v in make.items() if k != "regularizer"}
    return Variable(value, name=name, dtype=dtype, shape=dims, **known)


def _default_initializer(name: str, dtype: DType) -> Any:
    """Glorot's for floats, zeros for numbers that count, "" for strings, none for the rest."""
    if dtype.is_floating:
        return init_ops.glorot_uniform_initializer()
    if dtype.is_integer or dtype.is_bool or dtype is string:
        return init_ops.zeros_initializer()
    raise ValueError(f"An initializer for variable {_shown(name)} of {dtype} is required")


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Looked up once a class of initializers: models have many variables and few of these."""
    if isinstance(function, init_ops.Initializer):
        return _of_class(type(function))  # type: ignore[arg-type] # a type is hashable
    return inspect.signature(function).parameters


@lru_cache(256)
def _of_class(kind: type[init_ops.Initializer]) -> Mapping[str, inspect.Parameter]:
    _, *others = inspect.signature(kind.__call__).parameters.items()
    return dict(others)


def _takes_arguments(function: Callable[..., Any]) -> bool:
    kinds = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.VAR_POSITIONAL,
    )
    return any(p.kind in kinds for p in _parameters(function).values())


def _call(initializer: Any, dims: shapes.Dims, dtype: DType, part: PartitionInfo | None) -> Callable[[], Any]:
    names = _parameters(initializer)
    any_name = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in names.values())
    known = {"dtype": dtype, "partition_info": part}
    given = {k: v for k, v in known.items() if k in names or (any_name and v is not None)}
    return lambda: initializer(list(dims or ()), **given)


def _regularize(variable: Variable, name: str, regularizer: Any) -> None:
    if not regularizer:
        return
    if not callable(regularizer):
        raise TypeError(f"Variable {name}: regularizer must be a function of the variable, got {regularizer!r}")
    graph = get_default_graph()
    with (
        graph.colocate_with(variable.op),
        graph.name_scope(name.rstrip("/") + "/Regularizer/"),
        graph.control_dependencies(None),
    ):
        loss = regularizer(variable)  # outside of the loop or branch that first asks for the variable
    if loss is not None:
        graph.add_to_collection(GraphKeys.REGULARIZATION_LOSSES, loss)


# ---------------------------------------------------------------------- refusals


def _shown(name: str) -> str:
    return name.rstrip("/")


def _already_exists(found: Variable, name: str | None = None) -> str:
    return (
        f"Variable {name or found.op.name} already exists, disallowed. Did you mean to set reuse=True or "
        f"reuse=tf.AUTO_REUSE in VarScope? Originally defined at:\n\n{_where(found.op)}"
    )


def _where(op: Operation) -> str:
    if op.traceback_frame is None:
        return "  (place not known)"
    file, line = op.traceback_frame
    where, source = cell_of(file) or f'File "{file}"', source_of(file, line)
    return f"  {where}, line {line}" + (f"\n    {source}" if source else "")


def _check_shared(found: Any, name: str, dims: shapes.Dims, dtype: DType) -> None:
    if not shapes.compatible(dims, found._shape):
        raise ValueError(
            f"Trying to share variable {_shown(name)}, but specified shape {shapes.show(dims)} and found shape "
            f"{found.shape}."
        )
    if not dtype.is_compatible_with(found.dtype):
        raise ValueError(
            f"Trying to share variable {_shown(name)}, but specified dtype {dtype.name} and found dtype "
            f"{as_dtype(found.dtype).base_dtype.name}."
        )


def store_of(graph: Graph) -> VariableStore:
    """The store is the graph's own: a new graph starts without variables."""
    return graph.extra.setdefault(VariableStore, VariableStore())
