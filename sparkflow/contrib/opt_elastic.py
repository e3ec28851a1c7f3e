"""tf.contrib.opt.ElasticAverageOptimizer: workers explore around a center, which is drawn after them.

Source: Zhang, Choromanska and LeCun, "Deep learning with Elastic Averaging SGD", NIPS 2015.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sparkflow.contrib.opt_centers import CenterGetter, CenterOptimizer, parts, take_values
from sparkflow.framework.apply import constant
from sparkflow.framework.graph import Operation, get_default_graph
from sparkflow.ops import control_flow, math, nn, state, variables
from sparkflow.ops.data_flow import FIFOQueue
from sparkflow.ops.variables import Variable
from sparkflow.train.optimizer import GradsAndVars, Optimizer
from sparkflow.train.saver import Saver
from sparkflow.train.session_run_hook import SessionRunHook
from sparkflow_runtime.wire import dtypes

LOCAL_CENTER = "local_center_variable"


class ElasticAverageCustomGetter(CenterGetter):
    """For tf.variable_scope(custom_getter=...), below tf.train.replica_device_setter: a trainable variable is the
    worker's, beside its center on the servers, and what the worker last knew of that."""

    def __init__(self, worker_device: str):
        super().__init__(worker_device)
        self._known: dict[Variable, Variable] = {}

    def _make_own(self, getter: Callable[..., Any], name: str, **kwargs: Any) -> Any:
        own = super()._make_own(getter, name, **kwargs)
        known = super()._make_own(getter, f"{LOCAL_CENTER}/{name}", **{**kwargs, "trainable": False})
        self._known |= zip(parts(own), parts(known), strict=True)
        return own


class ElasticAverageOptimizer(CenterOptimizer):
    """Another optimizer, of a worker's own variables; every communication_period steps these and their centers draw
    near each other by moving_rate of the distance.

    moving_rate: 0.9 / communication_period / num_worker by default. rho: how strongly the loss holds a worker near the
    center that it knows; moving_rate / the learning rate by default, 0 for not at all. synchronous: workers begin
    together. Each one's session needs make_session_run_hook(is_chief, task_index).
    """

    BETA = 0.9

    def __init__(
        self, opt: Optimizer, num_worker: int, ea_custom_getter: ElasticAverageCustomGetter,
        communication_period: int = 10, moving_rate: float | None = None, rho: float | None = None,
        use_locking: bool = True, synchronous: bool = False, name: str = "ElasticAverageOptimizer",
    ):  # fmt: skip
        super().__init__(opt, ea_custom_getter, communication_period, name)
        self._num_worker, self._synchronous, self._locked = num_worker, synchronous, use_locking
        self._known = ea_custom_getter._known
        self._moving_rate = self.BETA / communication_period / num_worker if moving_rate is None else moving_rate
        self._rho = self._moving_rate / _rate_of(opt) if rho is None else rho

    def compute_gradients(self, loss: Any, var_list: Any = None, *args: Any, **kwargs: Any) -> GradsAndVars:
        """Of the loss and rho times half the squared distance to the center that this worker knows."""
        chosen = variables.trainable_variables() if var_list is None else var_list
        own = [part for var in chosen for part in parts(var)]
        if not (isinstance(self._rho, (int, float)) and self._rho == 0):
            for var in own:
                self._getter.center_of(var)  # or it says what is wrong
            apart = [nn.l2_loss(var.value() - self._known[var].value()) for var in own]
            loss = loss + math.cast(self._rho, loss.dtype) * math.add_n([math.cast(a, loss.dtype) for a in apart])
        return self._opt.compute_gradients(loss, own, *args, **kwargs)

    def _prepare_to_meet(
        self, own: Sequence[Variable], centers: Sequence[Variable], global_step: Any, scope: str
    ) -> Callable[[], Operation]:
        def meet() -> Operation:
            graph = get_default_graph()
            moves = [self._draw_near(var, center) for var, center in zip(own, centers)]
            if global_step is not None:
                with graph.colocate_with(global_step):
                    moves.append(state.assign_add(global_step, constant(1, global_step.dtype.base_dtype)).op)
            return control_flow.group(*moves)

        return meet

    def _draw_near(self, var: Variable, center: Variable) -> Operation:
        graph = get_default_graph()
        with graph.colocate_with(var.op):
            known = state.assign(self._known[var], center.read_value())
            step = math.cast(self._moving_rate, var.dtype.base_dtype) * (var.read_value() - known)
            mine = state.assign_sub(var, step, use_locking=self._locked)
        with graph.colocate_with(center.op):
            return control_flow.group(mine, state.assign_add(center, step, use_locking=self._locked))

    def get_init_op(self, task_index: int) -> Operation:
        """Gives this worker's variables the centers' values; where synchronous, waits for the other workers too."""
        own, centers = self._trained()
        values = [center.read_value() for center in centers]
        known = [self._known[var] for var in own]
        taken = control_flow.group(take_values(own, values), take_values(known, values))
        return self._wait_for_others(taken, task_index) if self._synchronous else taken

    def _wait_for_others(self, ready: Operation, task_index: int) -> Operation:
        """Into each other worker's queue a token, and from this one's as many as there are others."""
        graph, others = get_default_graph(), self._num_worker - 1
        with graph.device(None), graph.device(parts(self._getter._wholes[0][1])[0].device or None):
            queues = [
                FIFOQueue(self._num_worker, dtypes.bool_, shapes=(), shared_name=f"variable_init_sync_queue{rank}")
                for rank in range(self._num_worker)
            ]
            with graph.control_dependencies([ready]):
                told = [queue.enqueue(False) for rank, queue in enumerate(queues) if rank != task_index]
            return control_flow.group(*told, queues[task_index].dequeue_many(others))

    def make_session_run_hook(self, is_chief: bool, task_index: int) -> SessionRunHook:
        """What every worker's monitored session needs: it begins where the centers are."""
        return _ElasticHook(self, task_index)

    def swapping_saver(self, var_list: Any = None, name: str = "swapping_saver", **settings: Any) -> Saver:
        """A Saver of the centers under the names of what they are the centers of, as a program needs them that has no
        such optimizer. var_list: the global variables by default. Raises RuntimeError where there are no centers."""
        pairs = [(own, center) for own, center in self._getter._wholes if parts(own)[0].graph is get_default_graph()]
        if not pairs:
            raise RuntimeError("swapping_saver: there are no variables that the custom_getter made")
        given = variables.global_variables() if var_list is None else var_list
        named = dict(given) if isinstance(given, dict) else {v.op.name: v for item in given for v in parts(item)}
        for own, center in pairs:
            both = {*parts(own), *parts(center)}
            if found := [key for key, var in named.items() if both & {*parts(var)}]:
                named = {key: var for key, var in named.items() if key not in found}
                named[own.name if len(parts(own)) > 1 else parts(own)[0].op.name] = center
        return Saver(named, name=name, **settings)


class _ElasticHook(SessionRunHook):
    def __init__(self, optimizer: ElasticAverageOptimizer, task_index: int):
        self._optimizer, self._task_index = optimizer, task_index

    def begin(self) -> None:
        self._init_op = self._optimizer.get_init_op(self._task_index)

    def after_create_session(self, session: Any, coord: Any) -> None:
        session.run(self._init_op)


def _rate_of(opt: Any) -> Any:
    rate = getattr(opt, "_learning_rate", getattr(opt, "_lr", None))
    if rate is None:
        raise ValueError(f"ElasticAverageOptimizer: {type(opt).__name__} has no learning rate to tell rho by; give rho")
    return rate() if callable(rate) else rate
