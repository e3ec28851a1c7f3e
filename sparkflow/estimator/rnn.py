"""Ready-made estimators of sequences: recurrent cells over columns of sequences, the last output of which is judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sparkflow import layers
from sparkflow.estimator.canned import _DNN_RATE, HeadedEstimator, Part, _classes
from sparkflow.estimator.heads import Head
from sparkflow.estimator.run_config import RunConfig
from sparkflow.feature_column import input_layer
from sparkflow.feature_column.sequence import concatenate_context_input, sequence_input_layer
from sparkflow.framework.graph import Tensor
from sparkflow.losses.weighted import Reduction
from sparkflow.ops import array, array_join, array_slice, math, rnn_cell
from sparkflow.ops.partitioned_variables import min_max_variable_partitioner
from sparkflow.ops.rnn import dynamic_rnn
from sparkflow.ops.variable_scope import variable_scope
from sparkflow_runtime.wire import dtypes

_CELLS = {"basic_rnn": rnn_cell.BasicRNNCell, "lstm": rnn_cell.BasicLSTMCell, "gru": rnn_cell.GRUCell}
_MEAN, _SMALLEST_SLICE_BYTES = Reduction.SUM_OVER_BATCH_SIZE, 64 << 20
CellFn = Callable[[str], Any]


def _cell_fn(units: Any, cell_type: str | None, given: CellFn | None) -> CellFn:
    """units: of each layer. Raises ValueError where a function that makes the cell is given too, and on other types."""
    if given is not None:
        if units is not None or cell_type is not None:
            raise ValueError("num_units and cell_type must not be specified when using rnn_cell_fn")
        return given
    if units is None:
        raise ValueError("num_units, the units of each layer, must be given where rnn_cell_fn is not")
    name = cell_type or "basic_rnn"
    if name not in _CELLS:
        raise ValueError(f"Supported cell types are {sorted(_CELLS)}; got {cell_type!r}")
    sizes = [units] if isinstance(units, int) else list(units)

    def make(mode: str) -> Any:
        cells = [_CELLS[name](size) for size in sizes]
        return cells[0] if len(cells) == 1 else rnn_cell.MultiRNNCell(cells)

    return make


def _last(outputs: Tensor, lengths: Tensor) -> Tensor:
    """[batch, n]: each example's output at its last step."""
    rows = math.range(array.shape(outputs)[0])
    last = math.maximum(math.cast(lengths, dtypes.int32) - 1, 0)
    return array_slice.gather_nd(outputs, array_join.stack([rows, last], axis=1))


def _logits(
    units: int, cell_fn: CellFn, sequence_columns: Any, context_columns: Any, input_layer_partitioner: Any,
    return_sequences: bool,
) -> Callable[[Mapping[str, Any], str, RunConfig | None], Tensor]:  # fmt: skip
    def logits(features: Mapping[str, Any], mode: str, config: RunConfig | None) -> Tensor:
        parts = (config.num_ps_replicas if config is not None else 0) or 1
        cut = input_layer_partitioner or min_max_variable_partitioner(parts, min_slice_size=_SMALLEST_SLICE_BYTES)
        with variable_scope("rnn", partitioner=min_max_variable_partitioner(parts)):
            with variable_scope("sequence_input_layer", partitioner=cut):
                inputs, lengths = sequence_input_layer(features, sequence_columns)
                if context_columns:
                    inputs = concatenate_context_input(input_layer(features, context_columns), inputs)
            outputs, _ = dynamic_rnn(cell_fn(mode), inputs, lengths, dtype=dtypes.float32)
            chosen = outputs if return_sequences else _last(outputs, lengths)
            with variable_scope("logits"):
                return layers.dense(chosen, units)

    return logits


class RNNEstimator(HeadedEstimator):
    """units: of each recurrent layer, one or several. cell_type: "basic_rnn", "lstm" or "gru"; rnn_cell_fn(mode) makes
    another cell instead. context_feature_columns: of what does not change along the sequence, beside each step.
    return_sequences: the head judges every step."""

    def __init__(
        self, head: Head, sequence_feature_columns: Sequence[Any],
        context_feature_columns: Sequence[Any] | None = None, units: Any = None, cell_type: str | None = None,
        rnn_cell_fn: CellFn | None = None, return_sequences: bool = False, model_dir: str | None = None,
        optimizer: Any = "Adagrad", input_layer_partitioner: Any = None, config: Any = None,
    ):  # fmt: skip
        made = _logits(
            head.logits_dimension, _cell_fn(units, cell_type, rnn_cell_fn), sequence_feature_columns,
            context_feature_columns, input_layer_partitioner, return_sequences,
        )  # fmt: skip
        super().__init__(head, [Part("rnn", made, optimizer, _DNN_RATE)], model_dir, config, None)


class RNNClassifier(RNNEstimator):
    """As RNNEstimator, of n_classes classes."""

    def __init__(
        self, sequence_feature_columns: Sequence[Any], context_feature_columns: Sequence[Any] | None = None,
        units: Any = None, cell_type: str | None = None, rnn_cell_fn: CellFn | None = None,
        return_sequences: bool = False, model_dir: str | None = None, n_classes: int = 2, weight_column: Any = None,
        label_vocabulary: Sequence[str] | None = None, optimizer: Any = "Adagrad", loss_reduction: str = _MEAN,
        input_layer_partitioner: Any = None, config: Any = None,
    ):  # fmt: skip
        head = _classes(n_classes, weight_column, label_vocabulary, loss_reduction)
        super().__init__(
            head, sequence_feature_columns, context_feature_columns, units, cell_type, rnn_cell_fn, return_sequences,
            model_dir, optimizer, input_layer_partitioner, config,
        )  # fmt: skip
