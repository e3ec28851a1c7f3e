"""What Dataset has in TensorFlow 2 as methods, and TensorFlow 1 in tf.data.experimental: the same functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from itertools import count
from typing import Any

import numpy as np

from sparkflow.data import counts
from sparkflow.data.elements import Spec, check_whole
from sparkflow.data.lasting import Lasting
from sparkflow.data.options import Options
from sparkflow.framework.sparse_tensor import SparseTensor
from sparkflow_runtime.wire import dtypes


class Transformations:
    """The half of Dataset that is made of its other half. The `name`s are for TensorFlow's sake."""

    _spec: Spec
    _count: Any
    _new: Any
    _options: Options | None = None

    # ------------------------------------------------------------------ order and number

    def enumerate(self, start: int = 0, name: str | None = None) -> Any:
        """Pairs of a number, from `start` on, and an element."""
        check_whole(start)
        spec = Spec((0, self._spec.like), (dtypes.int64, *self._spec.types), ((), *self._spec.dims))

        def numbered(rows: Any) -> Any:
            numbers = count(start)
            return Lasting(lambda: ([np.int64(i), *row] for i, row in zip(numbers, rows)))

        return self._new(numbered, spec, counts.same)

    def unbatch(self, name: str | None = None) -> Any:
        """The rows of each element in turn. Raises ValueError on a scalar component, TypeError on a SparseTensor."""
        self._spec.check_plain("unbatch")
        if any(d == () for d in self._spec.dims):
            raise ValueError("Cannot unbatch an input with scalar components.")
        known = {d[0] for d in self._spec.dims if d is not None and d[0] is not None}
        spec = self._spec.with_dims(lambda d: None if d is None else d[1:])
        return self._new(
            lambda rows: Lasting(lambda: (list(part) for row in rows for part in zip(*row, strict=True))),
            spec,
            lambda number: number if number < 0 else number * min(known) if known else counts.UNKNOWN,
        )

    def rebatch(self, batch_size: int, drop_remainder: bool = False, name: str | None = None) -> Any:
        """The rows of the elements in batches of another size."""
        return self.unbatch().batch(batch_size, drop_remainder)

    def ragged_batch(
        self, batch_size: Any, drop_remainder: bool = False, row_splits_dtype: Any = dtypes.int64,
        name: str | None = None,
    ) -> Any:  # fmt: skip
        """As batch, arrays of no fixed size as RaggedTensors: data.experimental.dense_to_ragged_batch."""
        from sparkflow.data.ragged_batches import dense_to_ragged_batch

        return dense_to_ragged_batch(batch_size, drop_remainder, row_splits_dtype)(self)

    def snapshot(
        self, path: Any, compression: str | None = "AUTO", reader_func: Any = None, shard_func: Any = None,
        name: str | None = None,
    ) -> Any:  # fmt: skip
        """The same elements, kept in a folder: data.experimental.snapshot."""
        from sparkflow.data.snapshots import snapshot

        return snapshot(path, compression, reader_func, shard_func)(self)  # type: ignore[arg-type]

    @staticmethod
    def from_sparse_tensor_slices(sparse_tensor: Any) -> Any:
        """Of each row of a SparseTensor its (indices, values, dense_shape)."""
        from sparkflow.data.dataset import Dataset

        if not isinstance(sparse_tensor, SparseTensor):
            raise TypeError(f"`sparse_tensor` must be a SparseTensor, got {sparse_tensor!r}")
        rows = Dataset.from_tensor_slices(sparse_tensor)
        return rows._new(lambda made: made, rows._spec._replace(like=(0, 0, 0)), counts.same)

    def take_while(self, predicate: Callable[..., Any], name: str | None = None) -> Any:
        """The elements before the first for which the predicate is false."""
        from sparkflow.data.grouping import take_while

        return take_while(predicate)(self)  # type: ignore[arg-type]

    def unique(self, name: str | None = None) -> Any:
        """Each element once. Raises TypeError unless the elements are single integers or strings."""
        from sparkflow.data.grouping import unique

        return unique()(self)  # type: ignore[arg-type]

    def ignore_errors(self, log_warning: bool = False, name: str | None = None) -> Any:
        """Without the elements that fail when they are made: data.experimental.ignore_errors."""
        from sparkflow.data.grouping import ignore_errors

        return ignore_errors(log_warning)(self)  # type: ignore[arg-type]

    def rejection_resample(
        self, class_func: Callable[..., Any], target_dist: Any, initial_dist: Any = None, seed: int | None = None,
        name: str | None = None,
    ) -> Any:  # fmt: skip
        """Pairs (class, element) of some elements, whose classes are distributed as target_dist says."""
        from sparkflow.data.resampling import rejection_resample

        return rejection_resample(class_func, target_dist, initial_dist, seed)(self)  # type: ignore[arg-type]

    def with_options(self, options: Any, name: str | None = None) -> Any:
        """The same: options say how fast, not what."""
        made = copy(self)
        made._options = self.options().merge(options)
        return made

    def options(self) -> Any:
        """What with_options was told of this very dataset."""
        return self._options if self._options is not None else Options()

    # ------------------------------------------------------------------ groups

    def group_by_window(
        self, key_func: Callable[..., Any], reduce_func: Callable[[Any, Any], Any], window_size: int | None = None,
        window_size_func: Callable[[Any], Any] | None = None, name: str | None = None,
    ) -> Any:  # fmt: skip
        """reduce_func(key, a dataset of window_size elements of that key), one after the other."""
        from sparkflow.data.grouping import group_by_window

        return group_by_window(key_func, reduce_func, window_size, window_size_func)(self)  # type: ignore[arg-type]

    def bucket_by_sequence_length(
        self, element_length_func: Callable[..., Any], bucket_boundaries: Sequence[int],
        bucket_batch_sizes: Sequence[int], padded_shapes: Any = None, padding_values: Any = None,
        pad_to_bucket_boundary: bool = False, no_padding: bool = False, drop_remainder: bool = False,
        name: str | None = None,
    ) -> Any:  # fmt: skip
        """Padded batches of elements of similar length: data.experimental.bucket_by_sequence_length."""
        from sparkflow.data.grouping import bucket_by_sequence_length

        return bucket_by_sequence_length(
            element_length_func, bucket_boundaries, bucket_batch_sizes, padded_shapes, padding_values,
            pad_to_bucket_boundary, no_padding, drop_remainder,
        )(self)  # type: ignore[arg-type]  # fmt: skip

    def sparse_batch(self, batch_size: int, row_shape: Any, name: str | None = None) -> Any:
        """Batches of tensors of different sizes as SparseTensors: data.experimental.dense_to_sparse_batch."""
        from sparkflow.data.sparse_batches import dense_to_sparse_batch

        return dense_to_sparse_batch(batch_size, row_shape)(self)  # type: ignore[arg-type]

    def window(
        self, size: int, shift: int | None = None, stride: int = 1, drop_remainder: bool = False,
        name: str | None = None,
    ) -> Any:  # fmt: skip
        """Datasets of `size` elements each, for flat_map: see windows.py."""
        from sparkflow.data.windows import Windows

        return Windows(self, size, shift, stride, drop_remainder)  # type: ignore[arg-type]

    # ------------------------------------------------------------------ states

    def scan(self, initial_state: Any, scan_func: Callable[..., Any], name: str | None = None) -> Any:
        """scan_func(state, element) gives (the next state, an element of what comes out)."""
        from sparkflow.data.grouping import scan

        return scan(initial_state, scan_func)(self)  # type: ignore[arg-type]

    def reduce(self, initial_state: Any, reduce_func: Callable[[Any, Any], Any], name: str | None = None) -> Any:
        """The last state, as tensors: reduce_func(state, element) gives the next one. When it runs, all elements are
        gone through."""
        from sparkflow.data.grouping import reduced

        return reduced(self, initial_state, reduce_func)  # type: ignore[arg-type]

    # ------------------------------------------------------------------ several of them, and none

    @staticmethod
    def sample_from_datasets(
        datasets: Sequence[Any], weights: Any = None, seed: int | None = None, stop_on_empty_dataset: bool = False,
        rerandomize_each_iteration: bool | None = None,
    ) -> Any:  # fmt: skip
        """Elements of the datasets, each from one drawn: data.experimental.sample_from_datasets."""
        from sparkflow.data.grouping import sample_from_datasets

        return sample_from_datasets(datasets, weights, seed, stop_on_empty_dataset)

    @staticmethod
    def choose_from_datasets(datasets: Sequence[Any], choice_dataset: Any, stop_on_empty_dataset: bool = True) -> Any:
        """Elements of the datasets, each from the one whose number choice_dataset gives."""
        from sparkflow.data.grouping import choose_from_datasets

        return choose_from_datasets(datasets, choice_dataset, stop_on_empty_dataset)

    @staticmethod
    def counter(start: int = 0, step: int = 1, dtype: Any = dtypes.int64, name: str | None = None) -> Any:
        """start, start + step, ... without end."""
        from sparkflow.data.experimental import Counter

        return Counter(start, step, dtype)

    @staticmethod
    def random(seed: int | None = None, rerandomize_each_iteration: bool | None = None, name: str | None = None) -> Any:
        """Random int64 numbers in [0, 2^32) without end."""
        from sparkflow.data.resampling import RandomDataset

        return RandomDataset(seed, rerandomize_each_iteration)

    # ------------------------------------------------------------------ looking at it

    def __iter__(self) -> Any:
        raise RuntimeError(
            "A tf.data.Dataset is iterated in the graph: run what dataset.make_one_shot_iterator().get_next() gives "
            "until tf.errors.OutOfRangeError"
        )

    def cardinality(self, name: str | None = None) -> Any:
        """How many elements there are, an int64 tensor: -1 for no end, -2 where only going through them tells."""
        from sparkflow.data.grouping import cardinality

        return cardinality(self)  # type: ignore[arg-type]

    def get_single_element(self, name: str | None = None) -> Any:
        """The one element, as tensors. When they run: InvalidArgumentError where there is none, or another."""
        from sparkflow.data.grouping import get_single_element

        return get_single_element(self)  # type: ignore[arg-type]

    @property
    def element_spec(self) -> Any:
        """A TensorSpec or SparseTensorSpec for each component."""
        return self._spec.described_as_specs
