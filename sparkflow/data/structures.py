"""What describes the elements of datasets, by the names of TensorFlow 1.15 too; and datasets of a given length."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sparkflow.data.dataset import Dataset
from sparkflow.framework import nest
from sparkflow.framework.apply import constant
from sparkflow.framework.tensor_spec import SparseTensorSpec, TensorSpec, TypeSpec
from sparkflow.type_specs import DatasetSpec, OptionalSpec, RaggedTensorSpec, TensorArraySpec
from sparkflow_runtime.wire import dtypes

Structure, OptionalStructure, DatasetStructure = TypeSpec, OptionalSpec, DatasetSpec


def TensorStructure(dtype: Any, shape: Any) -> TensorSpec:
    return TensorSpec(shape, dtype)


def SparseTensorStructure(dtype: Any, shape: Any) -> SparseTensorSpec:
    return SparseTensorSpec(shape, dtype)


def RaggedTensorStructure(dtype: Any, shape: Any, ragged_rank: int) -> RaggedTensorSpec:
    return RaggedTensorSpec(shape, dtype, ragged_rank)


def TensorArrayStructure(dtype: Any, element_shape: Any, dynamic_size: bool, infer_shape: bool) -> TensorArraySpec:
    return TensorArraySpec(element_shape, dtype, dynamic_size, infer_shape)


def get_structure(dataset_or_iterator: Any) -> Any:
    """A spec for each component of an element. Raises TypeError on what is neither a dataset nor an iterator."""
    if not hasattr(dataset_or_iterator, "element_spec"):
        raise TypeError(f"Invalid `dataset_or_iterator`: must be a Dataset or an Iterator, got {dataset_or_iterator!r}")
    return dataset_or_iterator.element_spec


def pad_to_cardinality(cardinality: int, mask_key: str = "valid") -> Callable[[Dataset], Dataset]:
    """For Dataset.apply: dicts, with `mask_key` true; and zeros, with it false, up to so many elements.

    Raises ValueError where the elements are no dicts of tensors of known shape, too many, or nobody knows how many.
    """

    def made(dataset: Dataset) -> Dataset:
        like = dataset.element_spec
        if not isinstance(like, Mapping):
            raise ValueError(f"`pad_to_cardinality` requires its input dataset to be a dictionary. Got {like!r}.")
        count = int(dataset._count({}))
        if count < 0:
            raise ValueError(f"The dataset passed into `pad_to_cardinality` must have a known number, got {dataset!r}")
        if count > cardinality:
            raise ValueError(f"The dataset has {count} elements, and pad_to_cardinality was asked for {cardinality}")
        if any(not isinstance(s, TensorSpec) or not s.shape.is_fully_defined() for s in nest.flatten(like)):
            raise ValueError(f"pad_to_cardinality: zeros need elements of known shapes, got {like!r}")
        zeros = nest.map_structure(_zeros, like)
        filling = Dataset.from_tensors({**zeros, mask_key: np.False_}).repeat(cardinality - count)
        return dataset.map(lambda element: {**element, mask_key: constant(True)}).concatenate(filling)

    return made


def _zeros(spec: TensorSpec) -> Any:
    kind: Any = object if spec.dtype is dtypes.string else spec.dtype.np
    found = np.zeros([d or 0 for d in spec.shape.as_list()], kind)
    return np.full(found.shape, b"", object) if kind is object else found
