"""tf.contrib.learn.io: rows of files, of generators, pandas and Dask as inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sparkflow import train
from sparkflow.data import Dataset
from sparkflow.estimator import inputs
from sparkflow.io import gfile
from sparkflow.ops.parsing import parse_example
from sparkflow.ops.readers import TFRecordReader

__all__ = [
    "extract_dask_data", "extract_dask_labels", "extract_pandas_data", "extract_pandas_labels", "extract_pandas_matrix",
    "generator_input_fn", "numpy_input_fn", "pandas_input_fn", "read_batch_examples", "read_batch_features",
    "read_batch_record_features", "read_keyed_batch_examples",
]  # fmt: skip

# ---------------------------------------------------------------------- arrays


def numpy_input_fn(
    x: Any, y: Any = None, batch_size: int = 128, num_epochs: int | None = 1, shuffle: bool = True,
    queue_capacity: int = 1000, num_threads: int = 1,
) -> Callable[[], Any]:  # fmt: skip
    """tf.estimator.inputs' one, which must be told whether to shuffle; this one shuffles."""
    return inputs.numpy_input_fn(x, y, batch_size, num_epochs, shuffle, queue_capacity, num_threads)


def pandas_input_fn(
    x: Any, y: Any = None, batch_size: int = 128, num_epochs: int | None = 1, shuffle: bool = True,
    queue_capacity: int = 1000, num_threads: int = 1, target_column: str = "target",
) -> Callable[[], Any]:  # fmt: skip
    """As numpy_input_fn, of a DataFrame."""
    return inputs.pandas_input_fn(x, y, batch_size, num_epochs, shuffle, queue_capacity, num_threads, target_column)


# ---------------------------------------------------------------------- files


def read_batch_examples(
    file_pattern: Any, batch_size: int, reader: Callable[[], Any], randomize_input: bool = True,
    num_epochs: int | None = None, queue_capacity: int = 10000, num_threads: int = 1, read_batch_size: int = 1,
    parse_fn: Callable[[Any], Any] | None = None, name: str | None = None, seed: int | None = None,
) -> Any:  # fmt: skip
    """Strings [batch_size], the records of files, through a queue: the last batch of num_epochs may be smaller.

    file_pattern: a pattern or a list of files. randomize_input: files and records come in a random order.
    read_batch_size: records taken from a file at once. parse_fn: of a record, or of [n] where read_batch_size is above
    1. Raises ValueError where no file matches, and where the queue has no room for a batch and one record more.
    """
    return read_keyed_batch_examples(
        file_pattern, batch_size, reader, randomize_input, num_epochs, queue_capacity, num_threads, read_batch_size,
        parse_fn, name, seed,
    )[1]  # fmt: skip


def read_keyed_batch_examples(
    file_pattern: Any, batch_size: int, reader: Callable[[], Any], randomize_input: bool = True,
    num_epochs: int | None = None, queue_capacity: int = 10000, num_threads: int = 1, read_batch_size: int = 1,
    parse_fn: Callable[[Any], Any] | None = None, name: str | None = None, seed: int | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """(keys, examples) as `read_batch_examples`; a key says file and place."""
    if not batch_size or batch_size < 1 or queue_capacity <= batch_size:
        raise ValueError(f"Invalid batch_size {batch_size}, with queue_capacity {queue_capacity}.")
    if read_batch_size < 1 or num_threads < 1:
        raise ValueError(f"Invalid read_batch_size {read_batch_size} or num_threads {num_threads}: they are 1 or more")
    files = train.string_input_producer(_files(file_pattern), num_epochs, randomize_input, seed, name=name)
    many = read_batch_size > 1

    def one() -> tuple[Any, Any]:
        source = reader()
        key, value = source.read_up_to(files, read_batch_size) if many else source.read(files)
        return key, value if parse_fn is None else parse_fn(value)

    sources = [one() for _ in range(num_threads)]
    smaller = num_epochs is not None
    if randomize_input:
        kept = max(queue_capacity - 3 * batch_size, batch_size)
        shuffled = train.shuffle_batch_join(
            sources, batch_size, queue_capacity, kept, seed, many, allow_smaller_final_batch=smaller
        )
        return tuple(shuffled)
    return tuple(train.batch_join(sources, batch_size, queue_capacity, many, allow_smaller_final_batch=smaller))


def read_batch_features(
    file_pattern: Any, batch_size: int, features: Mapping[str, Any], reader: Callable[[], Any],
    randomize_input: bool = True, num_epochs: int | None = None, queue_capacity: int = 10000,
    feature_queue_capacity: int = 100, reader_num_threads: int = 1, num_enqueue_threads: int = 2,
    parse_fn: Callable[[Any], Any] | None = None, name: str | None = None, read_batch_size: int | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Tensors and SparseTensors by name, of tf.train.Examples in files, parsed batch by batch. The arguments are those
    of read_batch_examples; features: as parse_example takes them."""
    serialized = read_batch_examples(
        file_pattern, batch_size, reader, randomize_input, num_epochs, queue_capacity, reader_num_threads,
        read_batch_size or min(batch_size, 32), parse_fn, name,
    )  # fmt: skip
    return dict(parse_example(serialized, features))


def read_batch_record_features(
    file_pattern: Any, batch_size: int, features: Mapping[str, Any], randomize_input: bool = True,
    num_epochs: int | None = None, queue_capacity: int = 10000, reader_num_threads: int = 1, name: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """`read_batch_features` of TFRecord files."""
    return read_batch_features(
        file_pattern, batch_size, features, TFRecordReader, randomize_input, num_epochs, queue_capacity,
        reader_num_threads=reader_num_threads, name=name,
    )  # fmt: skip


def _files(pattern: Any) -> list[str]:
    found = [name for one in ([pattern] if isinstance(pattern, str) else pattern) for name in sorted(gfile.glob(one))]
    if not found:
        raise ValueError(f"No files match {pattern}.")
    return found


# ---------------------------------------------------------------------- generators


def generator_input_fn(
    x: Callable[[], Any], target_key: str | Sequence[str] | None = None, batch_size: int = 128,
    num_epochs: int | None = 1, shuffle: bool = True, queue_capacity: int = 1000, num_threads: int = 1,
) -> Callable[[], Any]:  # fmt: skip
    """An input_fn of a function that makes a generator of dicts of arrays, one an example: (features, labels) where
    target_key says which are the labels, features alone otherwise.

    Raises TypeError where x is no such function, ValueError where target_key is neither a string nor a list of them,
    KeyError where an example has it not.
    """
    if not callable(x):
        raise TypeError(f"x must be generator function; got {type(x).__name__}")
    if target_key is not None and not isinstance(target_key, (str, list, tuple)):
        raise ValueError(f"target_key must be string or list or tuple of strings; got {target_key!r}")
    targets = [] if target_key is None else [target_key] if isinstance(target_key, str) else list(target_key)

    def input_fn() -> Any:
        first = next(iter(x()), None)
        if not isinstance(first, Mapping):
            raise TypeError(f"data yielded by generator x must be dict of examples; got {type(first).__name__}")
        if missing := [key for key in targets if key not in first]:
            raise KeyError(f"target_key {missing[0]!r} is not in what the generator yields: {sorted(first)}")
        arrays = {key: np.asarray(value) for key, value in first.items()}
        kinds = {key: "string" if a.dtype.kind in "OSU" else a.dtype for key, a in arrays.items()}
        rows = Dataset.from_generator(x, kinds, {key: a.shape for key, a in arrays.items()})
        rows = rows.shuffle(queue_capacity) if shuffle else rows
        features = dict(rows.repeat(num_epochs).batch(batch_size).make_one_shot_iterator().get_next())
        labels = {key: features.pop(key) for key in targets}
        if target_key is None:
            return features
        return features, labels[target_key] if isinstance(target_key, str) else labels

    return input_fn


# ---------------------------------------------------------------------- pandas, Dask


def extract_pandas_data(data: Any) -> Any:
    """The values of a DataFrame; what is none comes back as it is. Raises ValueError on columns that are no numbers."""
    return _values(data, "data") if _is(data, "pandas", "DataFrame") else data


def extract_pandas_matrix(data: Any) -> Any:
    return data.to_numpy() if _is(data, "pandas", "DataFrame") else data


def extract_pandas_labels(labels: Any) -> Any:
    """The values of a DataFrame of one column, or of a Series, as in a column."""
    if _is(labels, "pandas", "Series"):
        return labels.to_numpy()
    if not _is(labels, "pandas", "DataFrame"):
        return labels
    _check_alone(labels)
    return _values(labels, "labels")


def extract_dask_data(data: Any) -> Any:
    """A Dask DataFrame or Series computed, as numpy; what is none comes back as it is."""
    return data.compute().to_numpy() if _is(data, "dask", "DataFrame", "Series") else data


def extract_dask_labels(labels: Any) -> Any:
    """As extract_dask_data, of one column. Raises ValueError where there are several."""
    if _is(labels, "dask", "DataFrame"):
        _check_alone(labels)
    return extract_dask_data(labels)


def _is(data: Any, library: str, *kinds: str) -> bool:
    """Without importing it."""
    return any(t.__name__ in kinds and t.__module__.split(".")[0].startswith(library) for t in type(data).__mro__)


def _check_alone(labels: Any) -> None:
    if len(labels.columns) > 1:
        raise ValueError(f"Only one column for labels is allowed, got {list(labels.columns)}.")


def _values(frame: Any, what: str) -> np.ndarray:
    wrong = [f"{name!r} type={kind}" for name, kind in frame.dtypes.items() if kind.kind not in "biuf"]
    if wrong:
        kinds = "must be int, float, or bool"
        raise ValueError(f"Data types for extracting pandas {what} {kinds}, got {', '.join(wrong)}.")
    values = frame.to_numpy()
    return np.asarray(values, np.float32 if values.dtype.kind in "fO" else None)
