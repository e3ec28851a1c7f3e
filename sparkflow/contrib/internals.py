"""What libraries take from TensorFlow's files that has no public name there: small functions on names and shapes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import wraps
from itertools import count
from typing import Any

import numpy as np

from sparkflow.data.dataset import Dataset
from sparkflow.estimator.canned import optimizer_of
from sparkflow.feature_column.embedding import EmbeddingColumn
from sparkflow.files import GFile
from sparkflow.framework.apply import constant
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.device_spec import DeviceSpec
from sparkflow.framework.graph import Tensor
from sparkflow.framework.shapes import TensorShape
from sparkflow.ops import array
from sparkflow.ops.array_join import concat
from sparkflow.ops.rnn import batch_and_time_swapped
from sparkflow.ops.rnn_cell import zeros_of
from sparkflow.ops.variables import Variable
from sparkflow.train.optimizer import Optimizer
from sparkflow_runtime.wire.dtypes import int32

_EmbeddingColumn = EmbeddingColumn
DeviceSpecV1 = DeviceSpec
DatasetV1 = DatasetV2 = Dataset


def get_optimizer_instance(opt: Any, learning_rate: float | None = None) -> Optimizer:
    """An estimator's optimizer: itself, by its name, or by a function that makes it. Raises ValueError on a name that
    is not known, and on a name without a learning rate."""
    if isinstance(opt, str) and learning_rate is None:
        raise ValueError(f"learning_rate must be specified when opt is a name, got {opt!r}")
    return optimizer_of(opt, learning_rate or 0.0)


class _Head(ABC):
    """What libraries derive the heads of their estimators from."""

    @property
    @abstractmethod
    def name(self) -> str | None: ...

    @property
    @abstractmethod
    def logits_dimension(self) -> int: ...

    @abstractmethod
    def create_loss(self, features: Any, mode: str, logits: Any, labels: Any) -> Any: ...

    @abstractmethod
    def create_estimator_spec(
        self, features: Any, mode: str, logits: Any, labels: Any = None, train_op_fn: Any = None
    ) -> Any: ...


class ResourceVariable(Variable):
    """A Variable that is made with use_resource=True."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **{**kwargs, "use_resource": True})


_transpose_batch_time = batch_and_time_swapped


def _zero_state_tensors(state_size: Any, batch_size: Any, dtype: Any) -> Any:
    """Zeros in the structure of state_size, each [batch_size, size]."""
    return zeros_of(state_size, batch_size, dtype)


def _concat(prefix: Any, suffix: Any, static: bool = False) -> Any:
    """The sizes of a state: those of prefix, such as the batch's, before those of suffix. As a list with None for what
    is not known where static, else as a tensor. Raises ValueError where sizes that a tensor needs are not known."""
    sides = [s if isinstance(s, Tensor) else TensorShape(s if isinstance(s, (list, tuple, TensorShape)) else [s])
             for s in (prefix, suffix)]  # fmt: skip
    if static:
        known = [constant_value(s) if isinstance(s, Tensor) else s.as_list() for s in sides]
        return None if any(k is None for k in known) else [v for k in known for v in np.atleast_1d(np.array(k, object))]
    for side in sides:
        if isinstance(side, TensorShape) and not side.is_fully_defined():
            raise ValueError(f"Provided a prefix or suffix that is not known: {prefix} and {suffix}")
    parts = [s if isinstance(s, Tensor) else constant(s.as_list(), int32) for s in sides]
    return concat([array.expand_dims(p, 0) if p.shape.ndims == 0 else p for p in parts], 0)


_uids = count(1)


def uid() -> int:
    """A number that this process has not been given before."""
    return next(_uids)


def as_shape(shape: Any) -> TensorShape:
    return shape if isinstance(shape, TensorShape) else TensorShape(shape)


def prepend_name_scope(name: str, import_scope: str | None) -> str:
    """A node's name, as it is ("^a", "loc:@a"), in that scope."""
    mark, rest = _parted(name)
    return f"{mark}{import_scope.rstrip('/')}/{rest}" if import_scope else name


def strip_name_scope(name: str, export_scope: str | None) -> str:
    """A node's name without that scope; as it is where it does not begin with it."""
    mark, rest = _parted(name)
    inside = rest.removeprefix(f"{export_scope.rstrip('/')}/") if export_scope else rest
    return name if inside == rest else mark + inside.lstrip("/")


def _parted(name: str) -> tuple[str, str]:
    mark = next((m for m in ("^", "loc:@") if name.startswith(m)), "")
    return mark, name[len(mark) :]


def write_string_to_file(filename: Any, file_content: str | bytes) -> None:
    with GFile(filename, "wb" if isinstance(file_content, bytes) else "w") as file:
        file.write(file_content)


def read_file_to_string(filename: Any, binary_mode: bool = False) -> Any:
    with GFile(filename, "rb" if binary_mode else "r") as file:
        return file.read()


def enabled() -> bool:
    """Whether TensorFlow 2's behaviour was asked for (tensorflow.python.tf2): never."""
    return False


def shape_type_conversion(fn: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A method of a shape, such as a cell's build: it is given tuples for TensorShapes, and gives one for a tuple."""

    @wraps(fn)
    def converted(instance: Any, shape: Any) -> Any:
        several = isinstance(shape, list) and all(isinstance(s, TensorShape) for s in shape)
        found = fn(instance, [tuple(s.as_list()) for s in shape] if several else _sizes(shape))
        return TensorShape(found) if isinstance(found, tuple) else found

    return converted


def _sizes(shape: Any) -> Any:
    return tuple(shape.as_list()) if isinstance(shape, TensorShape) else shape


def NoDependency(value: Any) -> Any:
    """What a layer keeps by it does not belong to its checkpoint; nothing that has no variables does here."""
    return value


def GetContainingWhileContext(ctxt: Any, stop_ctxt: Any = None) -> Any:
    """The loop that the context is, or is in; stop_ctxt where that is met before; None where there is none."""
    while ctxt is not None and ctxt is not stop_ctxt and ctxt.GetWhileContext() is not ctxt:
        ctxt = ctxt.outer_context
    return ctxt


def GetContainingXLAContext(ctxt: Any) -> None:
    """What XLA compiles around: nothing is."""


def IsInWhileLoop(op: Any) -> bool:
    return GetContainingWhileContext(op._get_control_flow_context()) is not None


def IsInXLAContext(op: Any) -> bool:
    return False
