"""k-means as a graph: what tf.contrib.factorization.KMeans adds for its inputs, and KMeansClustering trains with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor
from sparkflow.framework.scopes import control_dependencies
from sparkflow.ops import array, array_join, control_flow, init_ops, math, math_reduce, operators, state  # noqa: F401
from sparkflow.ops import random as random_ops
from sparkflow.ops.array_select import unique
from sparkflow.ops.array_slice import gather
from sparkflow.ops.checks import assert_greater_equal
from sparkflow.ops.control_flow_cond import cond
from sparkflow.ops.control_flow_while import while_loop
from sparkflow.ops.nn import l2_normalize
from sparkflow.ops.tensor_array import TensorArray
from sparkflow.ops.variable_scope import get_variable
from sparkflow_runtime.wire import dtypes

SQUARED_EUCLIDEAN_DISTANCE, COSINE_DISTANCE = "squared_euclidean", "cosine"
RANDOM_INIT, KMEANS_PLUS_PLUS_INIT = "random", "kmeans_plus_plus"
CLUSTERS_VAR_NAME = "clusters"
_LEAST_COUNT = 1e-6  # what a cluster without points is divided by


class KMeans:
    """inputs: points [n, d], or a list of such. initial_clusters: "random" or "kmeans_plus_plus" points of the first
    batch, which must have as many; a matrix; or a function of the inputs and num_clusters that returns one.

    use_mini_batch: each step moves the centres by what it sees, else it replaces them by the means of its points.
    mini_batch_steps_per_iteration: after so many such steps the distances follow. Raises ValueError on names of no
    distance or beginning, and where d is not known.
    """

    def __init__(
        self, inputs: Any, num_clusters: int, initial_clusters: Any = RANDOM_INIT,
        distance_metric: str = SQUARED_EUCLIDEAN_DISTANCE, use_mini_batch: bool = False,
        mini_batch_steps_per_iteration: int = 1, random_seed: int | None = 0, kmeans_plus_plus_num_retries: int = 2,
        kmc2_chain_length: int = 200,
    ):  # fmt: skip
        if distance_metric not in (SQUARED_EUCLIDEAN_DISTANCE, COSINE_DISTANCE):
            raise ValueError(
                f"Unsupported distance metric: {distance_metric!r}; there are {SQUARED_EUCLIDEAN_DISTANCE!r} and "
                f"{COSINE_DISTANCE!r}"
            )
        if isinstance(initial_clusters, str) and initial_clusters not in (RANDOM_INIT, KMEANS_PLUS_PLUS_INIT):
            raise ValueError(
                f"initial_clusters can be {RANDOM_INIT!r}, {KMEANS_PLUS_PLUS_INIT!r}, a matrix or a function, got "
                f"{initial_clusters!r}"
            )
        if num_clusters < 1 or mini_batch_steps_per_iteration < 1:
            raise ValueError(
                "num_clusters and mini_batch_steps_per_iteration must be at least 1, got "
                f"{num_clusters} and {mini_batch_steps_per_iteration}"
            )
        self._inputs = [convert_to_tensor(x) for x in (inputs if isinstance(inputs, (list, tuple)) else [inputs])]
        self._size = self._inputs[0].shape.with_rank(2)[1].value
        if self._size is None:
            raise ValueError(
                f"KMeans: the size of the points must be known, and is not in {self._inputs[0]}: set_shape"
            )
        self._count, self._begin, self._seed = num_clusters, initial_clusters, random_seed
        self._cosine, self._mini = distance_metric == COSINE_DISTANCE, use_mini_batch
        self._period = mini_batch_steps_per_iteration if use_mini_batch else 1
        self._tries = kmeans_plus_plus_num_retries + 1

    def training_graph(self) -> tuple[list[Tensor], list[Tensor], list[Tensor], Any, Any, Any, Any]:
        """(for each input: distances [n, num_clusters], the nearest cluster [n], the distance to it [n]; whether the
        centres are there, a variable; the centres; the op that chooses the first ones; the one that trains)."""
        dtype = self._inputs[0].dtype.base_dtype
        zeros = init_ops.zeros_initializer()
        shape = [self._count, self._size]
        centres = get_variable(CLUSTERS_VAR_NAME, shape, dtype, zeros, trainable=False)
        ready = get_variable("initialized", [], dtypes.bool_, init_ops.constant_initializer(False), trainable=False)
        moved = centres
        if self._period > 1:
            moved = get_variable("clusters_updated", shape, dtype, zeros, trainable=False)
        chosen = cond(ready, control_flow.no_op, lambda: self._chosen(centres, moved, ready))
        points = [l2_normalize(x, 1) for x in self._inputs] if self._cosine else self._inputs
        normal = self._cosine and (not self._mini or self._period > 1)  # the variable itself is
        at = l2_normalize(centres, 1) if self._cosine and not normal else centres
        every = [self._distances(x, at) for x in points]
        nearest = [math_reduce.argmin(d, 1) for d in every]
        least = [math_reduce.reduce_min(d, 1) for d in every]
        if self._mini:
            train = self._moved(points, nearest, centres, moved)
        else:
            train = self._replaced(points, nearest, centres)
        return every, nearest, least, ready, centres, chosen, train

    def _distances(self, x: Tensor, at: Any) -> Tensor:
        products = math.matmul(x, at, transpose_b=True)
        if self._cosine:
            return 1.0 - products
        squares = math_reduce.reduce_sum(math.square(x), 1, keepdims=True)
        others = math_reduce.reduce_sum(math.square(at), 1)
        return math.maximum(squares - 2.0 * products + others, 0.0)

    # ------------------------------------------------------------------ the first centres

    def _chosen(self, centres: Any, moved: Any, ready: Any) -> Any:
        first = self._first()
        if self._cosine:
            first = l2_normalize(first, 1)
        assigned = [state.assign(variable, first) for variable in {id(v): v for v in (centres, moved)}.values()]
        with control_dependencies(assigned):
            return control_flow.group(state.assign(ready, True))

    def _first(self) -> Tensor:
        points = self._inputs[0] if len(self._inputs) == 1 else array_join.concat(self._inputs, 0)
        if not isinstance(self._begin, str):
            given = self._begin(self._inputs, self._count) if callable(self._begin) else self._begin
            return array.reshape(convert_to_tensor(given, points.dtype.base_dtype), [self._count, self._size])
        rows = array.shape(points, out_type=dtypes.int64)[0]
        says = f"KMeans: the first batch must have a point for each of the {self._count} clusters, and has so many:"
        enough = assert_greater_equal(rows, array.constant(self._count, dtypes.int64), [says, rows])
        with control_dependencies([enough]):
            points = array.identity(points)
        if self._begin == RANDOM_INIT:
            return gather(points, random_ops.random_shuffle(math.range(rows), self._seed)[: self._count])
        return gather(points, self._spread(l2_normalize(points, 1) if self._cosine else points, rows))

    def _spread(self, points: Tensor, rows: Tensor) -> Tensor:
        """Each the likelier the farther it is from those before; of several tries the one that leaves least."""

        def beside(index: Any) -> Tensor:
            return array.transpose(self._distances(points, gather(points, index)))

        start = random_ops.random_uniform([1], 0, rows, dtypes.int64, self._seed)
        found = TensorArray(dtypes.int64, self._count, element_shape=[]).write(0, start[0])

        def step(i: Tensor, least: Tensor, found: TensorArray) -> tuple[Any, ...]:
            sums = math_reduce.cumsum(least)
            aim = random_ops.random_uniform([self._tries, 1], dtype=points.dtype, seed=self._seed) * sums[-1]
            tried = math_reduce.reduce_sum(math.cast(sums <= aim, dtypes.int64), 1)
            tried = math.minimum(tried, rows - 1)
            left = math.minimum(least, beside(tried))
            best = math_reduce.argmin(math_reduce.reduce_sum(left, 1), 0)
            return i + 1, left[best], found.write(i, tried[best])

        begin = (array.constant(1), beside(start)[0], found)
        return while_loop(lambda i, *_: i < self._count, step, begin)[2].stack()

    # ------------------------------------------------------------------ a step

    def _replaced(self, points: Sequence[Tensor], nearest: Sequence[Tensor], centres: Any) -> Any:
        sums = [math_reduce.unsorted_segment_sum(x, i, self._count) for x, i in zip(points, nearest)]
        ones = [array.ones_like(i, points[0].dtype) for i in nearest]
        counts = [math_reduce.unsorted_segment_sum(one, i, self._count) for one, i in zip(ones, nearest)]
        means = math.add_n(sums) / array.expand_dims(math.add_n(counts) + _LEAST_COUNT, 1)
        return state.assign(centres, l2_normalize(means, 1) if self._cosine else means).op

    def _moved(self, points: Sequence[Tensor], nearest: Sequence[Tensor], centres: Any, moved: Any) -> Any:
        one = init_ops.ones_initializer()
        counts = get_variable("cluster_counts", [self._count], dtypes.int64, one, trainable=False)
        steps: list[Any] = []
        for x, index in zip(points, nearest):
            with control_dependencies(steps):
                some, places = unique(index)
                number = array.size(some)
                seen = math_reduce.unsorted_segment_sum(array.ones_like(places, dtypes.int64), places, number)
                sums = math_reduce.unsorted_segment_sum(x, places, number)
                before, old = gather(counts, some), gather(moved, some)
                share = 1.0 / math.cast(before + seen, x.dtype)
                change = (sums - math.cast(seen, x.dtype)[:, None] * old) * share[:, None]
                with control_dependencies([change]):
                    steps = [state.scatter_add(counts, some, seen).op, state.scatter_add(moved, some, change).op]
        return control_flow.group(*steps) if self._period == 1 else self._followed(steps, centres, moved)

    def _followed(self, steps: Sequence[Any], centres: Any, moved: Any) -> Any:
        left = get_variable("update_in_steps", [], dtypes.int64, init_ops.constant_initializer(self._period),
                            trainable=False)  # fmt: skip

        def follow() -> Any:
            now = l2_normalize(moved, 1) if self._cosine else array.identity(moved)
            return control_flow.group(state.assign(left, self._period), state.assign(centres, now))

        with control_dependencies(steps):
            less = state.assign_sub(left, array.constant(1, dtypes.int64))
        return cond(less <= 0, follow, control_flow.no_op).op
