"""Where iterators stand, in checkpoints: a job that goes on from one goes on in its data."""

from __future__ import annotations

import logging
import os
from typing import Any

from sparkflow.data.iterator import FedIterator, Iterator, iterators
from sparkflow.framework.graph import Operation
from sparkflow.ops.script import py_func_of_session
from sparkflow.train.checkpoint_state import checkpoint_exists, get_checkpoint_state
from sparkflow.train.hooks import SecondOrStepTimer, global_step_tensor
from sparkflow.train.saveable_object import SaveableObject, SaveSpec
from sparkflow.train.saver import Saver
from sparkflow.train.session_run_hook import SessionRunContext, SessionRunHook, SessionRunValues
from sparkflow_runtime.wire import dtypes

_log = logging.getLogger(__name__)
_POLICIES = (None, "fail", "warn", "ignore")


class _IteratorSaveable(SaveableObject):
    def __init__(self, iterator: Iterator):
        self._iterator, resource = iterator, iterator._iterator_resource
        (stands,) = py_func_of_session(
            iterator._position, [], [dtypes.string], iterator._name, f"{resource.op.name}_SerializeIterator"
        )
        stands.set_shape(())
        super().__init__(resource, [SaveSpec(stands, "", f"{resource.op.name}_STATE")], resource.op.name)

    def restore(self, restored_tensors: list[Any], restored_shapes: Any) -> Operation:
        name = f"{self.name}_DeserializeIterator"
        made = py_func_of_session(self._iterator._go_to, restored_tensors, [], self._iterator._name, name)
        return made if isinstance(made, Operation) else made.op


def make_saveable_from_iterator(iterator: Iterator, external_state_policy: str | None = None) -> SaveableObject:
    """For a Saver: where the iterator stands in its dataset. Add it to the collection SAVEABLE_OBJECTS, and run the
    iterator's initializer before what restores it, which raises FailedPreconditionError otherwise.

    After that it gives the elements that it would have given, shuffles without a seed included, as long as the dataset
    is the same one. It goes again through the elements in front of the last batch and of maps that remember nothing;
    Python functions are called again. external_state_policy has no effect: what those remember beyond a run, and what
    random ops of a map have drawn, is not saved.
    Raises TypeError on an iterator that is named by a handle: save the one that the handle names.
    """
    if external_state_policy not in _POLICIES:
        raise ValueError(f"external_state_policy must be 'fail', 'warn' or 'ignore', got {external_state_policy!r}")
    if not isinstance(iterator, Iterator) or isinstance(iterator, FedIterator):
        raise TypeError(
            f"make_saveable_from_iterator takes an iterator of a dataset, got {iterator!r}. Of one that is named by a "
            "string handle, give the iterator whose handle that is"
        )
    return _IteratorSaveable(iterator)


class CheckpointInputPipelineHook(SessionRunHook):
    """Saves where a worker's iterators stand as often as the Estimator saves its variables, and beside them; a training
    that goes on from a checkpoint goes on from there. For Estimator.train(hooks=[...]), in each worker."""

    def __init__(self, estimator: Any, external_state_policy: str | None = None):
        config = estimator.config
        prefix = f"input_{config.task_type}_{config.task_id}" if config.num_worker_replicas > 1 else "input"
        self._timer = SecondOrStepTimer(config.save_checkpoints_secs, config.save_checkpoints_steps)
        self._dir, self._latest, self._begun = estimator.model_dir, f"checkpoint_{prefix}", False
        self._path, self._policy = os.path.join(self._dir, f"{prefix}.ckpt"), external_state_policy
        self._kept = config.keep_checkpoint_max, config.keep_checkpoint_every_n_hours

    def begin(self) -> None:
        self._global_step = global_step_tensor("CheckpointInputPipelineHook")
        saved = [make_saveable_from_iterator(i, self._policy) for i in iterators() if not isinstance(i, FedIterator)]
        kept, hours = self._kept
        self._saver = Saver(
            saved, max_to_keep=kept, keep_checkpoint_every_n_hours=hours, name="save_input", allow_empty=True
        )

    def after_create_session(self, session: Any, coord: Any) -> None:
        self._begun = False  # other hooks initialize the iterators now

    def before_run(self, run_context: SessionRunContext) -> None:
        if not self._begun:
            self._begun = True
            self._begin_at(run_context.session)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        step = int(run_context.session.run(self._global_step))
        if self._timer.should_trigger_for_step(step):
            self._save(run_context.session, step)

    def end(self, session: Any) -> None:
        step = int(session.run(self._global_step))
        if step != self._timer.last_triggered_step():
            self._save(session, step)

    def _save(self, session: Any, step: int) -> None:
        self._saver.save(session, self._path, step, self._latest, write_meta_graph=False)
        self._timer.update_last_triggered_step(step)

    def _begin_at(self, session: Any) -> None:
        step = int(session.run(self._global_step))
        state = get_checkpoint_state(self._dir, self._latest)
        paths = [p for p in state.all_model_checkpoint_paths if checkpoint_exists(p)] if state is not None else []
        same = [path for path in paths if path.endswith(f"-{step}")]
        if not paths:
            self._save(session, step)
            return
        if not same:
            _log.warning(
                "CheckpointInputPipelineHook: the variables are of step %d, and no position in the data was saved then "
                "(but %s): the newest is taken",
                step,
                ", ".join(os.path.basename(path) for path in paths),
            )
        self._saver.restore(session, (same or paths)[-1])
        self._saver.recover_last_checkpoints(paths)
        self._timer.update_last_triggered_step(step)
