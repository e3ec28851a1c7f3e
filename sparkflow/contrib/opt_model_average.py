"""tf.contrib.opt.ModelAverageOptimizer: each worker trains by itself, and every so often all begin anew at their mean.

Source: McDonald, Hall and Mann, "Distributed training strategies for the structured perceptron", 2010 (iterative
parameter mixing).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sparkflow.contrib.opt_centers import CenterGetter, CenterOptimizer, take_values
from sparkflow.framework.apply import constant
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.ops import control_flow, state
from sparkflow.ops.accumulators import ConditionalAccumulator
from sparkflow.ops.data_flow import FIFOQueue
from sparkflow.ops.variables import Variable
from sparkflow.train.optimizer import Optimizer
from sparkflow.train.session_run_hook import SessionRunHook
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.devices import DeviceSpec


class ModelAverageCustomGetter(CenterGetter):
    """For tf.variable_scope(custom_getter=...), below tf.train.replica_device_setter: a trainable variable is the
    worker's, beside the workers' mean on the servers."""


class ModelAverageOptimizer(CenterOptimizer):
    """Another optimizer, of a worker's own variables; every interval_steps steps all workers wait for each other and
    take their mean. The global step counts the means.

    The mean is summed in the order of the workers' tasks: the same workers with the same batches train the same bits.
    Each one's session needs make_session_run_hook().
    """

    def __init__(
        self, opt: Optimizer, num_worker: int, is_chief: bool, ma_custom_getter: ModelAverageCustomGetter,
        interval_steps: int = 100, use_locking: bool = True, name: str = "ModelAverageOptimizer",
    ):  # fmt: skip
        super().__init__(opt, ma_custom_getter, interval_steps, name)
        self._num_worker, self._is_chief = num_worker, is_chief
        self._accumulators: list[ConditionalAccumulator] = []
        self._chief_init_op: Operation | None = None

    def apply_gradients(
        self, grads_and_vars: Iterable[tuple[Any, Any]], global_step: Any = None, name: str | None = None
    ) -> Operation:
        """Raises ValueError where there is no variable or no global_step, which tells one mean from the next."""
        pairs = list(grads_and_vars)
        if not pairs:
            raise ValueError("Must supply at least one variable")
        if global_step is None:
            raise ValueError("Global step is required")
        train_op = super().apply_gradients(pairs, global_step, name)
        begun = [a.set_global_step(global_step, name="SetGlobalStep") for a in self._accumulators]
        self._chief_init_op = control_flow.group(*begun)
        return train_op

    def _prepare_to_meet(
        self, own: Sequence[Variable], centers: Sequence[Variable], global_step: Any, scope: str
    ) -> Callable[[], Operation]:
        graph, rank = get_default_graph(), self._rank()
        self._accumulators = []
        for center in centers:
            with graph.device(None), graph.device(center.device or None):
                accumulator = ConditionalAccumulator(
                    center.dtype.base_dtype, center.get_shape(), shared_name=f"{center.name}/{scope}var_accum"
                )
                self._accumulators.append(accumulator)
        with graph.device(None), graph.device(global_step.device or None):
            # One for each worker: from one for all a quick worker could take the token that a slow one has yet to
            # come for, and go on before the next mean.
            first = min(rank, 0)
            queues = {
                r: FIFOQueue(-1, dtypes.bool_, shapes=(), shared_name=f"{scope}sync_queue_{r}")
                for r in ({rank, *range(first, first + self._num_worker)} if self._is_chief else {rank})
            }

        def meet() -> Operation:
            step = global_step.read_value()
            sent = [
                a.apply_grad(var.read_value(), local_step=step, replica=rank) for a, var in zip(self._accumulators, own)
            ]
            if self._is_chief:
                sent = [*sent, self._take_mean(centers, global_step, queues)]
            with graph.control_dependencies(sent):
                token = queues[rank].dequeue()
            with graph.control_dependencies([token]):
                return take_values(own, [center.read_value() for center in centers])

        return meet

    def _take_mean(
        self, centers: Sequence[Variable], global_step: Any, queues: dict[int, FIFOQueue]
    ) -> Operation:  # fmt: skip
        """The chief's part: the centers become the mean, and every worker hears of it."""
        graph = get_default_graph()
        means: list[Tensor] = [a.take_grad(self._num_worker) for a in self._accumulators]
        moved = []
        for center, mean in zip(centers, means):
            with graph.colocate_with(center.op):
                moved.append(state.assign(center, mean).op)
        with graph.control_dependencies(moved), graph.colocate_with(global_step):
            moved.append(state.assign_add(global_step, constant(1, global_step.dtype.base_dtype)).op)
        with graph.control_dependencies(moved):
            return control_flow.group(*[queue.enqueue(False) for queue in queues.values()])

    def _rank(self) -> int:
        """A worker's place in the sum: a chief of a job of its own is before worker 0."""
        device = DeviceSpec.from_string(self._getter._worker_device)
        return -1 if device.job in ("chief", "master") else device.task or 0

    def get_init_op(self) -> Operation:
        """Gives this worker's variables the values of the centers."""
        own, centers = self._trained()
        return take_values(own, [center.read_value() for center in centers])

    def make_session_run_hook(self) -> SessionRunHook:
        """What every worker's monitored session needs: it begins where the centers are."""
        return _ModelAverageHook(self)


class _ModelAverageHook(SessionRunHook):
    def __init__(self, optimizer: ModelAverageOptimizer):
        self._optimizer = optimizer

    def begin(self) -> None:
        begun = self._optimizer._chief_init_op
        if begun is None:
            raise ValueError("ModelAverageOptimizer.apply_gradients should be called before using the hook.")
        steps = [begun] if self._optimizer._is_chief else []
        self._init_op = control_flow.group(*steps, self._optimizer.get_init_op())

    def after_create_session(self, session: Any, coord: Any) -> None:
        session.run(self._init_op)
