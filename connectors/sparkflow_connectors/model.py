"""Model: what a training leaves. It scores tables of every kind the connectors know, and needs no training code."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa

import sparkflow as tf
from sparkflow_connectors.graphs import PredictionGraph
from sparkflow_connectors.predictions import arrow_type, column
from sparkflow_connectors.schema import Columns, arrays, check_batch, check_names, resolve
from sparkflow_runtime.wire.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError
from sparkflow_runtime.wire.protos import GraphDef

ROWS = 16384  # scored at once, at the most
_AT_ONCE_BYTES = 32 << 20  # what they are fed and give: what lies between, in a model of images, is many times that


@dataclass(frozen=True)
class Model:
    """A trained model.

    checkpoint: the prefix that its weights are read from (the best epoch's); every task that scores must see it.
    fingerprint: of that checkpoint; a model whose files were replaced by another training's refuses to score.
    figures: of the training: examples, train_s and examples_per_s of the last attempt, attempts, failures (why each
        but the last ended), cluster, history (of the epochs of all attempts), checkpoint (the last one).
    """

    graph: PredictionGraph
    columns: Columns
    checkpoint: str
    figures: dict[str, Any] = field(default_factory=dict)
    fingerprint: str = ""

    def __repr__(self) -> str:
        """What it reads and gives: what a notebook shows of it. Its graph alone may be megabytes."""
        read, given = ", ".join(self.columns.sources), ", ".join(f"{f.name}: {f.type}" for f in self.output_fields())
        return f"Model({self.checkpoint!r}: {read} -> {given})"

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        """What tells it from other models, for the names of Dask's tasks: faster than by all its fields."""
        return (type(self).__name__, *_Key(self).identity, repr(self.columns))

    def predict(self, data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Predictions for arrays by column name, in this process. Raises InvalidArgumentError where one is missing."""
        check_names(data, self.graph.inputs)
        return _scorer(_Key(self)).run(data)

    def transform(self, data: Any, fetches: Mapping[str, str] | Sequence[str] | None = None) -> Any:
        """The table with a column added for every prediction; its rows and other columns stay.

        data: a Spark or Dask DataFrame (lazily scored where its partitions are), a pandas DataFrame or an Arrow table.
        fetches: instead of the predictions, any tensors of the graph by name, see `fetching`.
        Raises InvalidArgumentError on a missing column, one of another type, or a name that is taken.
        """
        model = self if fetches is None else self.fetching(fetches)
        engines = {"pyspark": "spark", "dask": "dask", "dask_expr": "dask"}
        engine = next((engines[name] for name in packages_of(data) if name in engines), "local")
        return import_module(f"sparkflow_connectors.{engine}").transform(model, data)

    def fetching(self, fetches: Mapping[str, str] | Sequence[str]) -> Model:
        """The same model with other predictions: column -> tensor ("dense/Relu:0"; "dense/Relu" is its output 0), or
        names of predictions and tensors, which then name the columns.

        Raises InvalidArgumentError on a tensor that there is not, or that has not a row for each row of the table.
        """
        if isinstance(fetches, str) or not isinstance(fetches, Collection):
            fetches = [fetches]
        wanted = dict(fetches) if isinstance(fetches, Mapping) else {name: name for name in fetches}
        if not wanted:
            raise InvalidArgumentError("fetches is empty: name at least one prediction or tensor")
        if odd := [tensor for pair in wanted.items() for tensor in pair if not isinstance(tensor, str)]:
            raise InvalidArgumentError(
                f"fetches: expected names of predictions and tensors, got {odd[0]!r}. Of a tensor give its name"
            )
        graph = tf.Graph()
        with graph.as_default():
            tf.import_graph_def(GraphDef.FromString(self.graph.graph_def), name="")
        return replace(self, graph=self.graph.with_outputs({n: self._tensor(graph, t) for n, t in wanted.items()}))

    def _tensor(self, graph: Any, name: str) -> Any:
        full = self.graph.outputs.get(name, name if ":" in name else f"{name}:0")
        try:
            return graph.get_tensor_by_name(full)
        except (KeyError, ValueError) as error:
            raise InvalidArgumentError(
                f"The model has no tensor {full!r} ({error}); its predictions are {', '.join(self.graph.outputs)}"
            ) from None

    def save(self, path: str | os.PathLike[str]) -> str:
        """Write it into the folder `path` as a SavedModel that `load_model` makes this Model of; its full path. Raises
        AlreadyExistsError where there is such a folder, see saving.py."""
        return str(import_module("sparkflow_connectors.saving").save(self, path))

    def variables(self) -> dict[str, np.ndarray]:
        """The weights by name."""
        check_fingerprint(self)
        return {name: tf.train.load_variable(self.checkpoint, name) for name in self.graph.variables}

    def columns_of(self, schema: pa.Schema, some: Columns | None = None) -> Columns:
        """How a table of this schema is read. some: of the columns that the model reads, those that are in it.
        Raises InvalidArgumentError where it has not what the model reads."""
        sources = (self.columns if some is None else some).sources
        found = resolve(schema, [source.column for source in sources.values()], None) if sources else Columns({})
        for name, source in sources.items():
            now = found.sources[name]
            if source.unit and now.unit and now.unit != source.unit:
                raise InvalidArgumentError(
                    f"Column {name!r} has type {schema.field(name).type}, in {now.unit}, and the model was trained on "
                    f"{source.unit}. Cast the column first"
                )
            if now.tensors != source.tensors:
                wanted = " and ".join(f"{t.dtype.name}{_rows(t.shape)}" for t in source.tensors.values())
                raise InvalidArgumentError(
                    f"Column {name!r} has type {schema.field(name).type}, and the model reads {wanted}. Cast the "
                    f"column first, or say how it is read: Column({name!r}, cast=..., shape=...)"
                )
        return found

    def check(self, schema: pa.Schema) -> None:
        """Raises InvalidArgumentError when a table of this schema cannot be scored."""
        self.check_names(schema.names)
        self.columns_of(schema)

    def check_names(self, names: Iterable[str]) -> None:
        """Raises InvalidArgumentError when a table of these columns cannot be scored."""
        names = list(names)
        check_names(names, self.columns.sources)
        taken = [name for name in self.graph.outputs if name in names]
        if taken:
            raise InvalidArgumentError(
                f"The table already has a column {taken[0]!r}: drop or rename it before transform"
            )

    def output_fields(self) -> list[pa.Field]:
        graph = self.graph
        return [
            pa.field(name, arrow_type(name, graph.output_dtypes[name], graph.output_shapes[name]))
            for name in graph.outputs
        ]

    def score_all(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches with their predictions; `rows_at_once` are scored at once."""
        predictor, added, row = Predictor(self), self.output_fields(), 0
        columns, read, schema = self.columns, None, None
        for whole in batches:
            if whole.schema != read:
                columns, read = self.columns_of(whole.schema), whole.schema
                schema = pa.schema([*read, *added])
            scored = []
            for batch in parts(whole, predictor.rows):
                check_batch(batch, columns, row)
                scored.append(predictor(arrays(batch, columns, row), batch.num_rows))
                row += batch.num_rows
            for batch, new in _joined(whole, scored, predictor.rows):
                yield pa.RecordBatch.from_arrays([*batch.columns, *new], schema=schema)


class Predictor:
    """Scores rows by a model whose session this process keeps."""

    def __init__(self, model: Model):
        self._scorer, self._fields = _scorer(_Key(model)), model.output_fields()
        self.rows = rows_at_once(model)

    def run(self, tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The predictions as arrays."""
        return self._scorer.run(tensors)

    def __call__(self, tensors: Mapping[str, np.ndarray], rows: int) -> list[pa.Array]:
        """The predictions as columns. tensors: by name, see `Columns.tensors`."""
        values = self.run(tensors)
        return [column(f.name, _of_rows(f.name, values[f.name], rows), f.type) for f in self._fields]


def rows_at_once(model: Model) -> int:
    """How many rows are scored at once: fewer than `ROWS` where one is large, as images and their masks are."""
    graph = model.graph
    given = [(graph.output_dtypes[name], graph.output_shapes[name]) for name in graph.outputs]
    rows = [*((t.dtype, t.shape) for t in model.columns.tensors.values()), *given]
    row_bytes = sum(dtype.size * math.prod(n or 1 for n in shape) for dtype, shape in rows)
    return max(min(ROWS, _AT_ONCE_BYTES // max(row_bytes, 1)), 1)


def parts(batch: pa.RecordBatch, most: int = ROWS) -> Iterator[pa.RecordBatch]:
    """Few enough rows at a time that what a model computes of them stays small, and equally many: threads that score at
    once meet the less often. One part of an empty batch."""
    for part in cuts(batch.num_rows, most):
        yield batch.slice(part.start, part.stop - part.start)


def cuts(rows: int, most: int = ROWS) -> Iterator[slice]:
    """The parts of so many rows, as `parts` has them."""
    count = max(-(-rows // most), 1)
    size = -(-rows // count)
    for start in range(0, max(rows, 1), max(size, 1)):
        yield slice(start, min(start + size, rows))


def packages_of(data: Any) -> list[str]:
    """Those of its class and of what that derives from (GeoPandas has frames of its own), the first one's first."""
    return [kind.__module__.partition(".")[0] for kind in type(data).__mro__]


def _joined(
    whole: pa.RecordBatch, scored: Sequence[list[pa.Array]], most: int
) -> Iterable[tuple[pa.RecordBatch, Sequence[pa.Array]]]:
    """The batch with the predictions of its parts, or these parts where one array does not hold them: of texts it holds
    2 GiB, of lists 2**31 values."""
    try:
        return [(whole, [pa.concat_arrays(of_parts) for of_parts in zip(*scored, strict=True)])]
    except pa.ArrowInvalid:
        return zip(parts(whole, most), scored, strict=True)


def _rows(shape: Sequence[int | None]) -> str:
    return f"[{', '.join(['rows', *('?' if n is None else str(n) for n in shape)])}]"


def _of_rows(name: str, values: np.ndarray, rows: int) -> np.ndarray:
    if values.shape[:1] != (rows,):
        raise InvalidArgumentError(f"Prediction {name!r} has shape {list(values.shape)} for {rows} rows of the table")
    return values


def fingerprint(checkpoint: str) -> str:
    """What tells a checkpoint from another of the same name: a digest of its index, which holds the data's checksums.
    Raises NotFoundError where there is none."""
    path = checkpoint + ".index"
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()[:16]
    except FileNotFoundError:
        raise NotFoundError(
            f"No checkpoint {checkpoint!r}: {path} does not exist on this task. Every task must see that folder, and "
            "a training that went on there since has replaced it: score by that training's model"
        ) from None


def check_fingerprint(model: Model) -> None:
    if model.fingerprint and fingerprint(model.checkpoint) != model.fingerprint:
        raise FailedPreconditionError(
            f"Checkpoint {model.checkpoint} is not the one that this model was trained to: another training has "
            "replaced it. Use that training's model, or give each its own checkpoint_dir"
        )


class _Scorer:
    """A session with the model's graph and weights."""

    def __init__(self, model: Model):
        check_fingerprint(model)
        graph = tf.Graph()
        with graph.as_default():
            tf.import_graph_def(GraphDef.FromString(model.graph.graph_def), name="")
        self._session = tf.Session(graph=graph, config=tf.ConfigProto(allow_soft_placement=True))  # GPUs it may lack
        if model.graph.restore_op:
            self._session.run(model.graph.restore_op, {model.graph.filename_tensor: model.checkpoint})
        for op in model.graph.init_ops:
            self._session.run(graph.get_operation_by_name(op), model.graph.assets)
        names = model.graph.inputs
        self._columns, self._outputs = list(names), list(model.graph.outputs)
        self._call = self._session.make_callable(list(model.graph.outputs.values()), list(names.values()))

    def run(self, data: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return dict(zip(self._outputs, self._call(*(data[name] for name in self._columns)), strict=True))


class _Key:
    """Lets a Model stand in a cache by its graph and weights, so that a reused task process keeps its session."""

    def __init__(self, model: Model):
        self.model = model
        graph = model.graph
        weights = (model.checkpoint, model.fingerprint or (fingerprint(model.checkpoint) if graph.restore_op else ""))
        named = (graph.inputs, graph.outputs, graph.assets)
        read = tuple(map(_stamp, graph.assets.values()))  # a table's file may be another one of the same name by now
        self.identity = (*weights, graph.graph_def, *(tuple(names.items()) for names in named), read)

    def __hash__(self) -> int:
        return hash(self.identity)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other.identity == self.identity


def _stamp(path: str) -> tuple[int, ...]:
    """What tells a file from another of its name; empty where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns


@lru_cache(maxsize=4)
def _scorer(key: _Key) -> _Scorer:
    return _Scorer(key.model)
