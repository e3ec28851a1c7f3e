"""Layer: an object that makes its variables when it is first called and shares them when it is called again."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import wraps
from typing import Any

import numpy as np

from sparkflow.framework import shapes
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Graph, Tensor, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.framework.scopes import snake_case
from sparkflow.framework.shapes import TensorShape
from sparkflow.framework.tracked import Tracked
from sparkflow.keras import regularizers
from sparkflow.layers.input_spec import InputSpec
from sparkflow.ops import activations, array, init_named, math, operators  # noqa: F401 - x / y on tensors
from sparkflow.ops.variable_scope import VariableScope, get_variable, variable_scope
from sparkflow_runtime.wire import dtypes


def in_own_scopes(build: Callable[[Any, TensorShape], None]) -> Callable[[Any, Any], None]:
    """A `build` that may be called by hand too, before the first call, with a shape of any kind."""

    @wraps(build)
    def built(self: Layer, input_shape: Any) -> None:
        with self._inside(dtypes.float32):
            build(self, TensorShape(input_shape))
        self.built = True

    return built


class Layer(Tracked):
    """The base of tf.layers' classes. A subclass makes variables in `build` and computes in `call`.

    name: of the variable scope, made unique; by default the class's name in snake case. _scope: the exact scope, and
    _reuse whether its variables are shared (what the functions of tf.layers pass on).
    """

    _given: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        made = super().__new__(cls)
        made._given = (args, kwargs)
        return made

    def __init__(
        self,
        trainable: bool = True,
        name: str | None = None,
        dtype: Any = None,
        activity_regularizer: Callable[[Tensor], Tensor] | None = None,
        _scope: Any = None,
        _reuse: Any = None,
    ):
        self.trainable, self.built, self.activity_regularizer = trainable, False, activity_regularizer
        self._is_inside = False  # of its own scopes
        self._dtype = None if dtype is None else dtypes.as_dtype(dtype)
        self._base_name = name or snake_case(type(self).__name__)
        self._wanted_scope, self._reuse = _scope, _reuse
        self._scope: VariableScope | None = None
        self._trainable_weights: list[Any] = []
        self._non_trainable_weights: list[Any] = []
        self.input_spec: InputSpec | list[InputSpec] | None = None  # what a subclass takes, said before or in build
        self._losses: list[Tensor] = []
        self._updates: list[Any] = []

    # ------------------------------------------------------------------ what a subclass defines

    def build(self, input_shape: Any) -> None:
        """Make the variables for inputs of that shape. May be called by hand, before the first call."""
        self.built = True

    def call(self, inputs: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say what it computes: define call(inputs)")

    def compute_output_shape(self, input_shape: Any) -> TensorShape:
        """The shape of what inputs of that shape give; nothing is added to the graph, and no variable is made."""
        other = copy(self)
        other.built, other._is_inside = False, False
        other._scope, other._wanted_scope, other._reuse = None, None, None
        other._trainable_weights, other._non_trainable_weights, other._losses, other._updates = [], [], [], []
        with Graph().as_default():
            return other(array.placeholder(self._dtype or dtypes.float32, input_shape)).shape

    # ------------------------------------------------------------------ calling

    def __call__(self, inputs: Any, *args: Any, scope: Any = None, **kwargs: Any) -> Any:
        """What `call` gives. scope: for the variables, where none was given before; of the first call alone."""
        if self._wanted_scope is None:  # one that shares its variables finds them by the class's name
            self._wanted_scope = scope if scope is not None else self._base_name if self._reuse else None
        many = isinstance(inputs, (list, tuple)) and any(isinstance(i, Tensor) for i in inputs)
        tensors = [convert_to_tensor(i) for i in inputs] if many else convert_to_tensor(inputs)
        first = tensors[0] if isinstance(tensors, list) else tensors
        with self._inside(first.dtype.base_dtype):
            if not self.built:
                self._check(tensors)
                self.build(TensorShape(first._shape))
                self.built = True
            self._check(tensors)
            out = self.call(tensors, *args, **kwargs)
            if self.activity_regularizer is not None:
                with get_default_graph().name_scope("ActivityRegularizer"):
                    loss = self.activity_regularizer(out)
                    self.add_loss(loss / math.cast(array.shape(out)[0], loss.dtype.base_dtype))
        return out

    apply = __call__

    def _check(self, tensors: Any) -> None:
        """Raises ValueError on inputs that do not fit input_spec."""
        if self.input_spec is None:
            return
        specs, given = (v if isinstance(v, (list, tuple)) else [v] for v in (self.input_spec, tensors))
        if len(specs) != len(given):
            raise ValueError(f"Layer {self.name} expects {len(specs)} inputs, got {len(given)}")
        for spec, tensor in zip(specs, given):
            spec.check(tensor, self.name)

    @contextmanager
    def _inside(self, dtype: dtypes.DType) -> Iterator[None]:
        """In the layer's scopes, once: `build` may be called by hand."""
        if self._is_inside:
            yield
            return
        self._is_inside = True
        try:
            with self._entered(dtype):
                yield
        finally:
            self._is_inside = False

    @contextmanager
    def _entered(self, dtype: dtypes.DType) -> Iterator[None]:
        """In the layer's scopes: opened at the first call, entered again later. dtype: of what has none."""
        if self._scope is None:
            self._dtype = self._dtype or dtype
            entered = isinstance(self._wanted_scope, VariableScope)  # by the caller, as its name scope is
            opened = variable_scope(
                self._wanted_scope, self._base_name, reuse=self._reuse, dtype=self._dtype,
                auxiliary_name_scope=not entered,
            )  # fmt: skip
            with opened as self._scope:
                if entered:
                    with get_default_graph().name_scope(self._scope.original_name_scope):
                        yield
                else:
                    yield
            return
        again = variable_scope(self._scope, reuse=True if self.built else self._reuse, auxiliary_name_scope=False)
        with again, get_default_graph().name_scope(self._scope.original_name_scope):
            yield

    # ------------------------------------------------------------------ for subclasses

    def add_weight(
        self,
        name: str,
        shape: Any = None,
        dtype: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        trainable: bool | None = None,
        constraint: Any = None,
        **kwargs: Any,
    ) -> Any:
        """A variable of the layer, by get_variable in its scope. initializer, regularizer: by Keras' names too."""
        trained = self.trainable and trainable is not False
        losses = get_default_graph().get_collection_ref(GraphKeys.REGULARIZATION_LOSSES)
        before = len(losses)
        with self._inside(dtypes.float32):
            variable = get_variable(
                name,
                shape,
                dtype or self._dtype,
                initializer=init_named.get(initializer),
                regularizer=regularizers.get(regularizer),
                trainable=trained,
                constraint=constraint,
                **kwargs,
            )
        self._losses += losses[before:]
        (self._trainable_weights if trained else self._non_trainable_weights).append(variable)
        return variable

    add_variable = add_weight

    def add_loss(self, losses: Any, inputs: Any = None) -> None:
        """Add to the layer's losses and to the collection REGULARIZATION_LOSSES."""
        for loss in losses if isinstance(losses, (list, tuple)) else [losses]:
            self._losses.append(loss)
            get_default_graph().add_to_collection(GraphKeys.REGULARIZATION_LOSSES, loss)

    def add_update(self, updates: Any, inputs: Any = None) -> None:
        """Add ops that training has to run to the layer's updates and to the collection UPDATE_OPS, where the layer is
        trained."""
        if not self.trainable:
            return
        for update in updates if isinstance(updates, (list, tuple)) else [updates]:
            self._updates.append(update)
            get_default_graph().add_to_collection(GraphKeys.UPDATE_OPS, update)

    # ------------------------------------------------------------------ looking at it

    @property
    def name(self) -> str:
        return self._base_name if self._scope is None else self._scope.name.rpartition("/")[2]

    @property
    def scope_name(self) -> str:
        if self._scope is None:
            raise ValueError(f"No name available for layer scope because the layer {self.name!r} has not been used yet")
        return self._scope.name

    @property
    def graph(self) -> Graph:
        return get_default_graph()

    dtype = property(lambda self: None if self._dtype is None else self._dtype.name)
    losses = property(lambda self: list(self._losses))
    updates = property(lambda self: list(self._updates) if self.trainable else [])

    @property
    def trainable_variables(self) -> list[Any]:
        return list(self._trainable_weights) if self.trainable else []

    @property
    def non_trainable_variables(self) -> list[Any]:
        return [*(() if self.trainable else self._trainable_weights), *self._non_trainable_weights]

    @property
    def variables(self) -> list[Any]:
        return self.trainable_variables + self.non_trainable_variables

    weights = variables
    trainable_weights = trainable_variables
    non_trainable_weights = non_trainable_variables

    def count_params(self) -> int:
        """How many numbers the layer's variables hold. Raises ValueError before the first call."""
        if not self.built:
            raise ValueError(f"count_params: layer {self.name!r} has no variables before it is called")
        return sum(shapes.product(v.shape.as_list()) for v in self.variables)

    def get_weights(self) -> list[Any]:
        """The variables' values, as arrays, in the default session, or that of tf.keras.backend.get_session()."""
        from sparkflow.keras import backend  # which is made of much

        return backend.batch_get_value(self.weights)

    def set_weights(self, weights: Any) -> None:
        """Give the variables those values. Raises ValueError where their count or a shape differs."""
        from sparkflow.keras import backend

        own = self.weights
        if len(weights) != len(own):
            raise ValueError(f"Layer {self.name} has {len(own)} weights, set_weights was given {len(weights)}")
        for variable, value in zip(own, weights):
            if tuple(variable.shape.as_list()) != np.shape(value):
                raise ValueError(
                    f"Layer {self.name}: weight {variable.name} has shape {variable.shape}, the value given "
                    f"{np.shape(value)}"
                )
        for variable, value in zip(own, weights):
            backend.set_value(variable, value)

    def get_config(self) -> dict[str, Any]:
        """What makes the same layer anew by from_config; a subclass of yours adds its own arguments."""
        config: dict[str, Any] = {"name": self.name, "trainable": self.trainable, "dtype": self.dtype}
        if type(self).__module__.partition(".")[0] == __name__.partition(".")[0]:
            args, kwargs = self._given
            bound = inspect.signature(type(self).__init__).bind(self, *args, **kwargs)
            bound.apply_defaults()
            given = dict(list(bound.arguments.items())[1:])
            further = {**given.pop("kwargs", {}), **given}
            if hasattr(self, "kind"):
                return {**further, **config}
            named = by_name(type(self), further.pop("args", ()), tuple(further))
            config = {**further, **named, **config}
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        given = dict(config)
        further = given.pop("args", ())  # what a class passes on by place
        named = list(inspect.signature(cls.__init__).parameters)[1:]
        first = [given.pop(name) for name in named[: named.index("args")]] if further else []
        return cls(*first, *further, **given)


def by_name(kind: type, values: tuple[Any, ...], known: tuple[str, ...]) -> dict[str, Any]:
    """Arguments that a class passes on by place, by the names that the classes above give them."""
    names: list[str] = []
    for above in kind.__mro__:
        make: Any = vars(above).get("__init__", object.__init__)
        names += [
            n for n in list(inspect.signature(make).parameters)[1:] if n not in (*names, *known, "args", "kwargs")
        ]
    return dict(zip(names, values))


def numbers(what: str, name: str, value: Any, count: int) -> tuple[int, ...]:
    """`count` whole numbers, from one or from as many. Raises ValueError otherwise."""
    listed = tuple(value) if hasattr(value, "__iter__") else (value,) * count
    if len(listed) != count or any(int(v) != v or v < 1 for v in listed):
        raise ValueError(f"{what}: {name} must be a whole number above 0 or a tuple of {count}, got {value!r}")
    return tuple(int(v) for v in listed)


def named_activation(activation: Any) -> Callable[[Tensor], Tensor] | None:
    """The function, given itself or by Keras' name; None for none. Raises ValueError on an unknown name."""
    return None if activation is None else activations.get(activation)


def channel_axis(what: str, data_format: str, rank: int) -> int:
    """Raises ValueError unless data_format is channels_last or channels_first."""
    if data_format not in ("channels_last", "channels_first"):
        raise ValueError(f"{what}: data_format must be channels_last or channels_first, got {data_format!r}")
    return rank - 1 if data_format == "channels_last" else 1
