"""tf.keras.utils: categories as vectors, and files that are downloaded once."""

from __future__ import annotations

import hashlib
import os
import urllib.error
import urllib.request
from typing import Any

import numpy as np

from sparkflow.keras.configs import custom_object_scope, get_custom_objects
from sparkflow.keras.progress import Progbar
from sparkflow_runtime.wire.errors import DataLossError, UnavailableError

__all__ = ["CustomObjectScope", "Progbar", "Sequence", "custom_object_scope", "get_custom_objects", "get_file"]
__all__ += ["normalize", "to_categorical"]
CustomObjectScope = custom_object_scope


def to_categorical(y: Any, num_classes: int | None = None, dtype: Any = "float32") -> np.ndarray:
    """One-hot vectors [..., num_classes] of whole numbers; a last axis of 1 is left out. All that occur by default."""
    classes = np.array(y, dtype=int)
    shape = classes.shape
    if len(shape) > 1 and shape[-1] == 1:
        shape = shape[:-1]
    count = num_classes or int(classes.max()) + 1
    found = np.zeros((classes.size, count), dtype)
    found[np.arange(classes.size), classes.reshape(-1)] = 1
    return found.reshape(*shape, count)


def normalize(x: np.ndarray, axis: int = -1, order: int = 2) -> np.ndarray:
    """x over its norms along an axis."""
    norms = np.atleast_1d(np.linalg.norm(x, order, axis))
    norms[norms == 0] = 1
    return x / np.expand_dims(norms, axis)


class Sequence:
    """Batches by their number: a subclass says __len__ and __getitem__(index), and what on_epoch_end does."""

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say its batches: define __getitem__(index)")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} does not say how many batches it has: define __len__()")

    def on_epoch_end(self) -> None: ...

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))


def get_file(
    fname: str, origin: str, md5_hash: str | None = None, file_hash: str | None = None, cache_subdir: str = "datasets",
    cache_dir: str | None = None,
) -> str:  # fmt: skip
    """The path of a file in ~/.keras (or cache_dir), downloaded from `origin` where it is not there.

    Raises UnavailableError where it cannot be had, DataLossError where its hash (sha256 or md5) is another.
    """
    folder = os.path.join(os.path.expanduser(cache_dir or os.path.join("~", ".keras")), cache_subdir)
    path, wanted = os.path.join(folder, fname), file_hash or md5_hash
    if not (os.path.isfile(path) and (wanted is None or _hash(path, wanted) == wanted)):
        os.makedirs(folder, exist_ok=True)
        _download(origin, path)
        if wanted is not None and _hash(path, wanted) != wanted:
            raise DataLossError(f"{path}, downloaded from {origin}, is damaged: its hash is not {wanted}")
    return path


def _hash(path: str, like: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256" if len(like) == 64 else "md5").hexdigest()


def _download(origin: str, path: str) -> None:
    part = f"{path}.part"
    try:
        urllib.request.urlretrieve(origin, part)
    except (urllib.error.URLError, OSError) as error:
        raise UnavailableError(f"Cannot download {origin} ({error}). Put the file there by hand: {path}") from None
    os.replace(part, path)
