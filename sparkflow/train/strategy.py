"""tf.distribute.Strategy, and the default one: one replica, as programs that ask for the strategy find it where none is
chosen. The others are in strategies.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from typing import Any

from sparkflow.framework import nest
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.ops import array, control_flow, math_reduce


class ReduceOp(Enum):
    """How values of several replicas become one."""

    SUM = "SUM"
    MEAN = "MEAN"


class InputContext:
    """What an input_fn may want to know: which of how many input pipelines it makes, and for how many replicas."""

    def __init__(self, num_input_pipelines: int = 1, input_pipeline_id: int = 0, num_replicas_in_sync: int = 1):
        self.num_input_pipelines, self.input_pipeline_id = num_input_pipelines, input_pipeline_id
        self.num_replicas_in_sync = num_replicas_in_sync

    def get_per_replica_batch_size(self, global_batch_size: int) -> int:
        """A replica's part of a batch. Raises ValueError where the parts would not be equal."""
        if global_batch_size % self.num_replicas_in_sync:
            raise ValueError(
                f"The `global_batch_size` {global_batch_size} is not divisible by `num_replicas_in_sync` "
                f"{self.num_replicas_in_sync}"
            )
        return global_batch_size // self.num_replicas_in_sync

    def __str__(self) -> str:
        return (
            f"tf.distribute.InputContext(input pipeline id {self.input_pipeline_id}, total: {self.num_input_pipelines})"
        )


class _DatasetIterator:
    """An iterator over a dataset, as make_dataset_iterator gives it."""

    def __init__(self, dataset: Any):
        self._iterator = dataset.make_initializable_iterator()

    def get_next(self) -> Any:
        return self._iterator.get_next()

    def initialize(self) -> list[Any]:
        """The operations to run before the first element."""
        return [self._iterator.initializer]

    initializer = property(initialize)


class Strategy:
    """A process is one replica, which does what a program without a strategy does."""

    num_replicas_in_sync = 1
    cluster_resolver: Any = None

    @contextmanager
    def scope(self) -> Iterator[Strategy]:
        """get_strategy() gives it meanwhile, and optimizers apply what `reduced` makes of gradients. Variables and all
        else are made as outside."""
        before = _CURRENT.set(self)
        try:
            yield self
        finally:
            _CURRENT.reset(before)

    def reduced(self, grads_and_vars: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        """The pairs as all replicas apply them."""
        return list(grads_and_vars)

    def statistics(self, values: Sequence[Any]) -> list[Any]:
        """Those of a replica's batch, such as moments, as all replicas have a moving average follow them."""
        return list(values)

    def run(self, fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: Any = None, options: Any = None) -> Any:
        return fn(*args, **(kwargs or {}))

    experimental_run_v2 = run

    def experimental_run(self, fn: Callable[..., Any], input_iterator: Any = None) -> Any:
        """fn() or, of an iterator, fn(its next element)."""
        return fn() if input_iterator is None else fn(input_iterator.get_next())

    def reduce(self, reduce_op: Any, value: Any, axis: int | None = None) -> Any:
        """The value; over an axis of it where that is given. reduce_op: a ReduceOp or its name."""
        how = ReduceOp(reduce_op.upper() if isinstance(reduce_op, str) else reduce_op)
        if axis is None:
            return value
        over = math_reduce.reduce_sum if how is ReduceOp.SUM else math_reduce.reduce_mean
        return nest.map_structure(lambda x: over(x, axis), value)

    def gather(self, value: Any, axis: int) -> Any:
        return value

    def experimental_local_results(self, value: Any) -> tuple[Any, ...]:
        return (value,)

    unwrap = experimental_local_results

    def experimental_distribute_dataset(self, dataset: Any, options: Any = None) -> Any:
        return dataset

    def distribute_datasets_from_function(self, dataset_fn: Callable[[InputContext], Any], options: Any = None) -> Any:
        return dataset_fn(InputContext())

    experimental_distribute_datasets_from_function = distribute_datasets_from_function

    def make_dataset_iterator(self, dataset: Any) -> _DatasetIterator:
        """initialize() gives what to run first, get_next() the next element."""
        return _DatasetIterator(dataset)

    def make_input_fn_iterator(
        self, input_fn: Callable[[InputContext], Any], replication_mode: Any = None
    ) -> _DatasetIterator:
        return _DatasetIterator(input_fn(InputContext()))

    def group(self, value: Any, name: str | None = None) -> Any:
        return control_flow.group(value, name=name)

    def update_config_proto(self, config_proto: Any) -> Any:
        return config_proto

    def configure(
        self, session_config: Any = None, cluster_spec: Any = None, task_type: Any = None, task_id: Any = None
    ) -> None:
        """There is nothing to set."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"{type(self).__name__} has no {name!r} here. tf.train.replica_device_setter, "
            "tf.train.SyncReplicasOptimizer and tf.distribute.DistributedOptimizer train in a cluster"
        )


class DefaultReplicaContext:
    """What code of the only replica finds."""

    replica_id_in_sync_group = 0

    @property
    def num_replicas_in_sync(self) -> int:
        return self.strategy.num_replicas_in_sync

    @property
    def strategy(self) -> Strategy:
        return get_strategy()

    @property
    def devices(self) -> list[str]:
        return [""]

    def merge_call(self, merge_fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        """merge_fn(the strategy, *args, **kwargs), called for all replicas together.

        Raises RuntimeError within another merge_call, whose function is no replica's."""
        if _TOGETHER.get():
            raise RuntimeError("merge_call: it is called by a replica, not within another merge_call")
        before = _TOGETHER.set(True)
        try:
            return merge_fn(self.strategy, *args, **(kwargs or {}))
        finally:
            _TOGETHER.reset(before)

    def all_reduce(self, reduce_op: Any, value: Any, options: Any = None) -> Any:
        """The values themselves, in their structure."""
        ReduceOp(reduce_op.upper() if isinstance(reduce_op, str) else reduce_op)
        return nest.map_structure(lambda x: array.identity(convert_to_tensor(x)), value)

    def all_gather(self, value: Any, axis: int, options: Any = None) -> Any:
        return nest.map_structure(lambda x: array.identity(convert_to_tensor(x)), value)


_STRATEGY, _CONTEXT = Strategy(), DefaultReplicaContext()
_CURRENT: ContextVar[Strategy] = ContextVar("the strategy whose scope this is", default=_STRATEGY)
_TOGETHER: ContextVar[bool] = ContextVar("code runs for all replicas together", default=False)


def get_strategy() -> Strategy:
    """That of the scope around, else the default one."""
    return _CURRENT.get()


def has_strategy() -> bool:
    """Whether one other than the default was chosen."""
    return _CURRENT.get() is not _STRATEGY


def get_replica_context() -> DefaultReplicaContext | None:
    """None in what merge_call calls."""
    return None if _TOGETHER.get() else _CONTEXT


def in_cross_replica_context() -> bool:
    """Whether code runs for all replicas together: in what merge_call calls."""
    return _TOGETHER.get()


def get_loss_reduction() -> ReduceOp:
    return ReduceOp.SUM
