"""Model: what a training leaves. It scores tables of every kind the connectors know, and needs no training code."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa

import sparkflow as tf
from sparkflow_connectors.graphs import PredictionGraph
from sparkflow_connectors.schema import Columns, arrays, check_batch, resolve
from sparkflow_runtime.wire.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError
from sparkflow_runtime.wire.protos import GraphDef


@dataclass(frozen=True)
class Model:
    """A trained model.

    checkpoint: the prefix that its weights are read from (the best epoch's); every task that scores must see it.
    fingerprint: of that checkpoint; a model whose files were replaced by another training's refuses to score.
    figures: of the training: examples, train_s, examples_per_s, attempts, cluster, history, checkpoint (the last one).
    """

    graph: PredictionGraph
    columns: Columns
    checkpoint: str
    figures: dict[str, Any] = field(default_factory=dict)
    fingerprint: str = ""

    def predict(self, data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Predictions for arrays by column name, in this process."""
        return _scorer(_Key(self)).run(data)

    def transform(self, data: Any) -> Any:
        """The table with a column added for every prediction; its rows and other columns stay.

        data: a Spark or Dask DataFrame (lazily scored where its partitions are), a pandas DataFrame or an Arrow table.
        Raises InvalidArgumentError on a missing column, one of another type, or a name that is taken.
        """
        kind = type(data).__module__.partition(".")[0]
        engine = {"pyspark": "spark", "dask": "dask", "dask_expr": "dask"}.get(kind, "local")
        return import_module(f"sparkflow_connectors.{engine}").transform(self, data)

    def variables(self) -> dict[str, np.ndarray]:
        """The weights by name."""
        check_fingerprint(self)
        return {name: tf.train.load_variable(self.checkpoint, name) for name in self.graph.variables}

    def check(self, schema: pa.Schema) -> None:
        """Raises InvalidArgumentError when a table of this schema cannot be scored."""
        resolve(schema, self.columns.features, None)
        taken = [name for name in self.graph.outputs if name in schema.names]
        if taken:
            raise InvalidArgumentError(
                f"The table already has a column {taken[0]!r}: drop or rename it before transform"
            )

    def output_fields(self) -> list[pa.Field]:
        return [pa.field(name, self._arrow_type(name)) for name in self.graph.outputs]

    def _arrow_type(self, name: str) -> pa.DataType:
        kind = pa.from_numpy_dtype(self.graph.output_dtypes[name].np)
        for _ in self.graph.output_shapes[name]:
            kind = pa.list_(pa.field("element", kind))
        return kind

    def score(self, batch: pa.RecordBatch, first_row: int = 0) -> pa.RecordBatch:
        """The batch with its predictions."""
        check_batch(batch, self.columns, first_row)
        values = self.predict(arrays(batch, self.columns))
        added = [_column(values[name], self._arrow_type(name)) for name in self.graph.outputs]
        return pa.RecordBatch.from_arrays(
            [*batch.columns, *added], schema=pa.schema([*batch.schema, *self.output_fields()])
        )

    def score_all(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        row = 0
        for batch in batches:
            yield self.score(batch, row)
            row += batch.num_rows


def _column(values: np.ndarray, kind: pa.DataType) -> pa.Array:
    return pa.array(values, kind) if values.ndim == 1 else pa.array(values.tolist(), kind)


def fingerprint(checkpoint: str) -> str:
    """What tells a checkpoint from another of the same name: a digest of its index, which holds the data's checksums.
    Raises NotFoundError where there is none."""
    path = checkpoint + ".index"
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()[:16]
    except FileNotFoundError:
        raise NotFoundError(f"No checkpoint {checkpoint!r}: {path} does not exist on this task") from None


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
        self._session = tf.Session(graph=graph)
        self._session.run(model.graph.restore_op, {model.graph.filename_tensor: model.checkpoint})
        names = model.graph.inputs
        self._columns, self._outputs = list(names), list(model.graph.outputs)
        self._call = self._session.make_callable(list(model.graph.outputs.values()), list(names.values()))

    def run(self, data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return dict(zip(self._outputs, self._call(*(data[name] for name in self._columns)), strict=True))


class _Key:
    """Lets a Model stand in a cache by its graph and weights, so that a reused task process keeps its session."""

    def __init__(self, model: Model):
        self.model = model
        self._identity = (model.checkpoint, model.fingerprint or fingerprint(model.checkpoint), model.graph.graph_def)

    def __hash__(self) -> int:
        return hash(self._identity)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other._identity == self._identity


@lru_cache(maxsize=4)
def _scorer(key: _Key) -> _Scorer:
    return _Scorer(key.model)
