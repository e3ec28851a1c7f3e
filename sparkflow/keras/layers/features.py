"""DenseFeatures and SequenceFeatures: feature columns as a layer, which keeps the variables that they make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sparkflow.feature_column.base import Features
from sparkflow.feature_column.models import dense_columns, row
from sparkflow.feature_column.sequence import beside_one_another, sequence_columns, sequence_part
from sparkflow.framework.graph import get_default_graph
from sparkflow.keras.engine import Layer
from sparkflow.ops.array_join import concat
from sparkflow.ops.variable_scope import variable_scope


class _Columns(Layer):
    """Columns whose variables are the layer's own."""

    def __init__(self, columns: Sequence[Any], trainable: bool, name: str | None, **kwargs: Any):
        super().__init__(trainable, name, **kwargs)
        self._columns = columns
        self._tables: dict[tuple[str, str], Any] = {}

    def build(self, input_shape: Any) -> None:
        """The columns make their variables when they first need them."""

    def _getter(self, scope: str, here: str) -> Callable[..., Any]:
        """What stands for tf.get_variable there: the layer's own variable of that name."""

        def get(getter: Any, name: str, *args: Any, **wanted: Any) -> Any:
            key = (scope, name.rpartition(f"{scope}/")[2])
            if key not in self._tables:
                told = {k: wanted.get(k) for k in ("shape", "dtype", "initializer", "regularizer", "trainable")}
                with get_default_graph().name_scope(f"{here}/{scope}/"):
                    self._tables[key] = self.add_weight(key[1], **told)
            return self._tables[key]

        return get


class DenseFeatures(_Columns):
    """[batch, n]: the dense columns of features (name -> Tensor or SparseTensor) beside one another, in the order of
    their names. Called again it has the same tables.

    Raises ValueError on a column that is not dense: put it into an embedding_column or indicator_column.
    """

    def __init__(self, feature_columns: Any, trainable: bool = True, name: str | None = None, **kwargs: Any):
        super().__init__(dense_columns(feature_columns, "DenseFeatures"), trainable, name, **kwargs)

    def call(  # type: ignore[override]
        self, features: Any, cols_to_output_tensors: dict[Any, Any] | None = None
    ) -> Any:
        """cols_to_output_tensors: filled with each column's part."""
        given, parts, here = Features(features), [], get_default_graph().get_name_scope()
        for column in self._columns:
            with variable_scope(column.scope_name, custom_getter=self._getter(column.scope_name, here)):
                parts.append(row(column, given, None, self.trainable))
            if cols_to_output_tensors is not None:
                cols_to_output_tensors[column] = parts[-1]
        return concat(parts, -1)


class SequenceFeatures(_Columns):
    """([batch, steps, n], [batch]): the columns of sequences of features beside one another, in the order of their
    names, and how many steps each example has. Called again it has the same tables.

    Raises ValueError on a column that is not of sequences, or not dense: put it into an embedding_column or
    indicator_column. When it runs, InvalidArgumentError where two features have different numbers of steps.
    """

    def __init__(self, feature_columns: Any, trainable: bool = True, name: str | None = None, **kwargs: Any):
        super().__init__(sequence_columns(feature_columns), trainable, name, **kwargs)

    def call(self, features: Any) -> Any:  # type: ignore[override]
        given, parts, here = Features(features), [], get_default_graph().get_name_scope()
        for column in self._columns:
            with variable_scope(column.scope_name, custom_getter=self._getter(column.scope_name, here)):
                parts.append(sequence_part(column, given, None, self.trainable))
        return beside_one_another(parts)
