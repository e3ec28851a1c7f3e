"""Keras' Layer in a graph: named by its graph, its variables by name scopes, and what it was called on kept beside its
outputs, from which `models.Model` finds its layers.

Losses and updates stay with the layer (`losses`, `updates`): as in TensorFlow no collection has them.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from threading import local
from typing import Any

import numpy as np

from sparkflow.framework import nest
from sparkflow.framework.graph import Graph, Tensor, get_default_graph
from sparkflow.framework.scopes import snake_case
from sparkflow.framework.shapes import TensorShape
from sparkflow.framework.sparse_tensor import SparseTensor
from sparkflow.keras import backend, constraints, regularizers
from sparkflow.keras.calls import (
    Called,
    Node,
    batch_shape,
    collect,
    is_shape,
    mask_of,
    once,
    shapes_of,
    tensor,
    unique_name,
)
from sparkflow.layers import base
from sparkflow.ops import array, init_named, math, operators  # noqa: F401 - x / y on tensors
from sparkflow.ops.variables import Variable
from sparkflow_runtime.wire.dtypes import DType, as_dtype

_KNOWN = (
    *("input_shape", "batch_input_shape", "input_dim", "batch_size", "weights", "activity_regularizer", "autocast"),
    *("input_length", "dynamic"),
)
_NO_PARTS = ("_nodes", "_given", "_compiled", "_compile_arguments", "_extra_metrics", "loss")  # of what a layer holds


class _Calls(local):
    """Of the layers that this thread is calling, outermost first: training."""

    def __init__(self) -> None:
        self.training: list[Any] = []


_calls = _Calls()


class Layer(Called, base.Layer):
    """The base of tf.keras.layers' classes. A subclass makes variables in `build`, by add_weight, and computes in
    `call`.

    name: by default the class's name in snake case, unique in the graph. dtype: of the variables; by default that of
    the first inputs. input_shape (without the batch's axis), batch_input_shape, input_dim: of the first layer of a
    Sequential. weights: arrays that the variables begin with. Raises TypeError on other keyword arguments.

    `call` gets training where it takes it: what is given, else what the layer around was called with. It gets mask
    where it takes it: what Masking or Embedding said of the inputs, carried through layers with supports_masking.
    """

    supports_masking = False
    stateful = False
    _measures = False  # a metric's variables are no layer's
    _inputs_may_be_whole = False  # whether numbers stay numbers: of what is looked up

    def __init__(self, trainable: bool = True, name: str | None = None, dtype: Any = None, **kwargs: Any):
        for key in kwargs:
            if key not in _KNOWN:
                raise TypeError(f"Keyword argument not understood: {key!r} ({type(self).__name__})")
        self._name = name or unique_name(snake_case(type(self).__name__))
        self._nodes: list[Node] = []
        penalty = regularizers.get(kwargs.get("activity_regularizer"))
        super().__init__(trainable, self._name, dtype, activity_regularizer=penalty)
        self._first_weights = list(kwargs.get("weights") or ())
        self._batch_input_shape = batch_shape(kwargs)

    # ------------------------------------------------------------------ calling

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """What `call` gives. Raises ValueError where the inputs do not fit input_spec."""
        inputs = nest.map_structure(tensor, inputs)
        flat = nest.flatten(inputs)
        first = next((x.dtype.base_dtype for x in flat if isinstance(x, (Tensor, SparseTensor))), None)
        outermost = not _calls.training
        with self._inside(first or as_dtype(backend.floatx())):
            if not self.built:
                self._check(inputs)
                self._build_of(shapes_of(inputs))
                self.built = True
            self._check(inputs)
            said = kwargs.get("training")
            kwargs = self._completed(inputs, args, kwargs)
            _calls.training.append(kwargs.get("training", said))
            try:
                out = self.call(inputs, *args, **kwargs)
            finally:
                _calls.training.pop()
            out = nest.map_structure(lambda y: array.identity(y) if any(y is x for x in flat) else y, out)
            if self.activity_regularizer is not None:
                self._penalize(out)
            self._set_mask(inputs, kwargs, out)
        if outermost:
            self._record(Node(self, inputs, args, kwargs, out))
        return out

    apply = __call__

    def _completed(self, inputs: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """With training and mask, where `call` takes them and they are not given; without training where it does not
        take it, for it is meant for layers inside."""
        parameters = inspect.signature(self.call).parameters
        takes = list(parameters)
        by_place = takes[1 : 1 + len(args)]
        out = dict(kwargs)
        if "training" not in takes and all(p.kind is not p.VAR_KEYWORD for p in parameters.values()):
            out.pop("training", None)
        if "training" in takes and "training" not in by_place and out.get("training") is None:
            out["training"] = _calls.training[-1] if _calls.training else None
        if "mask" in takes and "mask" not in by_place and out.get("mask") is None:
            found = mask_of(inputs)
            if any(m is not None for m in nest.flatten(found)):
                out["mask"] = found
        return out

    def _record(self, node: Node) -> None:
        self._nodes.append(node)
        for y in nest.flatten(node.outputs):
            if isinstance(y, Tensor):
                y._keras_history = node  # type: ignore[attr-defined]

    def _set_mask(self, inputs: Any, kwargs: dict[str, Any], out: Any) -> None:
        if not self.supports_masking and type(self).compute_mask is Layer.compute_mask:
            return
        given = kwargs.get("mask")
        mask = self.compute_mask(inputs, mask_of(inputs) if given is None else given)
        outs = nest.flatten(out)
        masks = mask if isinstance(mask, (list, tuple)) else [mask] * len(outs)
        for y, m in zip(outs, masks):
            if m is not None and isinstance(y, Tensor):
                y._keras_mask = m  # type: ignore[attr-defined]

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """The mask of the outputs: that of the inputs, if supports_masking."""
        return mask if self.supports_masking else None

    def _check(self, tensors: Any) -> None:
        if self.input_spec is not None:
            super()._check(nest.flatten(tensors))

    def _penalize(self, out: Any) -> None:
        for y in nest.flatten(out):
            with get_default_graph().name_scope("ActivityRegularizer"):
                loss = self.activity_regularizer(y)  # type: ignore[misc]
                self.add_loss(loss / math.cast(array.shape(y)[0], loss.dtype.base_dtype))

    @contextmanager
    def _entered(self, dtype: DType) -> Iterator[None]:
        if self._dtype is None:
            has_fraction = dtype.is_floating or dtype.is_complex
            self._dtype = dtype if has_fraction else as_dtype(backend.floatx())
        with get_default_graph().name_scope(self._name_scope()):
            yield

    def _name_scope(self) -> str:
        return self._name

    def _build_of(self, input_shape: Any) -> None:
        self.build(input_shape)

    def build_here(self, input_shape: TensorShape, dtype: DType | None) -> None:
        """Make the variables, where there are none, in the scope around instead of one of the layer's name."""
        if self.built:
            return
        self._dtype = self._dtype or dtype
        inside, self._is_inside = self._is_inside, True
        try:
            self.build(input_shape)
        finally:
            self._is_inside = inside
        self.built = True

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The shape of what inputs of that shape (or of those shapes, a list) give; the graph stays as it is. Raises
        NotImplementedError where the layer holds others and does not say it itself."""
        if self._children():
            raise NotImplementedError(
                f"{type(self).__name__} holds layers of its own: define compute_output_shape(input_shape) in it"
            )
        other = copy(self)
        other.built, other._is_inside, other._nodes, other._first_weights = False, False, [], []
        other._trainable_weights, other._non_trainable_weights, other._losses, other._updates = [], [], [], []
        kind = self._dtype if self._dtype is not None and not self._inputs_may_be_whole else as_dtype("float32")
        with Graph().as_default():
            many = isinstance(input_shape, list) and any(is_shape(s) for s in input_shape)
            shapes = input_shape if many else [input_shape]
            inputs = [array.placeholder(kind, s) for s in shapes]
            return shapes_of(other(inputs if many else inputs[0]))

    # ------------------------------------------------------------------ for subclasses

    def add_weight(
        self,
        name: str | None = None,
        shape: Any = None,
        dtype: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        trainable: bool | None = None,
        constraint: Any = None,
        use_resource: bool | None = None,
        collections: Any = None,
        synchronization: Any = None,
        aggregation: Any = None,
        **kwargs: Any,
    ) -> Any:
        """A variable of the layer, named in the name scope around. initializer: Glorot's uniform by default, zeros of
        whole numbers. Raises TypeError on other keyword arguments."""
        if kwargs:
            raise TypeError(f"add_weight: unknown keyword arguments {', '.join(sorted(kwargs))} (layer {self.name})")
        kind = as_dtype(dtype or self._dtype or backend.floatx())
        if initializer is None:
            initializer = "glorot_uniform" if kind.is_floating or kind.is_complex else "zeros"
        make = init_named.get(initializer)
        size = TensorShape(() if shape is None else shape).as_list()
        first = self._first_value(name, size)
        variable = Variable(
            (lambda: make(size, dtype=kind)) if first is None else first,
            trainable is not False,
            collections,
            name=name,
            dtype=kind,
            constraint=constraints.get(constraint),
            use_resource=use_resource,
            synchronization=synchronization,
            aggregation=aggregation,
        )
        backend.tracked(variable)
        penalty = regularizers.get(regularizer)
        if penalty is not None:
            with get_default_graph().name_scope(f"{variable.op.name.rpartition('/')[2]}/Regularizer"):
                self._losses.append(penalty(variable))
        (self._trainable_weights if trainable is not False else self._non_trainable_weights).append(variable)
        return variable

    add_variable = add_weight

    def add_loss(self, losses: Any, inputs: Any = None) -> None:
        """Tensors, or functions that make them, for `losses`."""
        for loss in losses if isinstance(losses, (list, tuple)) else [losses]:
            self._losses.append(loss() if callable(loss) else loss)

    def add_update(self, updates: Any, inputs: Any = None) -> None:
        """Ops that training has to run, or functions that make them, for `updates`."""
        for update in updates if isinstance(updates, (list, tuple)) else [updates]:
            self._updates.append(update() if callable(update) else update)

    def add_metric(self, value: Any, aggregation: str | None = None, name: str | None = None) -> None:
        """A tensor for the logs of fit and evaluate: aggregation "mean" over batches, or None of a Metric's result. One
        metric for all calls that give the same name."""
        from sparkflow.keras.metric import Mean  # a metric is a layer

        added = self.__dict__.setdefault("_extra_metrics", [])
        metric = getattr(value, "_metric", None)
        if metric is None:
            if name is None or aggregation != "mean":
                raise ValueError(
                    f"add_metric of a tensor takes a name and aggregation='mean', got name={name!r} and "
                    f"aggregation={aggregation!r} (layer {self.name})"
                )
            metric = next((m for m, _ in added if m.name == name), None) or Mean(name)
            value = metric(value)
        elif name:
            metric._name = name
        added.append((metric, value))

    # ------------------------------------------------------------------ looking at it

    @property
    def name(self) -> str:
        return self._name

    scope_name = name

    @property
    def trainable(self) -> bool:
        """Whether its variables are among trainable_weights; said to the layers in it too."""
        return self._trainable

    @trainable.setter
    def trainable(self, value: bool) -> None:
        self._trainable = bool(value)
        for layer in self._children():
            layer.trainable = value

    def _children(self) -> list[base.Layer]:
        """The layers among its attributes, and in their lists and dictionaries, each once, in order."""
        found: dict[int, base.Layer] = {}
        for key, value in vars(self).items():
            if key not in _NO_PARTS:
                collect(value, base.Layer, found)
        return [layer for layer in found.values() if not getattr(layer, "_measures", False)]

    def _own(self, trained: bool) -> list[Variable]:
        """Its variables by add_weight, then those that are its attributes."""
        listed = self._trainable_weights if trained else self._non_trainable_weights
        known = {id(v) for v in (*self._trainable_weights, *self._non_trainable_weights)}
        held: dict[int, Variable] = {}
        for key, value in vars(self).items():
            if not key.startswith("_"):
                collect(value, Variable, held)
        return [*listed, *(v for v in held.values() if id(v) not in known and bool(v.trainable) == trained)]

    @property
    def trainable_weights(self) -> list[Variable]:
        if not self.trainable:
            return []
        return once([*self._own(True), *(v for c in self._children() for v in c.trainable_variables)])

    @property
    def non_trainable_weights(self) -> list[Variable]:
        own = self._own(False) if self.trainable else self._own(True) + self._own(False)
        if self.trainable:
            return once([*own, *(v for c in self._children() for v in c.non_trainable_variables)])
        return once([*own, *(v for c in self._children() for v in c.variables)])

    @property
    def weights(self) -> list[Variable]:
        return once([*self.trainable_weights, *self.non_trainable_weights])

    trainable_variables = trainable_weights
    non_trainable_variables = non_trainable_weights
    variables = weights

    @property
    def losses(self) -> list[Tensor]:
        return [*self._losses, *(loss for c in self._children() for loss in c.losses)]

    @property
    def updates(self) -> list[Any]:
        if not self.trainable and not self.stateful:
            return []
        return [*self._updates, *(update for c in self._children() for update in c.updates)]

    def _first_value(self, name: str | None, size: list[int | None]) -> np.ndarray | None:
        """Of the next variable, where the layer was given weights. Raises ValueError where the shape differs."""
        if not self._first_weights:
            return None
        value = np.asarray(self._first_weights.pop(0))
        if list(value.shape) != size:
            raise ValueError(
                f"Layer {self.name}: weight {name} has shape {size}, weights has {list(value.shape)} for it"
            )
        return value
