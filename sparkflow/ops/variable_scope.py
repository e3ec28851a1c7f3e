"""variable_scope and get_variable: variables named by where they are made, and shared on request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from enum import Enum
from functools import partial
from typing import Any

from sparkflow.framework.conversions import VariableAggregation, VariableSynchronization
from sparkflow.framework.graph import get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.framework.python_values import as_array
from sparkflow.ops.scope_names import beside_name_scope, forget_inner, unique_scope
from sparkflow.ops.variable_store import VariableStore, store_of
from sparkflow_runtime.wire.dtypes import as_dtype, float32


class _ReuseMode(Enum):
    AUTO_REUSE = 1


AUTO_REUSE = _ReuseMode.AUTO_REUSE
_SETTINGS = (
    *("initializer", "regularizer", "caching_device", "partitioner", "custom_getter", "dtype", "use_resource"),
    "constraint",
)


def no_regularizer(_: Any) -> None:
    """As a scope's or a variable's regularizer: none, whatever the scopes around have."""


class VariableScope:
    """A place in the tree of names, with what get_variable uses there where the call does not say it.

    reuse: False (get_variable makes), True (it shares), AUTO_REUSE (either). name_scope: prefix of op names.
    """

    def __init__(
        self,
        reuse: Any,
        name: str = "",
        initializer: Any = None,
        regularizer: Any = None,
        caching_device: Any = None,
        partitioner: Any = None,
        custom_getter: Any = None,
        name_scope: str = "",
        dtype: Any = float32,
        use_resource: bool | None = None,
        constraint: Any = None,
    ):
        self._reuse, self._name, self._name_scope = reuse, name, name_scope
        given = (initializer, regularizer, caching_device, partitioner, custom_getter, dtype, use_resource, constraint)
        self._settings: dict[str, Any] = dict(zip(_SETTINGS, given, strict=True))

    name = property(lambda self: self._name)
    original_name_scope = property(lambda self: self._name_scope)
    reuse = property(lambda self: self._reuse or False)
    initializer = property(lambda self: self._settings["initializer"])
    regularizer = property(lambda self: self._settings["regularizer"])
    caching_device = property(lambda self: self._settings["caching_device"])
    partitioner = property(lambda self: self._settings["partitioner"])
    custom_getter = property(lambda self: self._settings["custom_getter"])
    dtype = property(lambda self: self._settings["dtype"])
    constraint = property(lambda self: self._settings["constraint"])
    use_resource = property(lambda self: self._settings["use_resource"])

    def reuse_variables(self) -> None:
        """From here on get_variable shares, in this scope and those inside it."""
        self._reuse = True

    def _set(self, setting: str, value: Any) -> None:
        self._settings[setting] = value

    def set_initializer(self, initializer: Any) -> None:
        self._set("initializer", initializer)

    def set_regularizer(self, regularizer: Any) -> None:
        self._set("regularizer", regularizer)

    def set_caching_device(self, caching_device: Any) -> None:
        self._set("caching_device", caching_device)

    def set_partitioner(self, partitioner: Any) -> None:
        self._set("partitioner", partitioner)

    def set_custom_getter(self, custom_getter: Any) -> None:
        self._set("custom_getter", custom_getter)

    def set_use_resource(self, use_resource: bool | None) -> None:
        self._set("use_resource", use_resource)

    def set_dtype(self, dtype: Any) -> None:
        self._set("dtype", as_dtype(dtype))

    def get_collection(self, name: str) -> list[Any]:
        """What is in that collection and made in this scope."""
        return get_default_graph().get_collection(name, self._name + "/" if self._name else None)

    def global_variables(self) -> list[Any]:
        return self.get_collection(GraphKeys.GLOBAL_VARIABLES)

    def trainable_variables(self) -> list[Any]:
        return self.get_collection(GraphKeys.TRAINABLE_VARIABLES)

    def local_variables(self) -> list[Any]:
        return self.get_collection(GraphKeys.LOCAL_VARIABLES)

    def get_variable(
        self,
        name: str,
        shape: Any = None,
        dtype: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        reuse: Any = None,
        trainable: bool | None = None,
        collections: Iterable[str] | None = None,
        caching_device: Any = None,
        partitioner: Any = None,
        validate_shape: bool = True,
        use_resource: bool | None = None,
        custom_getter: Any = None,
        constraint: Any = None,
        synchronization: Any = None,
        aggregation: Any = None,
        use_auto_partition: bool = True,
    ) -> Any:
        """tf.get_variable in this scope."""
        regularizer = self.regularizer if regularizer is None else regularizer
        arguments = {
            "shape": shape,
            "dtype": _variable_dtype(dtype, initializer, self.dtype),
            "initializer": self.initializer if initializer is None else initializer,
            "regularizer": None if regularizer is no_regularizer else regularizer,
            "reuse": (self._reuse or False) if reuse is None else reuse,
            # what a custom getter is told: never None, as it may ask for it
            "trainable": synchronization != VariableSynchronization.ON_READ if trainable is None else trainable,
            "collections": collections,
            "caching_device": self.caching_device if caching_device is None else caching_device,
            "partitioner": (self.partitioner if partitioner is None else partitioner) if use_auto_partition else None,
            "validate_shape": validate_shape,
            "use_resource": self.use_resource if use_resource is None else use_resource,
            "constraint": self.constraint if constraint is None else constraint,
            "synchronization": VariableSynchronization.AUTO if synchronization is None else synchronization,
            "aggregation": VariableAggregation.NONE if aggregation is None else aggregation,
        }
        full_name = f"{self._name}/{name}" if self._name else name
        graph = get_default_graph()
        # Variables are named by variable scopes alone; a "/" at the end keeps the name from being made unique again.
        with graph.name_scope(None):
            getter: Callable[..., Any] = partial(_get, store_of(graph))
            custom = self.custom_getter if custom_getter is None else custom_getter
            return custom(getter, name=full_name, **arguments) if custom else getter(name=full_name, **arguments)


def _get(
    store: VariableStore,
    name: str,
    shape: Any = None,
    dtype: Any = float32,
    initializer: Any = None,
    regularizer: Any = None,
    reuse: Any = None,
    trainable: bool | None = None,
    collections: Iterable[str] | None = None,
    caching_device: Any = None,
    partitioner: Any = None,
    validate_shape: bool = True,
    use_resource: bool | None = None,
    constraint: Any = None,
    synchronization: Any = None,
    aggregation: Any = None,
) -> Any:
    """What a custom getter calls: with all that it was given, or with less."""
    return store.get_variable(
        name, shape, as_dtype(dtype), initializer, regularizer, AUTO_REUSE if reuse is None else reuse, trainable,
        collections, caching_device, partitioner, validate_shape, constraint, use_resource,
        synchronization, aggregation,
    )  # fmt: skip


def _variable_dtype(dtype: Any, initializer: Any, scope_dtype: Any) -> Any:
    """That of a constant initializer, else the one asked for, else the scope's. Raises ValueError where the first two
    differ."""
    asked = None if dtype is None else as_dtype(dtype).base_dtype
    if initializer is None or callable(initializer):
        return as_dtype(scope_dtype).base_dtype if asked is None else asked
    own = initializer.dtype if hasattr(initializer, "dtype") else as_array(initializer).dtype
    given = as_dtype(own).base_dtype
    if asked is not None and asked != given:
        raise ValueError(f"Initializer type {given.name!r} and explicit dtype {asked.name!r} don't match.")
    return given


# ---------------------------------------------------------------------- the current scope

_CURRENT = "current variable scope"


def get_variable_scope() -> VariableScope:
    """The scope that get_variable is in now."""
    extra = get_default_graph().extra
    if _CURRENT not in extra:
        extra[_CURRENT] = VariableScope(False)
    return extra[_CURRENT]


def get_variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool | None = None,
    collections: Iterable[str] | None = None,
    caching_device: Any = None,
    partitioner: Any = None,
    validate_shape: bool = True,
    use_resource: bool | None = None,
    custom_getter: Any = None,
    constraint: Any = None,
    synchronization: Any = None,
    aggregation: Any = None,
) -> Any:
    """The variable `name` of the current variable scope, made or, where the scope says reuse, shared.

    shape, dtype (float32): of a new variable, or checked against the shared one. initializer: a function of (shape,
    dtype, partition_info), a tensor or a constant; Glorot's uniform for floats and zeros for integers by default.
    partitioner: cuts it into parts and makes the result a PartitionedVariable. Raises ValueError where a variable to be
    made exists, one to be shared does not, or shape or dtype differ.
    """
    arguments = dict(locals())
    return get_variable_scope().get_variable(**arguments)


def get_local_variable(name: str, *args: Any, **kwargs: Any) -> Any:
    """get_variable of one that is not trained and not saved: in LOCAL_VARIABLES instead of GLOBAL_VARIABLES."""
    return get_variable(name, *args, **{**kwargs, "trainable": False, "collections": [GraphKeys.LOCAL_VARIABLES]})


class variable_scope:
    """Open a variable scope (and, unless auxiliary_name_scope is False, a name scope of the same name).

    name_or_scope: a name inside the current scope, a VariableScope to enter again wherever one is, or None for
    default_name made unique. reuse: True or AUTO_REUSE from here on inwards; None and False inherit. One of these may
    be entered several times. Raises TypeError where neither name is given, ValueError where reuse is asked for a name
    made unique.
    """

    def __init__(
        self, name_or_scope: str | VariableScope | None, default_name: str | None = None, values: Any = None,
        initializer: Any = None, regularizer: Any = None, caching_device: Any = None, partitioner: Any = None,
        custom_getter: Any = None, reuse: Any = None, dtype: Any = None, use_resource: bool | None = None,
        constraint: Any = None, auxiliary_name_scope: bool = True,
    ):  # fmt: skip
        if name_or_scope is None and default_name is None:
            raise TypeError("If default_name is None then name_or_scope is required")
        if reuse not in (None, False, True, AUTO_REUSE):
            raise ValueError(f"The reuse parameter must be True, False, None or tf.AUTO_REUSE, got {reuse!r}")
        if name_or_scope is None and reuse:
            raise ValueError("reuse=True cannot be used without a name_or_scope")
        self._at, self._default, self._reuse, self._auxiliary = name_or_scope, default_name, reuse, auxiliary_name_scope
        self._given = {
            "initializer": initializer, "regularizer": regularizer, "caching_device": caching_device,
            "partitioner": partitioner, "custom_getter": custom_getter,
            "dtype": None if dtype is None else as_dtype(dtype), "use_resource": use_resource, "constraint": constraint,
        }  # fmt: skip
        self._label = default_name if name_or_scope is None else None
        self._open: list[AbstractContextManager[VariableScope]] = []

    def __enter__(self) -> VariableScope:
        opened = self._opened()
        scope = opened.__enter__()
        self._open.append(opened)
        return scope

    def __exit__(self, *error: Any) -> bool | None:
        return self._open.pop().__exit__(*error)

    @contextmanager
    def _opened(self) -> Iterator[VariableScope]:
        graph = get_default_graph()
        store, outer = store_of(graph), get_variable_scope()
        name, label, base = _target(store, outer, self._at, self._default)
        if self._at is None:
            self._at = name.removeprefix(_joined(outer, ""))  # unique once: entered again, it is the same scope
        with beside_name_scope(self._label or label, self._auxiliary) as prefix:
            scope = _scope(base, name, self._reuse or base.reuse, self._given)
            again = isinstance(self._at, VariableScope)
            scope._name_scope = base.original_name_scope if again else prefix
            counts = store.scope_counts
            before = dict(counts) if again else None
            counts[name] = counts.get(name, 0) + 1
            known = len(counts)
            graph.extra[_CURRENT] = scope
            try:
                yield scope
            finally:
                graph.extra[_CURRENT] = outer
                if before is not None:  # a scope entered again leaves no trace
                    store.scope_counts = before
                else:
                    forget_inner(store.scope_counts, name, known)


@contextmanager
def variable_op_scope(
    values: Any, name_or_scope: Any, default_name: str | None = None, **settings: Any
) -> Iterator[VariableScope]:
    """variable_scope with its oldest order of arguments."""
    with variable_scope(name_or_scope, default_name, values, **settings) as scope:
        yield scope


def _target(
    store: VariableStore, outer: VariableScope, name_or_scope: str | VariableScope | None, default_name: str | None
) -> tuple[str, str, VariableScope]:
    """(full name, name for the name scope, scope whose settings are inherited)."""
    if isinstance(name_or_scope, VariableScope):
        return name_or_scope.name, name_or_scope.name.rpartition("/")[2], name_or_scope
    if name_or_scope is None:
        assert default_name is not None  # checked by the caller
        return unique_scope(store.scope_counts, _joined(outer, default_name)), default_name, outer
    if not isinstance(name_or_scope, str):
        raise TypeError(f"VariableScope: name_or_scope must be a string or VariableScope, got {name_or_scope!r}")
    return _joined(outer, name_or_scope), name_or_scope, outer


def _joined(outer: VariableScope, name: str) -> str:
    return f"{outer.name}/{name}" if outer.name else name


def _scope(base: VariableScope, name: str, reuse: Any, given: dict[str, Any]) -> VariableScope:
    settings = {key: base._settings[key] if value is None else value for key, value in given.items()}
    outer_getter = base._settings["custom_getter"]
    if given["custom_getter"] is not None and outer_getter is not None:
        settings["custom_getter"] = partial(_nested_getter, given["custom_getter"], outer_getter)
    return VariableScope(reuse or None, name, **settings)


def _nested_getter(inner: Any, outer: Any, getter: Any, *args: Any, **kwargs: Any) -> Any:
    return inner(partial(outer, getter), *args, **kwargs)


def create_partitioned_variables(
    shape: Sequence[int], slicing: Sequence[int], initializer: Any, dtype: Any = float32, trainable: bool = True,
    collections: Iterable[str] | None = None, name: str | None = None, reuse: Any = None,
) -> list[Any]:  # fmt: skip
    """The parts of a new variable: slicing says for each axis of shape how many there are, at most one being above 1.

    initializer: a function of (shape, dtype, partition_info) for each part, or the whole value. Raises ValueError where
    shape and slicing do not fit, and as get_variable does.
    """
    if len(shape) != len(slicing) or not shape or min(shape) < 1:
        raise ValueError(
            "The 'shape' and 'slicing' of a partitioned Variable must have the same length and sizes above 0: shape: "
            f"{list(shape)}, slicing: {list(slicing)}"
        )
    with variable_scope(name, "PartitionedVariable", reuse=reuse) as scope:
        graph = get_default_graph()
        with graph.name_scope(None):
            parts = store_of(graph).get_variable(
                scope.name, shape, as_dtype(dtype), initializer, None, scope.reuse or False, trainable, collections,
                None, lambda **_: slicing, True, None,
            )  # fmt: skip
    return list(parts)
