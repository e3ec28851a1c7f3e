"""WALSModel: weighted alternating least squares, which factorizes a sparse matrix by rows and columns in turn.

Source: Hu, Koren and Volinsky 2008, Collaborative filtering for implicit feedback datasets.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor
from sparkflow.framework.scopes import control_dependencies, name_scope
from sparkflow.framework.sparse_tensor import SparseTensor
from sparkflow.ops import array, control_flow, math, math_reduce, operators, state
from sparkflow.ops import random as random_ops
from sparkflow.ops.array_join import stack
from sparkflow.ops.array_select import unique
from sparkflow.ops.array_slice import boolean_mask, gather
from sparkflow.ops.embedding import embedding_lookup
from sparkflow.ops.linalg import cholesky, cholesky_solve
from sparkflow.ops.variables import Variable, variables_initializer
from sparkflow_runtime.wire import dtypes


class _Side(NamedTuple):
    """The rows or the columns: their factors in shards, the first ones one longer; weights likewise, or one number, or
    None; the matrix of the products of all factors, as of the last prep op."""

    size: int
    factors: list[Variable]
    weights: Any
    gramian: Variable


class WALSModel:
    """U and V with the least sum_ij W_ij (A_ij - u_i v_j)^2 + regularization (|U|^2 + |V|^2).

    W_ij is unobserved_weight, where A has no entry, and row_weights_i col_weights_j more, where it has: a number each,
    one for all, or (both) None for 0. An iteration is, for the rows and then for the columns: run
    row_update_prep_gramian_op, initialize_row_update_op and the op that update_row_factors gives. Raises ValueError on
    weights of other numbers.

    row_init, col_init: "random", or all factors. use_factors_weights_cache and use_gramian_cache change nothing here.
    """

    def __init__(
        self, input_rows: int, input_cols: int, n_components: int, unobserved_weight: float = 0.1,
        regularization: float | None = None, row_init: Any = "random", col_init: Any = "random",
        num_row_shards: int = 1, num_col_shards: int = 1, row_weights: Any = 1, col_weights: Any = 1,
        use_factors_weights_cache: bool = True, use_gramian_cache: bool = True, use_scoped_vars: bool = False,
    ):  # fmt: skip
        if (row_weights is None) != (col_weights is None):
            raise ValueError("row_weights and col_weights must both be None, or neither")
        self._size, self._unobserved, self._penalty = n_components, unobserved_weight, regularization or 0.0
        self._rows = self._side("row", input_rows, num_row_shards, row_init, row_weights)
        self._cols = self._side("col", input_cols, num_col_shards, col_init, col_weights)

    def _side(self, name: str, size: int, shards: int, init: Any, weights: Any) -> _Side:
        if not 1 <= shards <= size:
            raise ValueError(f"num_{name}_shards must be from 1 to the {size} {name}s, got {shards}")
        ends = np.cumsum([0, *(size // shards + (i < size % shards) for i in range(shards))]).tolist()
        parts = list(pairwise(ends))
        if isinstance(init, str) and init != "random":
            raise ValueError(f"{name}_init must be 'random' or the factors, got {init!r}")
        given = None if isinstance(init, str) else convert_to_tensor(init, dtypes.float32)
        factors = []
        for i, (start, end) in enumerate(parts):
            first = given[start:end] if given is not None else random_ops.random_normal([end - start, self._size])
            factors.append(Variable(first, name=f"{name}_factors_shard_{i}"))
        own = _weights(name, weights, parts)
        if isinstance(own, list):
            own = [Variable(part, trainable=False, name=f"{name}_weights_{i}") for i, part in enumerate(own)]
        gramian = Variable(array.zeros([self._size, self._size]), trainable=False, name=f"{name}_gramian")
        return _Side(size, factors, own, gramian)

    # ------------------------------------------------------------------ what there is

    row_factors = property(lambda self: self._rows.factors, doc="The shards of U.")
    col_factors = property(lambda self: self._cols.factors, doc="The shards of V.")
    row_weights = property(lambda self: self._rows.weights)
    col_weights = property(lambda self: self._cols.weights)

    @property
    def initialize_op(self) -> Any:
        """Gives all variables of the model their first values."""
        kept = [side.weights for side in (self._rows, self._cols) if isinstance(side.weights, list)]
        sides = [v for side in (self._rows, self._cols) for v in (*side.factors, side.gramian)]
        return variables_initializer([*sides, *(v for own in kept for v in own)])

    worker_init = property(lambda self: control_flow.no_op("worker_init"), doc="Nothing, as nothing is cached.")
    initialize_row_update_op = property(lambda self: control_flow.no_op("initialize_row_update"))
    initialize_col_update_op = property(lambda self: control_flow.no_op("initialize_col_update"))
    row_update_prep_gramian_op = property(
        lambda self: self._prepared(self._cols), doc="To be run before the rows are updated."
    )
    col_update_prep_gramian_op = property(
        lambda self: self._prepared(self._rows), doc="To be run before the columns are updated."
    )

    def _prepared(self, side: _Side) -> Any:
        return state.assign(side.gramian, math.add_n([math.matmul(f, f, transpose_a=True) for f in side.factors])).op

    # ------------------------------------------------------------------ updates

    def update_row_factors(self, sp_input: Any = None, transpose_input: bool = False) -> tuple[Any, ...]:
        """(new factors of the rows that sp_input has entries of, in the order of their first ones; the op that assigns
        them; of these rows, as if they were all: the loss without regularization, the regularization, the sum of the
        weights). sp_input: some rows of A, with their own indices; of its transpose where transpose_input."""
        return self._update(self._rows, self._cols, sp_input, transpose_input)

    def update_col_factors(self, sp_input: Any = None, transpose_input: bool = False) -> tuple[Any, ...]:
        """As update_row_factors, of columns: sp_input is columns of A."""
        return self._update(self._cols, self._rows, sp_input, not transpose_input)

    def project_row_factors(
        self, sp_input: Any = None, transpose_input: bool = False, projection_weights: Any = None
    ) -> Tensor:
        """The factors of other rows, [rows of sp_input, n_components], with these weights, or 1, in place of U's."""
        return self._projected(self._cols, sp_input, transpose_input, projection_weights)

    def project_col_factors(
        self, sp_input: Any = None, transpose_input: bool = False, projection_weights: Any = None
    ) -> Tensor:
        """As project_row_factors, of columns."""
        return self._projected(self._rows, sp_input, not transpose_input, projection_weights)

    def _update(self, side: _Side, other: _Side, sp_input: Any, turned: bool) -> tuple[Any, ...]:
        with name_scope("wals_update"):
            mine, theirs, values = _entries(sp_input, turned)
            some, places = unique(mine)
            count = array.size(some)
            weights, vectors = _looked_up(side.weights, mine), embedding_lookup(other.factors, theirs, "div")
            if weights is not None:
                weights = weights * _looked_up(other.weights, theirs) * array.ones_like(values)
            new = self._solved(vectors, values, weights, places, count, other.gramian)
            assigned = control_flow.group(*_scattered(side.factors, some, new))
            total = side.size / math.cast(count, dtypes.float32)
            loss = self._loss(new, vectors, values, weights, places, other.gramian) * total
            squares = math_reduce.reduce_sum(math.square(new)) * total
            squares += math.add_n([math_reduce.reduce_sum(math.square(f)) for f in other.factors])
            every = self._unobserved * float(side.size * other.size)
            observed = 0.0 if weights is None else math_reduce.reduce_sum(weights) * total
            return new, assigned, loss, self._penalty * squares, convert_to_tensor(every + observed, dtypes.float32)

    def _projected(self, other: _Side, sp_input: Any, turned: bool, projection_weights: Any) -> Tensor:
        mine, theirs, values = _entries(sp_input, turned)
        weights = _looked_up(other.weights, theirs)
        if weights is not None and projection_weights is not None:
            own = convert_to_tensor(projection_weights, dtypes.float32)
            weights = weights * (own if own.shape.ndims == 0 else gather(own, mine))
        weights = None if weights is None else weights * array.ones_like(values)
        rows = math.cast(sp_input.dense_shape[1 if turned else 0], dtypes.int32)
        vectors = embedding_lookup(other.factors, theirs, "div")
        return self._solved(vectors, values, weights, mine, rows, other.gramian)

    def _solved(
        self, vectors: Tensor, values: Tensor, weights: Tensor | None, places: Tensor, count: Tensor, gramian: Any
    ) -> Tensor:
        """The factors that are best given the others': each by k linear equations of its own."""

        def summed(x: Tensor) -> Tensor:
            return math_reduce.unsorted_segment_sum(x, places, count)

        left = self._unobserved * gramian + self._penalty * array.constant(np.eye(self._size, dtype=np.float32))
        share = self._unobserved if weights is None else self._unobserved + weights
        right = summed((share * values)[:, None] * vectors)
        if weights is None:
            every = array.tile(left[None], stack([count, 1, 1]))
        else:  # column by column: all products of an entry at once would be n_components times the memory
            columns = [summed((weights * vectors[:, i])[:, None] * vectors) for i in range(self._size)]
            every = left + stack(columns, 1)
        return cholesky_solve(cholesky(every), right[:, :, None])[:, :, 0]

    def _loss(
        self, new: Tensor, vectors: Tensor, values: Tensor, weights: Tensor | None, places: Tensor, gramian: Any
    ) -> Tensor:
        guesses = math_reduce.reduce_sum(gather(new, places) * vectors, 1)
        missed = math.square(values - guesses)
        all_guesses = math_reduce.reduce_sum(math.matmul(new, gramian) * new)
        loss = self._unobserved * (all_guesses + math_reduce.reduce_sum(missed - math.square(guesses)))
        return loss if weights is None else loss + math_reduce.reduce_sum(weights * missed)


def _weights(name: str, given: Any, parts: list[tuple[int, int]]) -> Any:
    """None, a number, or arrays, one a shard."""
    if given is None or (isinstance(given, Real) and float(given) >= 0):
        return given if given is None else float(given)
    sizes = [end - start for start, end in parts]
    if isinstance(given, Iterable):
        shards = list(given)
        if len(parts) == 1 and len(shards) == sizes[0] and not (sizes[0] == 1 and np.ndim(shards[0])):
            shards = [shards]
        made = [np.asarray(shard, np.float32) for shard in shards]
        if [m.shape for m in made] == [(size,) for size in sizes] and all((m >= 0).all() for m in made):
            return made
    raise ValueError(
        f"{name}_weights must be None, a number from 0, or a list of such for each shard, of {sizes} of them; got "
        f"{given!r}"
    )


def _entries(sp_input: Any, turned: bool) -> tuple[Tensor, Tensor, Tensor]:
    """(index of the row, or of the column where `turned`; the other index; value) of each entry."""
    if not isinstance(sp_input, SparseTensor):
        raise TypeError(f"WALSModel: sp_input must be a SparseTensor, got {type(sp_input).__name__}")
    first, second = sp_input.indices[:, 0], sp_input.indices[:, 1]
    values = math.cast(sp_input.values, dtypes.float32)
    return (second, first, values) if turned else (first, second, values)


def _looked_up(weights: Any, index: Tensor) -> Any:
    return embedding_lookup(weights, index, "div") if isinstance(weights, list) else weights


def _scattered(shards: list[Variable], index: Tensor, new: Tensor) -> list[Any]:
    ops, start = [], 0
    for shard in shards:
        size = shard.shape[0].value
        mine = math.logical_and(index >= start, index < start + size)
        ops.append(state.scatter_update(shard, boolean_mask(index - start, mine), boolean_mask(new, mine)).op)
        start += size
    return ops
