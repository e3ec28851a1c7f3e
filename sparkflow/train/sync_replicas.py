"""SyncReplicasOptimizer: several replicas compute gradients, one update is made of them, all by a program in the graph.

Each variable has an accumulator on its device. A replica's step adds its gradients there, then takes a token from a
queue on the global step's device (sync_tokens). The chief runs, in a thread of its own, the update: take the average of
every accumulator, apply it, add 1 to the global step, put a token for each replica into the queues.

Why it is deterministic. Let every replica be waited for (replicas_to_aggregate == total_num_replicas) and no token be
there at the start (num_tokens=0). Then, for step k:

1. A replica's step k+1 begins after its step k returned, so after it took a token, so (tokens follow the update by a
   control edge) after update k was applied whole: it reads the variables of update k.
2. Update k+1 begins after *every* accumulator gave its average (_wait_for_all), so after every replica added *all*
   its gradients of step k+1, so after everything they are computed from was read: no replica's read meets a half-made
   update. Without the barrier the first variable could change while a gradient of the second one still reads it.
3. Each replica has a token queue of its own then, and each update puts one token there: it takes the token of update
   k+1, and no other, in step k+1. From one queue for all, as in TensorFlow, a quick replica can take in step k+1 the
   token of step k that a slow one has yet to come for (seen: of three replicas, 11, 12 and 13 steps for 12 updates).
4. So an accumulator has one gradient of each replica when it gives its average, its step number drops none, and each
   average is summed in the order of the replicas' ranks, whatever the order of arrival (see the accumulators).

5. What an optimizer changes without a look at the gradients waits for them too (_wait_behind).

So the variables after update k are a function of those after update k-1 and of the replicas' batches, bit for bit. That
is not said of what the steps themselves assign beside it: moving averages of batch normalization on a server are moved
by one replica after the other, as they come.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

from sparkflow.framework.apply import constant
from sparkflow.framework.graph import Graph, Operation, Tensor, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.framework.indexed_slices import IndexedSlices
from sparkflow.ops import control_flow, state, variables
from sparkflow.ops.accumulators import ConditionalAccumulator, SparseConditionalAccumulator
from sparkflow.ops.data_flow import FIFOQueue
from sparkflow.train.ahead import foresee
from sparkflow.train.optimizer import Optimizer
from sparkflow.train.queue_runner import QueueRunner
from sparkflow.train.readiness import global_variables_missing
from sparkflow.train.session_manager import not_ready
from sparkflow.train.session_run_hook import SessionRunHook
from sparkflow.train.sync_agreement import Agreement
from sparkflow.train.sync_tokens import Tokens
from sparkflow.train.update_runner import UpdateRunner
from sparkflow_runtime.wire.collector import paused
from sparkflow_runtime.wire.devices import DeviceSpec

_CHIEFS = ("chief", "master")
_ENTRANCES = ("Switch", "RefSwitch", "Enter", "RefEnter")  # to a branch or loop


class SyncReplicasOptimizer(Optimizer):
    """Wraps `opt`, anything with compute_gradients and apply_gradients: updates are made of several gradients.

    replicas_to_aggregate: gradients an update is made of. total_num_replicas: replicas that send them, as many by
    default; with more replicas than that the slowest ones' gradients are dropped, with fewer some send several.
    variable_averages, variables_to_average: an ExponentialMovingAverage to apply after each update, and to what.
    sparse_opt: makes the training semi-synchronous. Gradients that touch some rows (IndexedSlices: of embeddings) are
    applied by it at once, as each replica has them, and travel to no accumulator; the dense ones wait for each other as
    ever. It is another optimizer than `opt`, with slots of its own. Not deterministic, and not in TensorFlow.
    """

    def __init__(
        self,
        opt: Any,
        replicas_to_aggregate: int,
        total_num_replicas: int | None = None,
        variable_averages: Any = None,
        variables_to_average: Any = None,
        use_locking: bool = False,
        name: str = "sync_replicas",
        sparse_opt: Any = None,
    ):
        super().__init__(use_locking, name)
        total = replicas_to_aggregate if total_num_replicas is None else total_num_replicas
        if replicas_to_aggregate < 1 or total < 1:
            raise ValueError(f"{name}: replicas_to_aggregate and total_num_replicas must be 1 or more, "
                             f"got {replicas_to_aggregate} and {total}")  # fmt: skip
        if opt is not None and sparse_opt is opt:
            raise ValueError(f"{name}: sparse_opt must be another optimizer than opt, each counts its own updates")
        self._opt, self._needed, self._total = opt, replicas_to_aggregate, total
        self._sparse_opt = sparse_opt
        self._tokens_per_step = max(total, replicas_to_aggregate)
        self._averages, self._averaged = variable_averages, variables_to_average
        self._global_step: Any = None
        self._tokens: Tokens | None = None
        self._chief_queue_runner: QueueRunner | None = None
        self._agreement: Agreement | None = None
        self.local_step_init_op: Any = None
        self.chief_init_op: Any = None
        self.ready_for_local_init_op: Any = None

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """The wrapped optimizer's gradients: those of this replica."""
        return self._opt.compute_gradients(*args, **kwargs)

    @paused()
    def apply_gradients(
        self, grads_and_vars: Iterable[tuple[Any, Any]], global_step: Any = None, name: str | None = None
    ) -> Operation:
        """This replica's step: adds its gradients and waits for its token. The update is the chief's, see the hook.

        Raises ValueError where there are no variables, or no global_step, by which late gradients are told.
        """
        pairs = list(grads_and_vars)
        if not pairs:
            raise ValueError("Must supply at least one variable")
        if global_step is None:
            raise ValueError("Global step is required to check staleness")
        graph = get_default_graph()
        self._global_step = global_step
        self._around = graph.get_name_scope()
        with graph.name_scope(name or self._name) as scope:
            self._first = [control_flow.no_op("first")] if graph._control_stack else []
            # What the caller has run first (the updates of batch normalization, say) is part of a replica's step. The
            # chief's update has no batch of its own: it would take one that a step then waits for.
            with graph.control_dependencies(None):
                worker = self._make_local_step(graph, pairs)
                return self._build(graph, pairs, worker, scope)

    # ------------------------------------------------------------------ the graph

    def _make_local_step(self, graph: Graph, pairs: list[tuple[Any, Any]]) -> DeviceSpec:
        """The step that this replica's gradients belong to, a variable on its own device; returns that task."""
        zero = constant(0, self._global_step.dtype.base_dtype, name="local_step_start")
        worker = _worker_of(zero, pairs)
        with graph.device(None), graph.device(worker.to_string() or None):
            self._local_step = variables.Variable(
                zero, trainable=False, collections=[GraphKeys.LOCAL_VARIABLES], name="sync_rep_local_step"
            )
            self.local_step_init_op = self._local_step.assign(self._global_step).op
        return worker

    def _own_names(self) -> AbstractContextManager[str]:
        """The wrapped optimizer's variables are called as without this one, for checkpoints of either."""
        return get_default_graph().name_scope(self._around and self._around + "/")

    def _build(self, graph: Graph, pairs: list[tuple[Any, Any]], worker: DeviceSpec, scope: str) -> Operation:
        rank = _rank(worker)
        sent: list[Operation] = []
        if self._sparse_opt is not None:
            pairs = self._apply_sparse_now(pairs, sent)
        taken: list[Any] = []
        accumulators: list[Any] = []
        for grad, var in pairs:
            with _on(graph, var):
                taken.append(None if grad is None else self._accumulate(grad, var, rank, scope, sent, accumulators))
        averages, gates = self._wait_for_all(graph, taken, [var for _, var in pairs])
        with _on(graph, self._global_step):
            before = graph.version
            with self._own_names():
                update = self._opt.apply_gradients(zip(averages, [v for _, v in pairs]), self._global_step)
            _wait_behind(gates, averages, update, graph.operations_since(before))
            self._make_tokens(worker, scope)
            train_op = self._take_token(graph, rank, sent)
            with graph.control_dependencies([update]):
                assert self._tokens is not None
                sync_op = self._tokens.put(self._global_step.read_value(), self._tokens_per_step)
            if self._averages is not None:
                with graph.control_dependencies([sync_op]):
                    sync_op = self._averages.apply(self._averaged)
            runner_queue = FIFOQueue(1, "int32", shapes=(), name="dummy_queue", shared_name="dummy_queue")
            self._chief_queue_runner = UpdateRunner(runner_queue, sync_op)
        self.ready_for_local_init_op = global_variables_missing()
        steps = [a.set_global_step(self._global_step, name="SetGlobalStep") for a in accumulators]
        assert self._agreement is not None
        with graph.control_dependencies(steps):
            said = self._agreement.say()
        self.chief_init_op = control_flow.group(self.local_step_init_op, said)
        return train_op

    def _apply_sparse_now(self, pairs: list[tuple[Any, Any]], sent: list[Operation]) -> list[tuple[Any, Any]]:
        """Have this replica's step apply the gradients of rows; the other pairs."""
        sparse = [(g, v) for g, v in pairs if isinstance(g, IndexedSlices)]
        dense = [(g, v) for g, v in pairs if not isinstance(g, IndexedSlices)]
        if not dense:
            raise ValueError(f"{self._name}: there is no dense gradient to wait for; {self._sparse_opt} alone will do")
        if sparse:
            with self._own_names(), get_default_graph().control_dependencies(self._first):
                sent.append(self._sparse_opt.apply_gradients(sparse))
        return dense

    def _accumulate(
        self, grad: Any, var: Any, rank: int, scope: str, sent: list[Operation], accumulators: list[Any]
    ) -> Any:
        """Send this replica's gradient; the average of all replicas'."""
        shape, dtype, shared_name = var.get_shape(), var.dtype.base_dtype, f"{var.name}/{scope}grad_accum"
        if isinstance(grad, IndexedSlices):
            sparse = SparseConditionalAccumulator(dtype, shape, shared_name=shared_name)
            accumulators.append(sparse)
            with get_default_graph().control_dependencies(self._first):
                sent.append(sparse.apply_grad(grad.indices, grad.values, local_step=self._local_step, replica=rank))
            return sparse.take_indexed_slices_grad(self._needed)
        dense = ConditionalAccumulator(dtype, shape, shared_name=shared_name)
        accumulators.append(dense)
        with get_default_graph().control_dependencies(self._first):
            sent.append(dense.apply_grad(grad, local_step=self._local_step, replica=rank))
        return dense.take_grad(self._needed)

    @staticmethod
    def _wait_for_all(graph: Graph, taken: list[Any], held: list[Any]) -> tuple[list[Any], dict[str, Operation]]:
        """The averages, none passed on before all are there, and what waits for that on each device. Each hears it from
        every other one by itself, and none waits for what another one does with it."""
        by_device: dict[str, list[Any]] = {}
        for average, var in zip(taken, held, strict=True):
            if average is not None:
                by_device.setdefault(var.device, []).append((average, var))
        with graph.name_scope("barrier"):
            here = [control_flow.group(*(average for average, _ in some)) for some in by_device.values()]
            gates: dict[str, Operation] = {}
            for device, some in by_device.items():
                with _on(graph, some[0][1]), graph.control_dependencies(here):
                    gates[device] = control_flow.no_op("all_there")
            averages = [
                None if average is None else control_flow.with_dependencies([gates[var.device]], average)
                for average, var in zip(taken, held)
            ]
        return averages, gates

    def _make_tokens(self, worker: DeviceSpec, scope: str) -> None:
        """For each replica its own where all are waited for and have a name, else for all together."""
        ranks, own = [0], _rank(worker)
        named = self._needed == self._total and worker.task is not None
        if named:
            first = min(own, 0)  # a chief of a job of its own comes before worker 0
            ranks = list(range(first, first + self._total))
            if own not in ranks:
                raise ValueError(
                    f"{self._name}: this replica is {worker.to_string()}, but with total_num_replicas={self._total} "
                    f"the last one is task {ranks[-1]}. Set total_num_replicas to the number of replicas"
                )
        self._tokens = Tokens(self._global_step.dtype.base_dtype, scope, ranks, named)
        self._agreement = Agreement(self._needed, self._total, ranks if named else (), own)

    def _take_token(self, graph: Graph, rank: int, sent: list[Operation]) -> Operation:
        assert self._tokens is not None
        with graph.control_dependencies(sent):
            token = self._tokens.take(rank)
        with graph.colocate_with(self._local_step.op):
            return state.assign(self._local_step, token, name="train_op").op

    # ------------------------------------------------------------------ the chief's part

    def get_chief_queue_runner(self) -> QueueRunner:
        """What makes the updates, in a thread of the chief. Raises ValueError before apply_gradients."""
        if self._chief_queue_runner is None:
            raise ValueError("Should be called after apply_gradients().")
        return self._chief_queue_runner

    def get_init_tokens_op(self, num_tokens: int = -1) -> Operation:
        """Puts the first tokens in; the chief runs it once.

        num_tokens: as many as replicas_to_aggregate by default, which lets each replica be a step ahead with gradients
        of old variables; the tokens of one that is late or gone are taken by others, whose gradients make up for it.
        0 makes it fully synchronous where no more gradients are wanted than there are replicas.
        Raises ValueError where so few could never complete the first update.
        """
        if self._tokens is None:
            raise ValueError("get_init_tokens_op() should be called after apply_gradients().")
        wanted = self._needed - self._total
        number = self._needed if num_tokens == -1 else num_tokens
        if number < wanted:
            raise ValueError(f"Too few tokens to finish the first step: {number} (given) vs {wanted} (needed)")
        with _on(get_default_graph(), self._global_step):
            return self._tokens.begin(self._global_step.read_value(), max(number, 0))

    def make_session_run_hook(self, is_chief: bool, num_tokens: int = -1) -> SessionRunHook:
        """The hook that every replica's monitored session needs; the chief's makes the updates."""
        return _SyncReplicasHook(self, is_chief, num_tokens)

    # ------------------------------------------------------------------ the wrapped optimizer's state

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        found = self._opt.get_slot(*args, **kwargs)
        return self._sparse_opt.get_slot(*args, **kwargs) if found is None and self._sparse_opt is not None else found

    def get_slot_names(self, *args: Any, **kwargs: Any) -> list[str]:
        return self._opt.get_slot_names(*args, **kwargs)

    def variables(self) -> list[Any]:
        return self._opt.variables() + (self._sparse_opt.variables() if self._sparse_opt is not None else [])


class _SyncReplicasHook(SessionRunHook):
    """Starts the local step, and on the chief the accumulators, the first tokens and the updates' thread."""

    def __init__(self, optimizer: SyncReplicasOptimizer, is_chief: bool, num_tokens: int):
        self._optimizer, self._is_chief, self._num_tokens = optimizer, is_chief, num_tokens
        self._runner: QueueRunner | None = None
        self._tokens_op: Any = None
        self._agreement: Agreement | None = None

    @property
    def looseness(self) -> str:
        """Why a gradient may not be part of the update of its own step; "" where each is."""
        opt = self._optimizer
        if opt._needed != opt._total:
            return f"replicas_to_aggregate is {opt._needed}, and there are {opt._total} replicas"
        if opt._sparse_opt is not None:
            return "sparse_opt applies gradients of rows at once"
        return f"num_tokens is {self._num_tokens}, not 0: replicas may be a step ahead" if self._num_tokens else ""

    def begin(self) -> None:
        opt = self._optimizer
        if opt._chief_queue_runner is None:
            raise ValueError("SyncReplicasOptimizer.apply_gradients should be called before using the hook.")
        self._init_op = opt.chief_init_op if self._is_chief else opt.local_step_init_op
        self._agreement = None if self._is_chief else opt._agreement
        if self._is_chief:
            self._runner = opt.get_chief_queue_runner()
            self._tokens_op = opt.get_init_tokens_op(self._num_tokens)
            foresee(get_default_graph(), self._init_op, self._tokens_op, *self._runner.enqueue_ops)

    def after_create_session(self, session: Any, coord: Any) -> None:
        missing = not_ready(self._optimizer.ready_for_local_init_op, session)
        if missing:
            raise RuntimeError(f"Init operations did not make model ready for local_init. {missing}")
        session.run(self._init_op)
        if self._agreement is not None:
            self._agreement.check(session)
        if self._runner is not None:
            session.run(self._tokens_op)
            self._runner.create_threads(session, coord=coord, daemon=True, start=True)


# ---------------------------------------------------------------------- devices and ranks


class _on:
    """`with _on(graph, var):` ops go to the device of a variable, whatever device scopes are around."""

    def __init__(self, graph: Graph, var: Any):
        self._reset, self._device = graph.device(None), graph.device(var.device or None)

    def __enter__(self) -> None:
        self._reset.__enter__()
        self._device.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._device.__exit__(*error)
        self._reset.__exit__(*error)


def _wait_behind(gates: dict[str, Operation], averages: list[Any], update: Operation, made: list[Operation]) -> None:
    """Have what an update changes whatever the gradients are, as the decay of weights or of a slot, wait for them too.

    It would be done as soon as the chief asks for the update: while replicas still read, and once more than there were
    updates in what is saved then. made: the ops of the update, in the order in which they were made.
    """
    tensors = [t for a in averages for t in ((a.values, a.indices) if isinstance(a, IndexedSlices) else [a])]
    behind = {*gates.values(), *(t.op for t in tensors if t is not None)}
    initializers, todo = set(made) - {update}, [update]
    while todo:
        op = todo.pop()
        found = {*(t.op for t in op.inputs), *op.control_inputs} & initializers
        initializers -= found
        todo += found
    for op in made:
        if op in initializers:
            continue
        if any(t.op in behind for t in op.inputs) or any(c in behind for c in op.control_inputs):
            behind.add(op)
        elif op._get_control_flow_context() is None and (op.spec.ref_inputs() or op.type in _ENTRANCES):
            op.add_control_input(gates.get(op.device) or next(iter(gates.values())))
            behind.add(op)


def _worker_of(probe: Tensor, pairs: list[tuple[Any, Any]]) -> DeviceSpec:
    """This replica's task: where the current scope puts ops, else where gradients are that sit with no variable."""
    held = {DeviceSpec.from_string(v.device).task_name for _, v in pairs}
    gradients = [DeviceSpec.from_string(g.device) for g, _ in pairs if g is not None]
    places = [DeviceSpec.from_string(probe.device), *(g for g in gradients if g.task_name not in held)]
    found = next((p for p in places if p.task is not None), DeviceSpec())
    return DeviceSpec(found.job, found.replica, found.task)


def _rank(worker: DeviceSpec) -> int:
    """The place in the sum: the chief's job first, then the workers by their index."""
    return -1 if worker.job in _CHIEFS else worker.task or 0
