"""A session with hooks around each of its runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.session.session import Session
from sparkflow.train.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from sparkflow_runtime.wire.protos import RunMetadata, RunOptions


class HookedSession:
    """run(...) of `sess`, to which each hook may add fetches, feeds and options, and whose values each is shown."""

    def __init__(self, sess: Session, hooks: Sequence[SessionRunHook]):
        self._session, self._hooks = sess, hooks
        self._stopped = False

    @property
    def graph(self) -> Any:
        return self._session.graph

    def should_stop(self) -> bool:
        """Whether a hook has asked for it."""
        return self._stopped

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """As Session.run. Raises RuntimeError after a hook has asked to stop, or where a tensor is fed twice."""
        if self.should_stop():
            raise RuntimeError("Run called even after should_stop requested.")
        context = SessionRunContext(SessionRunArgs(fetches, feed_dict, options), self._session)
        asked: dict[Any, Any] = {"caller": fetches}
        feeds = dict(feed_dict or {})
        for hook in self._hooks:
            request = hook.before_run(context)
            if request is None:
                continue
            if request.fetches is not None:
                asked[hook] = request.fetches
            _add_feeds(feeds, request.feed_dict, hook)
            options = _merged(options, request.options)
        if run_metadata is None and options is not None:
            run_metadata = RunMetadata()
        values = self._session.run(asked, feeds, options, run_metadata)
        told = options or RunOptions(), run_metadata or RunMetadata()
        for hook in self._hooks:
            hook.after_run(context, SessionRunValues(values.get(hook), *told))
        self._stopped = self._stopped or context.stop_requested
        return values["caller"]


def _add_feeds(feeds: dict[Any, Any], more: Any, hook: SessionRunHook) -> None:
    for key, value in (more or {}).items():
        if key in feeds:
            raise RuntimeError(f"Same tensor is fed by two hooks, or by a hook and the caller: {key} by {hook}")
        feeds[key] = value


def _merged(options: Any, more: Any) -> Any:
    """The stricter of two RunOptions."""
    if options is None or more is None:
        return options or more
    merged = RunOptions()
    merged.CopyFrom(options)
    merged.trace_level = max(options.trace_level, more.trace_level)
    merged.timeout_in_ms = max(options.timeout_in_ms, more.timeout_in_ms)
    return merged


_HookedSession = HookedSession  # TensorFlow's name, by which libraries of trainers import it
