"""tf.data: rows from arrays, files and generators, one after the other.

A dataset runs in the process that made it, as py_func does: its transformations are Python, the functions given to
map, filter and flat_map are graphs of their own. What they take from the model's graph has the value that it has when
the iterator is initialized; look-up tables that are filled once are copied.
"""

from sparkflow.data import experimental
from sparkflow.data.ahead import AUTOTUNE
from sparkflow.data.counts import INFINITE as INFINITE_CARDINALITY
from sparkflow.data.counts import UNKNOWN as UNKNOWN_CARDINALITY
from sparkflow.data.dataset import Dataset
from sparkflow.data.iterator import Iterator
from sparkflow.data.options import Options, ThreadingOptions
from sparkflow.data.sources import FixedLengthRecordDataset, TextLineDataset, TFRecordDataset

DatasetSpec = experimental.DatasetStructure


def make_one_shot_iterator(dataset: Dataset) -> Iterator:
    return dataset.make_one_shot_iterator()


def make_initializable_iterator(dataset: Dataset, shared_name: str | None = None) -> Iterator:
    return dataset.make_initializable_iterator(shared_name)


def get_output_types(dataset_or_iterator: Dataset | Iterator) -> object:
    return dataset_or_iterator.output_types


def get_output_classes(dataset_or_iterator: Dataset | Iterator) -> object:
    return dataset_or_iterator.output_classes


def get_output_shapes(dataset_or_iterator: Dataset | Iterator) -> object:
    return dataset_or_iterator.output_shapes
