"""tf.contrib.slim.learning: the training loop of slim."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sparkflow import logging, summary
from sparkflow import train as training
from sparkflow.contrib import train_ops
from sparkflow.contrib.internals import write_string_to_file
from sparkflow.contrib.train_ops import (
    GLOBAL_STEP,
    Pairs,
    add_gradients_summaries,
    clip_gradient_norms,
    multiply_gradients,
)
from sparkflow.framework.apply import constant
from sparkflow.framework.graph import Graph, Tensor, get_default_graph
from sparkflow.ops import control_flow, lookup_initializers, math, variables
from sparkflow.ops.array_join import concat
from sparkflow.session.timeline import Timeline
from sparkflow.train.supervisor import USE_DEFAULT
from sparkflow_runtime.wire.errors import AbortedError, OutOfRangeError
from sparkflow_runtime.wire.protos import RunMetadata, RunOptions


def create_train_op(
    total_loss: Tensor, optimizer: Any, global_step: Any = GLOBAL_STEP, update_ops: Sequence[Any] | None = None,
    variables_to_train: Sequence[Any] | None = None, clip_gradient_norm: float = 0, summarize_gradients: bool = False,
    gate_gradients: int = training.Optimizer.GATE_OP, aggregation_method: int | None = None,
    colocate_gradients_with_ops: bool = False, gradient_multipliers: Mapping[Any, Any] | None = None,
    check_numerics: bool = True,
) -> Tensor:  # fmt: skip
    """tf.contrib.training.create_train_op, each gradient multiplied, then clipped to a norm above 0 by itself."""

    def changed(pairs: Pairs) -> Pairs:
        if gradient_multipliers:
            with get_default_graph().name_scope("multiply_grads"):
                pairs = multiply_gradients(pairs, gradient_multipliers)
        if clip_gradient_norm > 0:
            with get_default_graph().name_scope("clip_grads"):
                pairs = clip_gradient_norms(pairs, clip_gradient_norm)
        return pairs

    return train_ops.create_train_op(
        total_loss, optimizer, global_step, update_ops, variables_to_train, changed, summarize_gradients,
        gate_gradients, aggregation_method, colocate_gradients_with_ops, check_numerics,
    )  # fmt: skip


def train_step(sess: Any, train_op: Any, global_step: Any, train_step_kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
    """(loss, whether to stop) of one step. train_step_kwargs: tensors should_stop, should_log and should_trace (with a
    logdir for tf_trace-<step>.json, and a summary_writer), each of which may be left out."""
    began, options, metadata = time.monotonic(), None, None
    if "should_trace" in train_step_kwargs:
        if "logdir" not in train_step_kwargs:
            raise ValueError("logdir must be present in train_step_kwargs when should_trace is present")
        if sess.run(train_step_kwargs["should_trace"]):
            options, metadata = RunOptions(trace_level=RunOptions.FULL_TRACE), RunMetadata()
    loss, step = sess.run([train_op, global_step], options=options, run_metadata=metadata)
    took_s = time.monotonic() - began
    writer = train_step_kwargs.get("summary_writer")
    if metadata is not None:
        path = os.path.join(train_step_kwargs["logdir"], f"tf_trace-{int(step)}.json")
        logging.info("Writing trace to %s", path)
        write_string_to_file(path, Timeline(metadata.step_stats).generate_chrome_trace_format())
        if writer is not None:
            writer.add_run_metadata(metadata, f"run_metadata-{int(step)}")
    if "should_log" in train_step_kwargs and sess.run(train_step_kwargs["should_log"]):
        logging.info("global step %d: loss = %.4f (%.3f sec/step)", step, loss, took_s)
    return loss, sess.run(train_step_kwargs["should_stop"]) if "should_stop" in train_step_kwargs else False


def _step_kwargs(step: Any, logdir: Any, number_of_steps: Any, log_every: int, trace_every: int | None) -> Any:
    with get_default_graph().name_scope("train_step"):
        made: dict[str, Any] = {
            "should_stop": math.greater_equal(step, number_of_steps) if number_of_steps else constant(False)
        }
        if log_every > 0:
            made["should_log"] = math.equal(math.mod(step, log_every), 0)
        if trace_every is not None:
            made.update(should_trace=math.equal(math.mod(step, trace_every), 0), logdir=logdir)
    return made


def train(
    train_op: Any, logdir: str | None, train_step_fn: Callable[..., tuple[Any, Any]] = train_step,
    train_step_kwargs: Any = USE_DEFAULT, log_every_n_steps: int = 1, graph: Graph | None = None, master: str = "",
    is_chief: bool = True, global_step: Any = None, number_of_steps: int | None = None, init_op: Any = USE_DEFAULT,
    init_feed_dict: Any = None, local_init_op: Any = USE_DEFAULT, init_fn: Callable[[Any], None] | None = None,
    ready_op: Any = USE_DEFAULT, summary_op: Any = USE_DEFAULT, save_summaries_secs: float = 600,
    summary_writer: Any = USE_DEFAULT, startup_delay_steps: int = 0, saver: Any = None,
    save_interval_secs: float = 600, sync_optimizer: Any = None, session_config: Any = None,
    session_wrapper: Callable[[Any], Any] | None = None, trace_every_n_steps: int | None = None,
    ignore_live_threads: bool = False,
) -> Any:  # fmt: skip
    """Run train_op by train_step_fn until it says to stop (at number_of_steps of the global step), the data ends, or
    the Supervisor stops; save the model in logdir; the last loss.

    Raises ValueError on a train_op of None, something to save without a logdir, number_of_steps below 1, and delayed
    replicas of a SyncReplicasOptimizer.
    """
    _refuse(train_op, logdir, summary_op, saver, trace_every_n_steps, number_of_steps)
    if sync_optimizer is not None and startup_delay_steps > 0:
        raise ValueError("startup_delay_steps must be zero when sync_optimizer is supplied.")
    syncs = _listed(sync_optimizer)
    graph = graph or get_default_graph()
    with graph.as_default():
        step = training.get_or_create_global_step() if global_step is None else global_step
        saver = saver or training.Saver()
        local, ready_for_local = _local_init(syncs, is_chief, local_init_op)
        if summary_op is USE_DEFAULT:
            summary_op = summary.merge_all()
        tokens = [(opt.get_chief_queue_runner(), opt.get_init_tokens_op()) for opt in syncs] if is_chief else []
        if train_step_kwargs is USE_DEFAULT:
            traces = trace_every_n_steps if is_chief else None
            train_step_kwargs = _step_kwargs(step, logdir, number_of_steps, log_every_n_steps, traces)
    supervisor = training.Supervisor(
        graph=graph, is_chief=is_chief, logdir=logdir, init_op=init_op, init_feed_dict=init_feed_dict,
        local_init_op=local, ready_for_local_init_op=ready_for_local, ready_op=ready_op, summary_op=summary_op,
        summary_writer=summary_writer, global_step=step, saver=saver, save_summaries_secs=save_summaries_secs,
        save_model_secs=save_interval_secs, init_fn=init_fn,
    )  # fmt: skip
    if summary_writer is not None:
        train_step_kwargs["summary_writer"] = supervisor.summary_writer
    waits_for = 0 if is_chief else min(startup_delay_steps, number_of_steps or sys.maxsize)

    def run(sess: Any) -> Any:
        sess = session_wrapper(sess) if session_wrapper is not None else sess
        if is_chief and logdir:
            supervisor.start_standard_services(sess)
        while waits_for and training.global_step(sess, step) < waits_for:
            time.sleep(1.0)
        for runner, op in tokens:
            supervisor.start_queue_runners(sess, [runner])
            sess.run(op)
        return _steps(supervisor, sess, train_op, step, train_step_fn, train_step_kwargs)

    def end(sess: Any) -> None:
        if logdir and is_chief:
            logging.info("Finished training! Saving model to disk.")
            supervisor.saver.save(sess, supervisor.save_path, global_step=step)
            supervisor.stop(ignore_live_threads=ignore_live_threads)

    return _until_done(supervisor, master, session_config, run, end)


def _until_done(
    supervisor: Any, master: str, config: Any, run: Callable[[Any], Any], end: Callable[[Any], None]
) -> Any:
    """What run(session) gives, in a new session where a lost task ended the one before."""
    while True:
        try:
            with supervisor.managed_session(master, config, start_standard_services=False) as session:
                result = run(session)
                end(session)
            return result
        except AbortedError:
            logging.info("Retrying training!")


def _refuse(train_op: Any, logdir: Any, summary_op: Any, saver: Any, traces: Any, number_of_steps: Any) -> None:
    if train_op is None:
        raise ValueError("train_op cannot be None.")
    given = {
        "summary_op": None if summary_op is USE_DEFAULT else summary_op, "saver": saver, "trace_every_n_steps": traces,
    }  # fmt: skip
    for label, value in given.items():
        if logdir is None and value is not None:
            raise ValueError(f"Cannot provide {label} because logdir=None")
    if number_of_steps is not None and number_of_steps <= 0:
        raise ValueError(f"`number_of_steps` must be either None or a positive number, got {number_of_steps}.")


def _steps(supervisor: Any, sess: Any, train_op: Any, step: Any, function: Any, settings: Any) -> Any:
    """The last loss."""
    loss = None
    try:
        while not supervisor.should_stop():
            loss, stops = function(sess, train_op, step, settings)
            if stops:
                logging.info("Stopping Training.")
                supervisor.request_stop()
                break
    except OutOfRangeError as error:
        logging.info("Caught OutOfRangeError. Stopping Training. %s", error)
    return loss


def _listed(sync_optimizer: Any) -> list[Any]:
    given = [] if sync_optimizer is None else sync_optimizer
    found = list(given) if isinstance(given, (list, tuple)) else [given]
    for opt in found:
        if not isinstance(opt, training.SyncReplicasOptimizer):
            raise ValueError(f"`sync_optimizer` must be a tf.train.SyncReplicasOptimizer, got {opt!r}.")
    return found


def _local_init(syncs: Sequence[Any], is_chief: bool, given: Any) -> tuple[Any, Any]:
    """(local_init_op, ready_for_local_init_op)."""
    with get_default_graph().name_scope("init_ops"):
        if given is USE_DEFAULT:
            given = control_flow.group(
                variables.local_variables_initializer(), lookup_initializers.tables_initializer()
            )
        if not syncs:
            return given, None
        with get_default_graph().control_dependencies([] if given is None else [given]):
            own = [opt.chief_init_op if is_chief else opt.local_step_init_op for opt in syncs]
            local = control_flow.group(*own)
        return local, concat([opt.ready_for_local_init_op for opt in syncs], 0)
