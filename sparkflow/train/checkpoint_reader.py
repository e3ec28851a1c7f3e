"""What a checkpoint holds, tensor by tensor, without a graph of the model."""

from __future__ import annotations

import os
from typing import Any

from sparkflow.framework.graph import Graph
from sparkflow.ops import io
from sparkflow.train.checkpoint_state import prefix_of
from sparkflow_runtime.wire import checkpoint
from sparkflow_runtime.wire.dtypes import DType, as_dtype
from sparkflow_runtime.wire.errors import NotFoundError


class CheckpointReader:
    """tf.train.NewCheckpointReader. Raises NotFoundError where there is no checkpoint."""

    def __init__(self, filepattern: str):
        self._prefix = os.fsdecode(filepattern)
        self._index = checkpoint.read(self._prefix)

    def has_tensor(self, tensor_str: str) -> bool:
        return tensor_str in self._index.entries

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        return {name: list(entry.shape) for name, entry in sorted(self._index.entries.items())}

    def get_variable_to_dtype_map(self) -> dict[str, DType]:
        return {name: as_dtype(entry.dtype) for name, entry in sorted(self._index.entries.items())}

    def debug_string(self) -> bytes:
        """A line for each tensor: name, dtype, shape."""
        lines = (f"{name} ({e.dtype}) {list(e.shape)}" for name, e in sorted(self._index.entries.items()))
        return "\n".join(lines).encode()

    def get_tensor(self, tensor_str: str) -> Any:
        """Its value, as a numpy array. Raises NotFoundError where it is not there."""
        return self._read(tensor_str, "")

    def get_rows(self, tensor_str: str, first: int, last: int) -> Any:
        """Rows [first, last) of a tensor, and no others are kept."""
        shape = self._entry(tensor_str).shape
        rest = ":".join(["", *("-" for _ in shape[1:])])
        return self._read(tensor_str, f"{' '.join(map(str, shape))} {first},{last - first}{rest}")

    def _entry(self, name: str) -> Any:
        if name not in self._index.entries:
            raise NotFoundError(self._index.missing(name, self._prefix))
        return self._index.entries[name]

    def _read(self, name: str, part: str) -> Any:
        from sparkflow.session.session import Session

        dtype = as_dtype(self._entry(name).dtype)
        with Graph().as_default() as graph:
            (value,) = io.restore_v2(self._prefix, [name], [part], [dtype])
            with Session(graph=graph) as session:
                return session.run(value)


def NewCheckpointReader(filepattern: str) -> CheckpointReader:
    """A reader of the checkpoint of that prefix."""
    return CheckpointReader(filepattern)


def load_checkpoint(ckpt_dir_or_file: str) -> CheckpointReader:
    """A reader of a checkpoint, or of the newest one of a directory."""
    return CheckpointReader(prefix_of(ckpt_dir_or_file))
