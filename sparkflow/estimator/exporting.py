"""Writing SavedModels of an estimator: once, or after each evaluation by an Exporter."""

from __future__ import annotations

import contextlib
import glob
import logging
import os
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from sparkflow import saved_model
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.ops import control_flow, lookup_initializers, variables
from sparkflow.summary.reader import summary_iterator
from sparkflow_runtime.wire.errors import DataLossError

_log = logging.getLogger("sparkflow")


def write_export(
    base: str, session: Any, signatures: Mapping[str, Any], extra: Mapping[str, str], as_text: bool,
    strip: bool = False, start: Any = None,
) -> bytes:  # fmt: skip
    """The session's graph and variables in a new folder of `base`, which appears whole; its path.

    strip: without attributes of their defaults. start: what whoever loads it runs; by default, what initializes local
    variables and tables.
    """
    target = _new_folder(base)
    temporary = os.path.join(base, f"temp-{os.path.basename(target)}")
    builder = saved_model.Builder(temporary)
    with session.graph.as_default():
        if start is None:
            locals_ = variables.local_variables_initializer()
            start = control_flow.group(locals_, lookup_initializers.tables_initializer())
        files = session.graph.get_collection(GraphKeys.ASSET_FILEPATHS)
        tags = [saved_model.tag_constants.SERVING]
        builder.add_meta_graph_and_variables(session, tags, signatures, files, main_op=start, strip_default_attrs=strip)
    builder.save(as_text)
    for name, source in extra.items():
        copy = os.path.join(temporary, "assets.extra", name)
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        shutil.copy(source, copy)
    os.rename(temporary, target)
    _log.info("SavedModel written to: %s", target)
    return target.encode()


def _new_folder(base: str) -> str:
    """Named by the time in seconds, the next free second where this one is taken."""
    os.makedirs(base, exist_ok=True)
    number = int(time.time())
    while os.path.exists(os.path.join(base, str(number))) or os.path.exists(os.path.join(base, f"temp-{number}")):
        number += 1
    return os.path.join(base, str(number))


def exports_in(base: str) -> list[str]:
    """The folders of exports, the oldest first."""
    names = [n for n in os.listdir(base) if n.isdigit()] if os.path.isdir(base) else []
    return [os.path.join(base, n) for n in sorted(names, key=int)]


class Exporter(ABC):
    """What train_and_evaluate calls after an evaluation."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Of the folder in model_dir/export that it writes to."""

    @abstractmethod
    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> bytes | None:
        """Write what there is to write; the path of what was written, or None."""


class _Saving(Exporter):
    """serving_input_receiver_fn, assets_extra, as_text: as of Estimator.export_saved_model. exports_to_keep: the newest
    ones, all where it is None."""

    _prunes = True

    def __init__(
        self, name: str, serving_input_receiver_fn: Callable[[], Any], assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False, exports_to_keep: int | None = 5,
    ):  # fmt: skip
        if exports_to_keep is not None and exports_to_keep <= 0:
            raise ValueError(f"`exports_to_keep`, if provided, must be a positive number. Got {exports_to_keep}")
        self._name, self._receive, self._extra, self._as_text = name, serving_input_receiver_fn, assets_extra, as_text
        self._keep = exports_to_keep

    @property
    def name(self) -> str:
        return self._name

    @abstractmethod
    def _wanted(self, eval_result: Mapping[str, Any], final: bool) -> bool:
        """Whether to write after this evaluation."""

    def export(
        self, estimator: Any, export_path: str, checkpoint_path: str, eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> bytes | None:  # fmt: skip
        if not self._wanted(eval_result, is_the_final_export):
            return None
        done = estimator.export_saved_model(export_path, self._receive, self._extra, self._as_text, checkpoint_path)
        for old in exports_in(export_path)[: -self._keep] if self._keep and self._prunes else []:
            shutil.rmtree(old, ignore_errors=True)
        return done


class LatestExporter(_Saving):
    """Writes after each evaluation, and keeps the newest five (exports_to_keep)."""

    def _wanted(self, eval_result: Mapping[str, Any], final: bool) -> bool:
        return True


class FinalExporter(_Saving):
    """Writes once, at the end of training."""

    _prunes = False

    def _wanted(self, eval_result: Mapping[str, Any], final: bool) -> bool:
        return final


def _smaller_loss(best_eval_result: Mapping[str, Any], current_eval_result: Mapping[str, Any]) -> bool:
    return current_eval_result["loss"] < best_eval_result["loss"]


class BestExporter(_Saving):
    """Writes after an evaluation that is better than all before: by compare_fn(best, current), the loss by default.

    event_file_pattern: event files of earlier evaluations in model_dir, such as "eval/*.tfevents.*", whose best is what
    the first one after a restart is compared with.
    """

    def __init__(
        self, name: str = "best_exporter", serving_input_receiver_fn: Callable[[], Any] | None = None,
        event_file_pattern: str | None = None, compare_fn: Callable[..., bool] = _smaller_loss,
        assets_extra: Mapping[str, str] | None = None, as_text: bool = False, exports_to_keep: int | None = 5,
    ):  # fmt: skip
        if serving_input_receiver_fn is None:
            raise ValueError("BestExporter: serving_input_receiver_fn is needed")
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text, exports_to_keep)
        self._better, self._pattern, self._folder = compare_fn, event_file_pattern, ""
        self._best: Mapping[str, Any] | None = None

    def export(self, estimator: Any, *arguments: Any, **named: Any) -> bytes | None:
        if self._pattern and self._folder != estimator.model_dir:
            self._folder = estimator.model_dir
            now = named["eval_result"] if "eval_result" in named else arguments[2]
            self._best = self._of_events(os.path.join(self._folder, self._pattern), now.get("global_step"))
        return super().export(estimator, *arguments, **named)

    def _of_events(self, pattern: str, step: Any) -> Mapping[str, Any] | None:
        """The best that the files tell of other steps than this one, whose evaluation they have already."""
        best: Mapping[str, Any] | None = None
        for path in sorted(glob.glob(pattern)):
            with contextlib.suppress(DataLossError):  # whoever wrote it was killed: what is whole counts
                for event in summary_iterator(path):
                    found = {v.tag: v.simple_value for v in event.summary.value if v.HasField("simple_value")}
                    if found and event.step != step and self._is_better(best, found):
                        best = found
        return best

    def _is_better(self, best: Mapping[str, Any] | None, found: Mapping[str, Any]) -> bool:
        return best is None or self._better(best_eval_result=best, current_eval_result=found)

    def _wanted(self, eval_result: Mapping[str, Any], final: bool) -> bool:
        if not self._is_better(self._best, eval_result):
            return False
        self._best = eval_result
        return True
