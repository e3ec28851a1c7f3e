"""Iterator: a dataset's elements as tensors, the next ones with every step."""

from __future__ import annotations

import threading
from typing import Any

from sparkflow.data.dataset import Dataset
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Operation
from sparkflow.framework.shapes import TensorShape
from sparkflow.ops.script import py_func
from sparkflow_runtime.wire.errors import FailedPreconditionError, OutOfRangeError


class Iterator:
    """get_next() raises OutOfRangeError when it runs at the end, FailedPreconditionError before the initializer."""

    def __init__(self, dataset: Dataset, one_shot: bool):
        self._dataset, self._lock = dataset, threading.Lock()
        self._rows: Any = None
        self._initializer: Operation | None = None
        tensors = dataset._tensors
        if one_shot:
            known = [constant_value(t) for t in tensors]
            if any(k is None for k in known):
                names = [t.name for t, k in zip(tensors, known) if k is None]
                raise ValueError(f"A one-shot iterator needs constants, got {names}: use make_initializable_iterator()")
            self._start(*known)
        else:
            done = py_func(self._start, list(tensors), [], name="MakeIterator")
            self._initializer = done if isinstance(done, Operation) else done.op

    def _start(self, *values: Any) -> None:
        with self._lock:
            fed = dict(zip(self._dataset._tensors, values))
            self._rows = iter(self._dataset._rows(fed))

    @property
    def initializer(self) -> Operation:
        if self._initializer is None:
            raise ValueError("Iterator does not have an initializer.")
        return self._initializer

    output_types = property(lambda self: self._dataset.output_types)
    output_shapes = property(lambda self: self._dataset.output_shapes)

    def _next(self) -> list[Any]:
        with self._lock:
            if self._rows is None:
                raise FailedPreconditionError("The iterator has not been initialized: run its `initializer` first")
            row = next(self._rows, None)
        if row is None:
            raise OutOfRangeError("End of sequence")
        return row

    def get_next(self, name: str | None = None) -> Any:
        """The next element, as tensors in the dataset's structure."""
        spec = self._dataset._spec
        found = py_func(self._next, [], list(spec.types), name=name or "IteratorGetNext")
        for tensor, dims in zip(found, spec.dims):
            tensor.set_shape(TensorShape(dims))
        return spec.pack(found)
