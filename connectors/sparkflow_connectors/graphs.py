"""The graphs of a job, built from its model function: training with its input queue, evaluation, prediction."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import cloudpickle

import sparkflow as tf
from sparkflow import experimental
from sparkflow.distribute import broadcast_global_variables, cluster_resolver
from sparkflow.distribute import experimental as strategies
from sparkflow.saved_model.assets import constant_paths
from sparkflow_connectors.assembly import assembled, op_name, placeholders
from sparkflow_connectors.feeding import JOIN
from sparkflow_connectors.initial import own_init_ops
from sparkflow_connectors.job import ALL_REDUCE, Job
from sparkflow_connectors.predictions import arrow_type, by_name
from sparkflow_connectors.sync_check import check_sync
from sparkflow_runtime.wire.errors import InvalidArgumentError

_JOIN_GROUP = 0x5F10  # a group of its own, apart from the model's
_INPUT = "sparkflow_input"  # a column may be called as one of the model's variables
EVAL_BATCH = 8192


@dataclass
class TrainingGraph:
    """What a worker runs. Everything that is shared lives on the parameter servers, the input queue with its worker."""

    graph: Any
    spec: Any  # EstimatorSpec of TRAIN
    queue: InputQueue
    global_step: Any
    train_op: Any
    position: Any  # [workers, 3] int64: epoch, step, batch size of each worker
    position_rank: Any  # placeholder: this worker's row
    set_positions: Any
    positions: Any  # placeholder: all rows
    board: Board
    best: Any  # [2] float64: validation loss and global step of the best epoch
    set_best: Any
    best_value: Any
    loss_summary: Any
    join: Any  # gives the chief's model to all workers; None where the servers hold it


@dataclass
class InputQueue:
    """The queue of rows: a component of the job's layout is a component of it."""

    inputs: list[Any]  # placeholders of rows
    enqueue: Any
    close: Any
    taken: list[Any]  # a batch
    batch_rows: Any  # how many rows a batch has, to be fed where it is not full; None where all batches are full
    size: Any
    discard: Any  # takes `discarded` rows
    discarded: Any


@dataclass
class Board:
    """How workers meet between epochs: a barrier of queues, and a row of evaluation sums for each.

    rows: what they know of their rows (pace.Board). marks: how each one's first pass is known again (feeding.Mark).
    """

    arrive: Any
    leave: Any
    sums: Any
    post: Any
    row: Any
    stop: Any
    set_stop: Any
    stop_value: Any
    ready: Any  # enqueued once for every worker that waits for the chief
    announce_ready: Any
    rows: Any
    post_rows: Any
    rows_value: Any
    post_mark: Any
    mark_value: Any


def call_model_fn(job: Job, features: dict[str, Any], labels: Any, mode: str, config: Any) -> Any:
    """The EstimatorSpec. Raises InvalidArgumentError when the model function returns something else."""
    known = inspect.signature(job.model_fn).parameters
    extra = {k: v for k, v in {"params": dict(job.params), "config": config}.items() if k in known}
    spec = job.model_fn(features, labels, mode, **extra)
    if not isinstance(spec, tf.estimator.EstimatorSpec):
        raise InvalidArgumentError(
            f"The model function must return tf.estimator.EstimatorSpec, got {type(spec).__name__}"
        )
    return spec


def _config(job: Job, rank: int, cluster: dict[str, Sequence[str]]) -> Any:
    config = tf.estimator.RunConfig(model_dir=job.checkpoint_dir, tf_random_seed=job.seed)
    return config.of_task(cluster, "worker", rank)


def _together(job: Job, cluster: dict[str, Sequence[str]]) -> Any:
    """In which the model function's optimizer applies the mean of all workers' gradients, where nobody else adds them
    up."""
    if job.strategy != ALL_REDUCE:
        return nullcontext()
    return strategies.MultiWorkerMirroredStrategy(
        cluster_resolver=cluster_resolver.SimpleClusterResolver(tf.train.ClusterSpec(cluster))
    ).scope()


def training_graph(job: Job, rank: int, cluster: dict[str, Sequence[str]]) -> TrainingGraph:
    """Build the graph of worker `rank`. All workers build the same variables in the same order on the same servers."""
    graph = tf.Graph()
    worker = f"/job:worker/task:{rank}"
    config = _config(job, rank, cluster)
    where = tf.train.replica_device_setter(cluster=cluster, worker_device=worker) or worker
    # Float32 is how it travels anyway: nodes that say so look different from those that do not.
    carried = nullcontext() if job.carried_as == "float32" else experimental.carried_as(job.carried_as)
    with graph.as_default(), tf.device(where), carried:
        tf.set_random_seed(job.seed)
        global_step = tf.train.get_or_create_global_step()
        with tf.name_scope(_INPUT), tf.device(worker):
            queue = input_queue(job)
            features, labels = assembled(job.columns, _columns(job, queue.taken))
        with _together(job, cluster):
            spec = call_model_fn(job, features, labels, tf.estimator.ModeKeys.TRAIN, config)
        tf.summary.scalar("loss", spec.loss)
        summary = tf.summary.merge_all()
        shared = job.shared_device if job.strategy == ALL_REDUCE else None  # otherwise as the setter says
        join = _join(job, rank)
        with tf.variable_scope("sparkflow_job"), tf.device(shared) if shared else nullcontext():
            position, positions, set_positions, rank_row, advance = _positions(job, rank)
            best, best_value, set_best = _assignable("best", [2], tf.float64, [float("inf"), -1.0])
            board = _board(job, rank)
        with tf.control_dependencies([spec.train_op]):
            train_op = tf.no_op("train_op") if job.sync else tf.group(advance, name="train_op")
    return TrainingGraph(
        graph, spec, queue, global_step, train_op, position, rank_row, set_positions,
        positions, board, best, set_best, best_value, summary, join,
    )  # fmt: skip


@dataclass
class EvaluationGraph:
    """The EVAL graph of a worker: a graph of its own over the variables of the training graph, which they share by
    name."""

    graph: Any
    inputs: dict[str, Any]
    loss: Any
    init: list[Any]  # initializes what is its session's own, see initial.py


def evaluation_graph(job: Job, rank: int, cluster: dict[str, Sequence[str]], trained: Any) -> EvaluationGraph:
    """Build the EVAL graph of worker `rank`; `trained` is its training graph.

    Raises InvalidArgumentError for a variable that training has not, or has with another shape or dtype.
    """
    variables = {v.op.name: v for v in trained.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)}
    worker = f"/job:worker/task:{rank}"

    def device(op: Any) -> str:
        return str(variables[op.name].device) if op.name in variables else worker

    def apart(make: Callable[..., Any], **asked: Any) -> Any:
        """Local variables are this graph's own: by their names they would be training's, whose replica's step (a model
        function may make its train_op in any mode) would begin again."""
        own = tf.GraphKeys.LOCAL_VARIABLES in (asked.get("collections") or ())
        with graph.container("evaluation") if own else nullcontext():
            return make(**asked)

    graph = tf.Graph()
    with graph.as_default(), tf.device(device), tf.variable_creator_scope(apart):
        tf.set_random_seed(job.seed)
        tf.train.get_or_create_global_step()
        with tf.name_scope(_INPUT):
            inputs = placeholders(job.columns)
            features, labels = assembled(job.columns, inputs)
        spec = call_model_fn(job, features, labels, tf.estimator.ModeKeys.EVAL, _config(job, rank, cluster))
        for v in tf.global_variables():
            _check_trained(v, variables.get(v.op.name))
        return EvaluationGraph(graph, inputs, spec.loss, own_init_ops(spec))


def _check_trained(variable: Any, trained: Any) -> None:
    name, shape, dtype = variable.op.name, variable.shape.as_list(), variable.dtype.base_dtype
    if trained is None:
        raise InvalidArgumentError(
            f"Evaluation uses variable {name!r}, which training has not: the model function must give its variables "
            "the same names in every mode"
        )
    if (shape, dtype) != (trained.shape.as_list(), trained.dtype.base_dtype):
        raise InvalidArgumentError(
            f"Variable {name!r} is {dtype.name}{shape} in evaluation and "
            f"{trained.dtype.base_dtype.name}{trained.shape.as_list()} in training"
        )


def check_model(job: Job, prediction: PredictionGraph) -> None:
    """Build the graphs that the workers will build, so that an error of the model function is raised here, as itself
    and with its traceback, before anything starts.

    Raises InvalidArgumentError where the graphs do not fit each other, the job, or a process of another machine.
    """
    try:
        cloudpickle.dumps(job.model_fn)
    except Exception as error:
        raise InvalidArgumentError(
            f"The model function cannot be sent to the workers ({type(error).__name__}: {error}): it may not hold "
            "sessions, locks or open files"
        ) from error
    cluster = job.cluster([f"ps:{i}" for i in range(job.ps)], [f"worker:{i}" for i in range(job.workers)])
    trained = training_graph(job, 0, cluster)
    check_sync(job, trained.graph, trained.spec)
    if job.validation:
        evaluation_graph(job, 0, cluster, trained.graph)
    shapes = shapes_of_variables(trained.graph)
    for name, shape in prediction.variables.items():
        if name not in shapes:
            raise InvalidArgumentError(f"Prediction uses variable {name!r}, which training has not")
        if shapes[name] != shape:
            raise InvalidArgumentError(
                f"Variable {name!r} has shape {list(shape)} in prediction and {list(shapes[name])} in training"
            )


def _join(job: Job, rank: int) -> Any:
    """All of the model's variables, as the chief initialised or restored them, on every worker."""
    if job.strategy != ALL_REDUCE or job.workers == 1:
        return None
    return broadcast_global_variables(rank == 0, job.workers, _JOIN_GROUP, job.step_timeout_s)


def _as_list(values: Any) -> list[Any]:
    return list(values) if isinstance(values, (list, tuple)) else [values]


def input_queue(job: Job) -> InputQueue:
    components, rows = job.layout.components, job.plan(0).queue_rows
    inputs = [tf.placeholder(c.dtype, [None, *c.shape], name=op_name(c.name) + "_rows") for c in components]
    types, shapes = [c.dtype for c in components], [c.shape for c in components]
    queue = tf.FIFOQueue(rows, types, shapes=shapes, shared_name=f"input_{job.run_id}")
    batch_rows = None
    if job.uneven == JOIN:
        batch_rows = tf.placeholder_with_default(tf.constant(job.batch_size), [], name="batch_rows")
    taken = _as_list(queue.dequeue_many(job.batch_size if batch_rows is None else batch_rows))
    discarded = tf.placeholder(tf.int32, [], name="discarded_rows")
    discard = tf.group(*_as_list(queue.dequeue_many(discarded)), name="discard")
    close = queue.close(cancel_pending_enqueues=True)
    return InputQueue(inputs, queue.enqueue_many(inputs), close, taken, batch_rows, queue.size(), discard, discarded)


def _columns(job: Job, taken: list[Any]) -> dict[str, Any]:
    """Each column of a batch, in the order of the table's."""
    found: dict[str, Any] = {}
    for component, tensor in zip(job.layout.components, taken, strict=True):
        parts = tf.unstack(tensor, len(component.columns), 1) if component.packed else [tensor]
        found.update(zip(component.columns, parts, strict=True))
    return {name: found[name] for name in job.columns.all}


def _assignable(name: str, shape: list[int], dtype: Any, initial: Any) -> tuple[Any, Any, Any]:
    """A variable, the placeholder of its next value, and the assignment."""
    start = tf.constant_initializer(initial)
    variable = tf.get_variable(name, shape, dtype, initializer=start, trainable=False)
    value = tf.placeholder(dtype, shape, name=name + "_value")
    return variable, value, variable.assign(value).op


def _positions(job: Job, rank: int) -> tuple[Any, Any, Any, Any, Any]:
    variable, everyone, set_all = _assignable("position", [job.workers, 3], tf.int64, 0)
    row = tf.placeholder(tf.int64, [3], name="position_row")
    return variable, everyone, set_all, row, tf.scatter_update(variable, [rank], tf.expand_dims(row, 0)).op


def _board(job: Job, rank: int) -> Board:
    """The queues are all on the first server: a barrier is one place where everybody passes."""
    with tf.device(job.shared_device):
        doors = [tf.FIFOQueue(2 * job.workers, [tf.int32], [()], shared_name=f"door_{i}") for i in range(job.workers)]
        ready = tf.FIFOQueue(job.workers, [tf.int32], [()], shared_name="ready")
        arrive = tf.group(*[door.enqueue(rank) for door in doors], name="arrive")
        leave = doors[rank].dequeue_many(job.workers, name="leave")
        announce = ready.enqueue_many([tf.zeros([job.workers - 1], tf.int32)], name="announce_ready")
        ready_token = ready.dequeue(name="wait_until_ready")
    sums = tf.get_variable(
        "evaluation", [job.workers, 2], tf.float64, initializer=tf.zeros_initializer(), trainable=False
    )
    row = tf.placeholder(tf.float64, [2], name="evaluation_row")
    post = tf.scatter_update(sums, [rank], tf.expand_dims(row, 0)).op
    stop, stop_value, set_stop = _assignable("stop", [1], tf.int32, 0)
    rows = _rows_of_workers(job, rank, "rows", -1)
    marks = _rows_of_workers(job, rank, "marks", 0)
    return Board(arrive, leave, sums, post, row, stop, set_stop, stop_value, ready_token, announce, *rows, *marks[1:])


def _rows_of_workers(job: Job, rank: int, name: str, initial: int) -> tuple[Any, Any, Any]:
    """A variable of two numbers a worker, how to write this one's, and the placeholder for that."""
    start = tf.constant_initializer(initial)
    table = tf.get_variable(name, [job.workers, 2], tf.int64, initializer=start, trainable=False)
    row = tf.placeholder(tf.int64, [2], name=name + "_row")
    return table, tf.scatter_update(table, [rank], tf.expand_dims(row, 0)).op, row


@dataclass(frozen=True)
class PredictionGraph:
    """A model that scores: its GraphDef, and what to feed, fetch and restore, by name. It needs no training code.

    inputs: tensors of the columns -> tensors of the graph. restore_op: "" where there is nothing to restore. init_ops:
    run after it, fed with assets: tensor -> the path of a file.
    """

    graph_def: bytes = field(repr=False)
    inputs: dict[str, str]
    outputs: dict[str, str]
    output_dtypes: dict[str, Any]
    output_shapes: dict[str, tuple[int | None, ...]]
    restore_op: str
    filename_tensor: str
    variables: dict[str, tuple[int | None, ...]]
    init_ops: tuple[str, ...] = ()
    assets: dict[str, str] = field(default_factory=dict)

    def with_outputs(self, outputs: dict[str, Any]) -> PredictionGraph:
        """The same with these tensors as predictions. Raises InvalidArgumentError on one without a row an example."""
        return replace(self, **_described(outputs))


def prediction_graph(job: Job) -> PredictionGraph:
    """Build the PREDICT graph. Raises what the model function raises, at the driver, before anything starts."""
    graph = tf.Graph()
    columns = job.columns.without_label()
    with graph.as_default():
        with tf.name_scope(_INPUT):
            inputs = placeholders(columns)
            features, _ = assembled(columns, inputs)
        config = _config(job, 0, job.cluster(["ps:0"] * job.ps, ["worker:0"] * job.workers))
        spec = call_model_fn(job, features, None, tf.estimator.ModeKeys.PREDICT, config)
        outputs = by_name(spec.predictions)
        outputs = {name: tf.identity(t, name=f"output/{op_name(name)}") for name, t in outputs.items()}
        _check_variables(graph)
        saver, init = tf.train.Saver().as_saver_def(), own_init_ops(spec)
        assets = constant_paths(tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS))
    for name in outputs:
        if name in columns.sources:
            raise InvalidArgumentError(f"Prediction {name!r} has the name of a feature; give it another")
    return PredictionGraph(
        graph_def=graph.as_graph_def().SerializeToString(),
        inputs={name: t.name for name, t in inputs.items()},
        restore_op=saver.restore_op_name,
        filename_tensor=saver.filename_tensor_name,
        variables=shapes_of_variables(graph),
        init_ops=tuple(op.name for op in init),
        assets=assets,
        **_described(outputs),
    )


def _check_variables(graph: Any) -> None:
    """Raises InvalidArgumentError on a graph of which a checkpoint would hold nothing."""
    if not graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES) + graph.get_collection(tf.GraphKeys.SAVEABLE_OBJECTS):
        raise InvalidArgumentError(
            "The model function makes no variable for predictions (mode='infer'), so nothing that is trained would be "
            "in them. Compute the predictions of the variables that it trains"
        )


def shapes_of_variables(graph: Any) -> dict[str, tuple[int | None, ...]]:
    """By the names that they have in checkpoints, where a partitioned one is whole."""
    found: dict[str, tuple[int | None, ...]] = {}
    for variable in graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES):
        whole = variable._get_save_slice_info()
        name, dims = (whole.full_name, whole.full_shape) if whole else (variable.op.name, variable.shape.as_list())
        found[name] = tuple(dims)
    return found


def _described(outputs: dict[str, Any]) -> dict[str, Any]:
    """The fields of PredictionGraph that say what these tensors are."""
    for name, tensor in outputs.items():
        if tensor.shape.ndims is None or tensor.shape.ndims < 1 or tensor.shape.as_list()[0] is not None:
            raise InvalidArgumentError(
                f"Prediction {name!r} must have one row an example, got shape {tensor.shape}. Compute it of the "
                "features row by row; what is the same for all rows is no prediction"
            )
        arrow_type(name, tensor.dtype, tensor.shape.as_list()[1:])
    return {
        "outputs": {name: t.name for name, t in outputs.items()},
        "output_dtypes": {name: t.dtype.base_dtype for name, t in outputs.items()},
        "output_shapes": {name: tuple(t.shape.as_list()[1:]) for name, t in outputs.items()},
    }
