"""PartialRun: one step whose feeds come, and whose fetches go, by several calls.

The step runs in a thread of its own, in which it sleeps while feeds are missing; the caller meets it at its mailboxes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock, Thread
from typing import Any

from sparkflow_runtime.kernels.partial import partial_steps
from sparkflow_runtime.master.mailboxes import feeds_needed
from sparkflow_runtime.master.master import Master
from sparkflow_runtime.wire.errors import CancelledError, InvalidArgumentError, OpError
from sparkflow_runtime.wire.sessions import new_handle
from sparkflow_runtime.worker.worker import Worker

_GRACE_S = 3.0  # for the step to end by its own deadline, whose error says who waits for whom


class PartialRun:
    """feeds ('name:port'), fetches and targets ('name') are all that later calls may name, each of them once."""

    def __init__(
        self,
        master: Master,
        worker: Worker,
        feeds: Sequence[str],
        fetches: Sequence[str],
        targets: Sequence[str],
        handle: str = "",
    ):
        self.handle = handle or new_handle()
        self._needed = feeds_needed(master.nodes, feeds, fetches, targets)
        self._feeds, self._given = list(feeds), set[str]()
        self._asked = set[str]()
        self._lock = Lock()
        self._error: OpError | None = None
        self._patience_s = master.timeout_s and master.timeout_s + _GRACE_S
        self._master, self._step_id = master, master.new_step_id()
        step_id = self._step_id
        steps = partial_steps(worker.resources)
        compiled = master.compile_partial(tuple(feeds), tuple(fetches), tuple(targets))
        self._boxes = steps.of(step_id)  # until the step ends

        def run() -> None:
            try:
                master.run_partial(compiled, step_id)
            except OpError as error:
                self._error = error
                self._boxes.fail(error)
            finally:
                steps.end(step_id)

        Thread(target=run, name=f"sparkflow-partial-run-{self.handle}", daemon=True).start()

    @property
    def finished(self) -> bool:
        """Nothing more can be fed or fetched: all of it was, or the step failed."""
        all_of_it = len(self._given) == len(self._feeds) and len(self._asked) == len(self._needed)
        return self._error is not None or all_of_it

    def advance(self, feeds: Mapping[str, Any], fetches: Sequence[str], targets: Sequence[str]) -> list[Any]:
        """Give feeds, then wait for fetches and targets; the values of the fetches."""
        names = [*fetches, *targets]
        with self._lock:
            self._check(feeds, names)
            self._given |= set(feeds)
            self._asked |= set(names)
        for name, value in feeds.items():
            self._boxes.give(name, value)
        try:
            values = [self._boxes.wait(name, self._patience_s) for name in names]
        except OpError:
            raise
        except BaseException as error:  # Ctrl-C: else the step would go on, and take what others wait for
            self.cancel(CancelledError(f"The partial run was interrupted by {type(error).__name__}"))
            raise
        return values[: len(fetches)]

    def cancel(self, error: OpError) -> None:
        """End the step, of which nothing is to be had any more but this error."""
        self._error = self._error or error
        self._master.cancel(self._step_id, error)

    def _check(self, feeds: Mapping[str, Any], names: Sequence[str]) -> None:
        if self._error is not None:
            raise self._error
        for kind, given, known, done, past in (
            ("feed", feeds, self._feeds, self._given, "fed"),
            ("fetch", names, self._needed, self._asked, "fetched"),
        ):
            for name in given:
                if name not in known:
                    raise InvalidArgumentError(f"The {kind} {name} was not specified in partial_run_setup.")
                if name in done:
                    raise InvalidArgumentError(f"The {kind} {name} has already been {past}.")
        for name in names:
            missing = sorted(self._needed[name] - self._given - set(feeds))
            if missing:
                raise InvalidArgumentError(
                    f"Fetch {name} can't be computed from the feeds that have been fed so far: it needs "
                    f"{', '.join(missing)} as well."
                )
