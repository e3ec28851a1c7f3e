"""tf.contrib.slim.evaluation: checkpoints evaluated by metrics' update ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sparkflow.contrib import evaluation as _evaluation
from sparkflow.contrib.evaluation import checkpoints_iterator
from sparkflow.train import Scaffold
from sparkflow.train.checkpoint_watch import wait_for_new_checkpoint
from sparkflow.train.monitored_training import USE_DEFAULT
from sparkflow.train.saver import Saver

__all__ = ["checkpoints_iterator", "evaluate_once", "evaluation_loop", "wait_for_new_checkpoint"]


def _scaffold(initial_op: Any, variables_to_restore: Sequence[Any] | None) -> Scaffold:
    saver = None if variables_to_restore is None else Saver(variables_to_restore)
    return Scaffold(init_op=initial_op, saver=saver)


def evaluate_once(
    master: str, checkpoint_path: str, logdir: str | None, num_evals: int = 1, initial_op: Any = None,
    initial_op_feed_dict: Any = None, eval_op: Any = None, eval_op_feed_dict: Any = None, final_op: Any = None,
    final_op_feed_dict: Any = None, summary_op: Any = USE_DEFAULT, summary_op_feed_dict: Any = None,
    variables_to_restore: Sequence[Any] | None = None, session_config: Any = None,
    hooks: Sequence[Any] | None = None,
) -> Any:  # fmt: skip
    """The value of final_op, after num_evals runs of eval_op with a checkpoint's variables; summaries in logdir."""
    return _evaluation.evaluate_once(
        checkpoint_path, master, _scaffold(initial_op, variables_to_restore), eval_op, eval_op_feed_dict, final_op,
        final_op_feed_dict, _hooks(num_evals, summary_op, summary_op_feed_dict, logdir, hooks), session_config,
    )  # fmt: skip


def evaluation_loop(
    master: str, checkpoint_dir: str, logdir: str | None, num_evals: int = 1, initial_op: Any = None,
    initial_op_feed_dict: Any = None, init_fn: Any = None, eval_op: Any = None, eval_op_feed_dict: Any = None,
    final_op: Any = None, final_op_feed_dict: Any = None, summary_op: Any = USE_DEFAULT,
    summary_op_feed_dict: Any = None, variables_to_restore: Sequence[Any] | None = None,
    eval_interval_secs: float = 60, max_number_of_evaluations: int | None = None, session_config: Any = None,
    timeout: float | None = None, timeout_fn: Callable[[], bool] | None = None, hooks: Sequence[Any] | None = None,
) -> Any:  # fmt: skip
    """evaluate_once of each new checkpoint of a folder; see checkpoints_iterator for its end."""
    return _evaluation.evaluate_repeatedly(
        checkpoint_dir, master, _scaffold(initial_op, variables_to_restore), eval_op, eval_op_feed_dict, final_op,
        final_op_feed_dict, eval_interval_secs, _hooks(num_evals, summary_op, summary_op_feed_dict, logdir, hooks),
        session_config, max_number_of_evaluations, timeout, timeout_fn,
    )  # fmt: skip


def _hooks(num_evals: int, summary_op: Any, feed_dict: Any, logdir: str | None, hooks: Sequence[Any] | None) -> Any:
    made: list[Any] = [_evaluation.StopAfterNEvalsHook(num_evals)]
    if logdir is not None and summary_op is not None:
        chosen = None if summary_op is USE_DEFAULT else summary_op
        made.append(_evaluation.SummaryAtEndHook(logdir, summary_op=chosen, feed_dict=feed_dict))
    return [*made, *(hooks or ())]
