"""SaveableObject: what a Saver saves and restores beside variables and tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow_runtime.wire.dtypes import as_dtype


class SaveSpec:
    """A tensor that is saved. tensor: it, or a function that makes it. slice_spec: which part of a larger one it is, as
    checkpoints say it; "" for a whole one. name: in the checkpoint."""

    def __init__(
        self,
        tensor: Tensor | Callable[[], Tensor],
        slice_spec: str,
        name: str,
        dtype: Any = None,
        device: str | None = None,
    ):
        if callable(tensor) and (dtype is None or device is None):
            raise AssertionError("SaveSpec: where `tensor` is callable, dtype and device must be given too")
        self._tensor, self.slice_spec, self.name = tensor, slice_spec, name
        self.dtype = as_dtype(tensor.dtype if dtype is None else dtype)  # type: ignore[union-attr]
        self.device: str = tensor.device if device is None else device  # type: ignore[union-attr]

    @property
    def tensor(self) -> Tensor:
        if not callable(self._tensor):
            return self._tensor
        with get_default_graph().device(self.device):
            return self._tensor()


class SaveableObject:
    """To be derived from: `specs` are the tensors that are saved, `restore` makes the op that takes them back. One in
    the collection SAVEABLE_OBJECTS is saved by every Saver of all variables."""

    def __init__(self, op: Any, specs: Sequence[SaveSpec], name: str):
        self.op, self.specs, self.name = op, specs, name

    @property
    def optional_restore(self) -> bool:
        return False

    @property
    def device(self) -> str:
        """Of the first of its tensors."""
        return self.specs[0].device

    def restore(self, restored_tensors: list[Tensor], restored_shapes: Any) -> Operation:
        """restored_tensors: of the specs, in their order. restored_shapes: None, or shapes to give them."""
        raise ValueError("Calling an abstract method.")


class BaseSaverBuilder:
    """Where TensorFlow's scripts look for these two."""

    SaveSpec = SaveSpec
    SaveableObject = SaveableObject
