"""MNIST: 28 x 28 images of handwritten digits, from the four IDX files in which they are handed out.

Source of the format: LeCun, Cortes and Burges, THE MNIST DATABASE.
"""

from __future__ import annotations

import gzip
import os
from typing import Any, BinaryIO

import numpy as np

from sparkflow.contrib.learn.datasets.base import Datasets
from sparkflow.framework.random_seed import get_seed
from sparkflow_runtime.wire.dtypes import as_dtype, float32, uint8
from sparkflow_runtime.wire.errors import DataLossError, InvalidArgumentError, NotFoundError

TRAIN_IMAGES, TRAIN_LABELS = "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"
TEST_IMAGES, TEST_LABELS = "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"
_CLASSES, _FAKE = 10, 10_000
_IMAGES, _LABELS = 2051, 2049  # what the files of either kind begin with


def _read(f: BinaryIO, magic: int, rank: int) -> np.ndarray:
    """The bytes of an IDX file, in its shape."""
    with gzip.GzipFile(fileobj=f) as stream:
        content = stream.read()
    head = np.frombuffer(content[: 4 * (rank + 1)], ">u4")
    if len(head) <= rank or head[0] != magic:
        found = int(head[0]) if len(head) else "nothing"
        raise InvalidArgumentError(f"{f.name}: an MNIST file of this kind begins with {magic}, got {found}")
    body = np.frombuffer(content, np.uint8, offset=4 * (rank + 1))
    shape = [int(n) for n in head[1:]]
    if body.size != np.prod(shape):
        raise DataLossError(f"{f.name}: {body.size} bytes where {shape} were announced; copy the file again")
    return body.reshape(shape)


def extract_images(f: BinaryIO) -> np.ndarray:
    """[n, rows, columns, 1] uint8 of an open gzip file."""
    return _read(f, _IMAGES, 3)[..., None]


def dense_to_one_hot(labels_dense: np.ndarray, num_classes: int = _CLASSES) -> np.ndarray:
    return np.eye(num_classes)[labels_dense]


def extract_labels(f: BinaryIO, one_hot: bool = False, num_classes: int = _CLASSES) -> np.ndarray:
    """[n] uint8 of an open gzip file, or [n, num_classes] float64 if one_hot."""
    labels = _read(f, _LABELS, 1)
    return dense_to_one_hot(labels, num_classes) if one_hot else labels


class DataSet:
    """Images [n, 784] in [0, 1] ([n, 28, 28, 1] without reshape, 0-255 with dtype uint8) and labels, by batches.

    fake_data: examples of ones, of class 0. seed: of the order of the batches. Raises TypeError on another dtype.
    """

    def __init__(
        self, images: Any, labels: Any, fake_data: bool = False, one_hot: bool = False, dtype: Any = float32,
        reshape: bool = True, seed: int | None = None,
    ):  # fmt: skip
        kind = as_dtype(dtype)
        if kind not in (uint8, float32):
            raise TypeError(f"Invalid image dtype {kind.name}, expected uint8 or float32")
        of_graph, of_op = get_seed(seed)
        chosen = of_graph if seed is None else of_op
        self._random = np.random.RandomState(chosen or None)
        self._fake, self.one_hot, self._count = fake_data, one_hot, _FAKE if fake_data else len(images)
        if not fake_data:
            if len(images) != len(labels):
                raise ValueError(f"images.shape: {images.shape} labels.shape: {labels.shape}")
            images = images.reshape(len(images), int(np.prod(images.shape[1:]))) if reshape else images
            images = images.astype(np.float32) * np.float32(1.0 / 255.0) if kind is float32 else images
        self._images, self._labels = images, labels
        self._epochs, self._next = 0, 0

    images = property(lambda self: self._images)
    labels = property(lambda self: self._labels)
    num_examples = property(lambda self: self._count)
    epochs_completed = property(lambda self: self._epochs)

    def _shuffle(self) -> None:
        order = self._random.permutation(self._count)
        self._images, self._labels = self._images[order], self._labels[order]

    def next_batch(self, batch_size: int, fake_data: bool = False, shuffle: bool = True) -> tuple[Any, Any]:
        """(images, labels) of the next examples; at the end of an epoch its rest and the beginning of the next."""
        if fake_data or self._fake:
            label: Any = [1] + [0] * 9 if self.one_hot else 0
            return [[1] * 784 for _ in range(batch_size)], [label for _ in range(batch_size)]
        if self._epochs == 0 and self._next == 0 and shuffle:
            self._shuffle()
        begin, end = self._next, self._next + batch_size
        if end <= self._count:
            self._next = end
            return self._images[begin:end], self._labels[begin:end]
        rest = self._images[begin:], self._labels[begin:]
        if shuffle:
            self._shuffle()
        self._epochs, self._next = self._epochs + 1, batch_size - len(rest[0])
        new = self._images[: self._next], self._labels[: self._next]
        return np.concatenate([rest[0], new[0]]), np.concatenate([rest[1], new[1]])


def read_data_sets(
    train_dir: str, fake_data: bool = False, one_hot: bool = False, dtype: Any = float32, reshape: bool = True,
    validation_size: int = 5000, seed: int | None = None, source_url: str | None = None,
) -> Datasets:  # fmt: skip
    """The data sets of the four files in train_dir; the first validation_size training examples are for validation.

    Raises NotFoundError where a file is missing (nothing is downloaded), ValueError on a validation_size that is
    negative or more than there is.
    """
    how = {"dtype": dtype, "reshape": reshape, "seed": seed, "one_hot": one_hot}
    if fake_data:
        return Datasets(*(DataSet([], [], fake_data=True, **how) for _ in range(3)))
    files = (TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS)
    missing = [name for name in files if not os.path.exists(os.path.join(train_dir, name))]
    if missing:
        raise NotFoundError(
            f"MNIST: {', '.join(missing)} not in {os.path.abspath(train_dir)}. Nothing is downloaded: put "
            f"{', '.join(files)} there, or read_data_sets(fake_data=True)"
        )
    images, labels, test_images, test_labels = (_file(train_dir, name, one_hot) for name in files)
    if not 0 <= validation_size <= len(images):
        raise ValueError(f"Validation size should be between 0 and {len(images)}. Received: {validation_size}.")
    n = validation_size
    return Datasets(
        DataSet(images[n:], labels[n:], **how),
        DataSet(images[:n], labels[:n], **how),
        DataSet(test_images, test_labels, **how),
    )


def _file(folder: str, name: str, one_hot: bool) -> np.ndarray:
    with open(os.path.join(folder, name), "rb") as file:
        return extract_images(file) if "images" in name else extract_labels(file, one_hot)


def load_mnist(train_dir: str = "MNIST-data") -> Datasets:
    return read_data_sets(train_dir)
