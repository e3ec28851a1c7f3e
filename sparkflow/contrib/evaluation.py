"""Evaluating checkpoints: one of them, or all that a training writes (tf.contrib.training, tf.contrib.slim)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sparkflow import logging, summary, train
from sparkflow.framework.graph import get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.ops import init_ops, state
from sparkflow.ops.variable_scope import get_variable
from sparkflow.train.checkpoint_watch import checkpoints_iterator
from sparkflow_runtime.wire.dtypes import int64

_EVAL_STEP = "eval_step"


def get_or_create_eval_step() -> Any:
    """The int64 local variable `eval_step`, in the collection EVAL_STEP. ValueError where there are several."""
    found = get_default_graph().get_collection(GraphKeys.EVAL_STEP)
    if len(found) > 1:
        raise ValueError(f"Multiple tensors added to tf.GraphKeys.EVAL_STEP: {found}")
    if found:
        return found[0]
    return get_variable(
        _EVAL_STEP, [], int64, initializer=init_ops.zeros_initializer(), trainable=False,
        collections=[GraphKeys.LOCAL_VARIABLES, GraphKeys.EVAL_STEP],
    )  # fmt: skip


class StopAfterNEvalsHook(train.SessionRunHook):
    """Stops an evaluation after so many runs of eval_ops (None: it goes on to the end of the data)."""

    def __init__(self, num_evals: int | None, log_progress: bool = True):
        self._count, self._logs = num_evals, log_progress
        self._completed: Any = None

    def _set_evals_completed_tensor(self, updated_eval_step: Any) -> None:
        self._completed = updated_eval_step

    def before_run(self, run_context: Any) -> Any:
        return train.SessionRunArgs({"evals_completed": self._completed})

    def after_run(self, run_context: Any, run_values: Any) -> None:
        done = run_values.results["evals_completed"]
        if self._logs:
            logging.info("Evaluation [%d%s]", done, "" if self._count is None else f"/{self._count}")
        if self._count is not None and done >= self._count:
            run_context.request_stop()


class SummaryAtEndHook(train.SessionRunHook):
    """Writes the summaries (all, or summary_op) when the session ends. ValueError without a place for them."""

    def __init__(self, log_dir: str | None = None, summary_writer: Any = None, summary_op: Any = None,
                 feed_dict: Any = None):  # fmt: skip
        if log_dir is None and summary_writer is None:
            raise ValueError("One of log_dir or summary_writer should be used.")
        self._dir, self._writer, self._feed = log_dir, summary_writer, feed_dict
        self._op, self._all = summary_op, summary_op is None

    def begin(self) -> None:
        self._op = summary.merge_all() if self._all else self._op
        self._step = train.get_or_create_global_step()

    def after_create_session(self, session: Any, coord: Any) -> None:
        if self._writer is None:
            self._writer = summary.FileWriterCache.get(str(self._dir))
            self._writer.add_graph(get_default_graph())

    def end(self, session: Any) -> None:
        if self._op is not None:
            step = train.global_step(session, self._step)
            self._writer.add_summary(session.run(self._op, self._feed), step)
        self._writer.flush()


def _counted(eval_ops: Any, hooks: Sequence[Any]) -> Any:
    """eval_ops, and one more that counts their runs, which the hooks are told of."""
    update = state.assign_add(get_or_create_eval_step(), 1)
    for hook in hooks:
        if isinstance(hook, StopAfterNEvalsHook):
            hook._set_evals_completed_tensor(update)
    if isinstance(eval_ops, dict):
        return {**eval_ops, "update_eval_step": update}
    return [*(eval_ops if isinstance(eval_ops, (list, tuple)) else [eval_ops]), update]


def _evaluated(
    paths: Iterable[str], master: str, scaffold: Any, eval_ops: Any, feed_dict: Any, final_ops: Any,
    final_ops_feed_dict: Any, hooks: Sequence[Any] | None, config: Any, most: int | None,
) -> Any:  # fmt: skip
    given = list(hooks or ())
    if eval_ops is not None:
        eval_ops = _counted(eval_ops, given)
    final = train.FinalOpsHook(final_ops, final_ops_feed_dict)
    for number, path in enumerate(paths, 1):
        creator = train.ChiefSessionCreator(scaffold, master, config, checkpoint_filename_with_path=path)
        logging.info("Starting evaluation of %s at %s", path, time.strftime("%Y-%m-%d-%H:%M:%S", time.gmtime()))
        with train.MonitoredSession(creator, [*given, final]) as session:
            while eval_ops is not None and not session.should_stop():
                session.run(eval_ops, feed_dict)
        logging.info("Finished evaluation at %s", time.strftime("%Y-%m-%d-%H:%M:%S", time.gmtime()))
        if number == most:
            break
    return final.final_ops_values


def evaluate_once(
    checkpoint_path: str, master: str = "", scaffold: Any = None, eval_ops: Any = None, feed_dict: Any = None,
    final_ops: Any = None, final_ops_feed_dict: Any = None, hooks: Sequence[Any] | None = None, config: Any = None,
) -> Any:  # fmt: skip
    """The values of final_ops, after eval_ops were run, as long as no hook stops it, with a checkpoint's variables."""
    return _evaluated(
        [checkpoint_path], master, scaffold, eval_ops, feed_dict, final_ops, final_ops_feed_dict, hooks, config, 1
    )


def evaluate_repeatedly(
    checkpoint_dir: str, master: str = "", scaffold: Any = None, eval_ops: Any = None, feed_dict: Any = None,
    final_ops: Any = None, final_ops_feed_dict: Any = None, eval_interval_secs: float = 60,
    hooks: Sequence[Any] | None = None, config: Any = None, max_number_of_evaluations: int | None = None,
    timeout: float | None = None, timeout_fn: Callable[[], bool] | None = None,
) -> Any:  # fmt: skip
    """evaluate_once of each new checkpoint of a folder; see checkpoints_iterator for its end."""
    paths = checkpoints_iterator(checkpoint_dir, eval_interval_secs, timeout, timeout_fn)
    return _evaluated(
        paths, master, scaffold, eval_ops, feed_dict, final_ops, final_ops_feed_dict, hooks, config,
        max_number_of_evaluations,
    )  # fmt: skip


# What TensorFlow calls these within: tf_slim takes them from there.
_StopAfterNEvalsHook, _evaluate_once, _get_or_create_eval_step = (
    StopAfterNEvalsHook,
    evaluate_once,
    get_or_create_eval_step,
)
