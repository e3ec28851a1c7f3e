"""What models are fed: arrays by input and output, and sources that give them batch by batch: arrays that are shuffled,
generators and Sequences, datasets and tensors that a session runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from sparkflow import logging
from sparkflow.data.dataset import Dataset
from sparkflow.data.iterator import Iterator as DataIterator
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.keras import backend, utils
from sparkflow_runtime.wire.errors import OutOfRangeError

Batch = tuple[list[np.ndarray], list[np.ndarray], list[Any]]  # inputs, targets, weights or None


def arrays(data: Any, names: Sequence[str], what: str, size: Any = None) -> list[Any]:
    """One array a name, of an array, a list, a dictionary by names, or a table. Raises ValueError where they differ.

    size: of the one that there is, batch included, where it is known: a list of one list may be a row of it."""
    if data is None:
        return []
    if isinstance(data, dict):
        missing = [n for n in names if n not in data]
        if missing:
            raise ValueError(f"No data provided for {missing}. Need data for each {what}: {list(names)}")
        found = [data[n] for n in names]
    elif not isinstance(data, (list, tuple)) or (len(names) == 1 and data and _is_one(data, size)):
        found = [data]
    else:
        found = list(data)
    if len(found) != len(names):
        raise ValueError(
            f"Error when checking model {what}: the list of arrays that you are passing to your model is not the size "
            f"the model expected. Expected to see {len(names)} array(s), for {what}s {list(names)}, got {len(found)}"
        )
    return [as_array(v, name, what) for v, name in zip(found, names)]


def _is_one(data: Sequence[Any], size: Any) -> bool:
    """Whether a list is the rows of one array: more than one list, say, or one that is as long as a row."""
    first = data[0]
    if np.isscalar(first):
        return True
    if len(data) != 1 or not isinstance(first, (list, tuple)):
        return len(data) != 1 and (isinstance(first, (list, tuple)) or np.ndim(first) == 1)
    found = np.shape(np.array(data, object))
    return size is not None and len(found) == len(size) and all(d in (None, n) for d, n in zip(size[1:], found[1:]))


def is_written_out(data: Any) -> bool:
    """Whether it is one array for a model that was never told how many it takes: numbers, or rows of them as lists."""
    while isinstance(data, (list, tuple)) and len(data):
        data = data[0]
        if np.isscalar(data):
            return True
    return False


def as_array(value: Any, name: str, what: str) -> np.ndarray:
    try:
        return np.asarray(getattr(value, "values", value) if hasattr(value, "iloc") else value)
    except ValueError as error:
        raise ValueError(
            f"Error when checking {what}: {name} got rows that are no array, such as lists of different lengths: "
            f"{error} tf.keras.preprocessing.sequence.pad_sequences makes them alike"
        ) from None


def fitted(found: list[Any], tensors: Sequence[Any], names: Sequence[str], what: str) -> list[np.ndarray]:
    """Arrays [n] as [n, 1] where a tensor has two axes. Raises ValueError where a size is another."""
    out = []
    for value, x, name in zip(found, tensors, names):
        size = backend.int_shape(x)
        if size is not None and value.ndim == 1 and len(size) != 1:
            value = value[:, None]
        if size is not None and (
            value.ndim != len(size) or any(d is not None and d != v for d, v in zip(size[1:], value.shape[1:]))
        ):
            raise ValueError(
                f"Error when checking {what}: expected {name} to have shape {size[1:]} ({len(size)} dimensions with "
                f"the batch) but got array with shape {value.shape}"
            )
        out.append(value)
    return out


def weights_of_classes(class_weight: Any, target: np.ndarray) -> np.ndarray:
    """One for each example. Raises ValueError where a class has none."""
    classes = target
    if target.ndim == 2:
        classes = target.argmax(1) if target.shape[1] > 1 else target[:, 0]
    elif target.ndim > 2:
        raise ValueError(f"`class_weight` not supported for 3+ dimensional targets, got shape {target.shape}")
    lacking = sorted({c for c in np.unique(classes).tolist() if c not in class_weight})
    if lacking:
        raise ValueError(
            f"`class_weight` must contain all classes in the data. The classes {lacking} exist in the data but not in "
            "`class_weight`"
        )
    return np.array([class_weight[c] for c in classes.tolist()], np.float32)


def batch_of(
    model: Any, x: Any, y: Any = None, sample_weight: Any = None, class_weight: Any = None, targets: bool = True
) -> Batch:
    """As the model takes it. Raises ValueError where counts of examples differ."""
    model._know_inputs(x)
    tensors, names = model._input_tensors(), model._input_names()
    size = backend.int_shape(tensors[0]) if len(tensors) == 1 else None
    inputs = fitted(arrays(x, names, "input", size), tensors, names, "input")
    wanted: list[np.ndarray] = []
    weights: list[Any] = []
    if targets:
        fed = model._compiled.fed
        names = [o.name for o in fed]
        if y is None and fed:
            raise ValueError(f"You must compare outputs {names} with targets: give y")
        wanted = arrays(y, names, "output", fed[0].size) if fed else []
        wanted = [v[:, None] if v.ndim == 1 and o.size is not None and len(o.size) != 1 else v
                  for v, o in zip(wanted, fed)]  # fmt: skip
        for target, output in zip(wanted, fed):
            output.check(target)
        weights = _by_output(sample_weight, names, len(fed), wanted)
        if class_weight:
            several = isinstance(class_weight, (list, tuple)) or set(class_weight) <= set(names)
            by_output = _by_output(class_weight, names, len(fed), wanted) if several else [class_weight] * len(fed)
            for i, (of_classes, target) in enumerate(zip(by_output, wanted)):
                if of_classes:
                    more = weights_of_classes(of_classes, target)
                    weights[i] = more if weights[i] is None else weights[i] * more
    counts = {len(v) for v in (*inputs, *wanted, *(w for w in weights if w is not None))}
    if len(counts) > 1:
        raise ValueError(
            f"All input arrays (x) and target arrays (y) should have the same number of samples, got {sorted(counts)}"
        )
    return inputs, wanted, weights


def _by_output(given: Any, names: Sequence[str], count: int, wanted: list[np.ndarray]) -> list[Any]:
    if given is None:
        return [None] * count
    if isinstance(given, dict) and set(given) <= set(names):
        return [_array(given.get(n)) for n in names]
    if isinstance(given, (list, tuple)) and not np.isscalar(given[0]):
        if len(given) != count:
            raise ValueError(f"Provided a list of {len(given)} weights, the model has {count} outputs: {list(names)}")
        return [_array(g) for g in given]
    return [_array(given)] + [None] * (count - 1)


def _array(value: Any) -> Any:
    return value if value is None or isinstance(value, dict) else np.asarray(getattr(value, "values", value))


# ---------------------------------------------------------------------- sources


class Arrays:
    """Examples that are all there. shuffle: in a new order each epoch, or whole batches in one ("batch"). steps: that
    many times all of them at once instead, as Keras understands steps_per_epoch of arrays."""

    def __init__(self, parts: Batch, batch_size: int, shuffle: Any = False, steps: int | None = None):
        self.parts, self.batch_size, self.shuffle, self.times = parts, batch_size, shuffle, steps
        self.count = len(parts[0][0]) if parts[0] else 0
        self.steps: int | None = -(-self.count // batch_size) if steps is None else steps
        self.with_weights = [w is not None for w in parts[2]]

    def epoch(self) -> Iterator[tuple[int, Batch]]:
        """How many examples, and the batch."""
        if self.times is not None:
            for _ in range(self.times):
                yield self.count, self.parts
            return
        order = np.arange(self.count)
        if self.shuffle == "batch":
            whole = self.count // self.batch_size * self.batch_size
            blocks = order[:whole].reshape(-1, self.batch_size)
            np.random.shuffle(blocks)
            order = np.append(blocks.reshape(-1), order[whole:])
        elif self.shuffle:
            np.random.shuffle(order)
        for at in range(0, self.count, self.batch_size):
            rows = order[at : at + self.batch_size]
            take = slice(rows[0], rows[-1] + 1) if not self.shuffle else rows
            x, y, w = self.parts
            yield len(rows), ([v[take] for v in x], [v[take] for v in y], [None if v is None else v[take] for v in w])


class Given:
    """Batches that come one by one: of a generator, a Sequence, a dataset, or tensors. steps: how many are an epoch."""

    count = None

    def __init__(self, model: Any, data: Any, steps: int | None, class_weight: Any = None, targets: bool = True):
        self.model, self.class_weight, self.targets, self.steps = model, class_weight, targets, steps
        self.data: Any = data
        self.rows: Iterator[Any] | None = None
        self.is_sequence = isinstance(data, utils.Sequence)
        if self.is_sequence and steps is None:
            self.steps = len(data)
        self.again, self.restarts = isinstance(data, Dataset), False  # restarts: with each epoch, as validation does
        if not self.is_sequence and not self.again and steps is None and not isinstance(data, DataIterator):
            raise ValueError(
                "When using generators or tensors, say how many steps an epoch has (steps_per_epoch, steps)"
            )

    def epoch(self) -> Iterator[tuple[int, Batch]]:
        if self.is_sequence:
            for i in range(self.steps or 0):
                yield self._batch(self.data[i % len(self.data)])
            self.data.on_epoch_end()
            return
        if self.rows is None or (self.again and (self.steps is None or self.restarts)):
            self.rows = _rows(self.data)
        taken = 0
        while self.steps is None or taken < self.steps:
            item = next(self.rows, None)
            if item is None:
                if self.steps is not None:
                    _short(taken, self.steps)
                    self.model.stop_training = True
                return
            taken += 1
            yield self._batch(item)

    def _batch(self, item: Any) -> tuple[int, Batch]:
        parts = item if isinstance(item, tuple) else (item,)
        x = parts[0]
        y, w = (parts[1] if len(parts) > 1 else None), (parts[2] if len(parts) > 2 else None)
        batch = batch_of(self.model, x, y, w, self.class_weight, self.targets)
        return len(batch[0][0]) if batch[0] else 0, batch


def _short(taken: int, steps: int) -> None:
    logging.warning(
        "Your dataset ran out of data after %d of %d batches; interrupting training. Give more of them, as by "
        "repeat()", taken, steps,
    )  # fmt: skip


def _rows(data: Any) -> Iterator[Any]:
    """What a dataset, an iterator of one, tensors or a generator gives."""
    if isinstance(data, Dataset):
        yield from _elements_of(data)
    elif isinstance(data, DataIterator):
        yield from _run(data.get_next())
    elif isinstance(data, tuple) and any(isinstance(t, Tensor) for t in _flat(data)):
        yield from _run(data)
    else:
        yield from data


def _elements_of(data: Dataset) -> Iterator[Any]:
    """From its beginning. An iterator that nobody runs any more is taken again: the graph does not grow with epochs."""
    free = get_default_graph().extra.setdefault("keras_iterators", {}).setdefault(data, [])
    if free:
        initializer, elements = free.pop()
    else:
        iterator = data.make_initializable_iterator()
        initializer, elements = iterator.initializer, iterator.get_next()
    try:
        backend.get_session().run(initializer)
        yield from _run(elements)
    finally:
        free.append((initializer, elements))


def _run(elements: Any) -> Iterator[Any]:
    call = None
    while True:
        if call is None:
            kept = [t for t in _flat(elements) if t is not None]
            call = backend.get_session().make_callable(kept)
        try:
            values = iter(call())
        except OutOfRangeError:
            return
        yield _packed(elements, values)


def _flat(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [v for key in value for v in _flat(value[key])]
    if isinstance(value, (list, tuple)):
        return [v for item in value for v in _flat(item)]
    return [value]


def _packed(like: Any, values: Iterator[Any]) -> Any:
    if isinstance(like, dict):
        return {key: _packed(like[key], values) for key in like}
    if isinstance(like, (list, tuple)):
        return tuple(_packed(item, values) for item in like) if isinstance(like, tuple) else [
            _packed(item, values) for item in like
        ]  # fmt: skip
    return None if like is None else next(values)


def holds_tensors(data: Any) -> bool:
    return any(isinstance(t, Tensor) for t in _flat(data))


def comes_in_batches(data: Any) -> bool:
    """Whether it gives batches itself."""
    if isinstance(data, (Dataset, DataIterator, utils.Sequence)):
        return True
    return hasattr(data, "__next__") or holds_tensors(data)
