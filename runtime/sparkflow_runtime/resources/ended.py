"""Tasks whose programs have said that they end by an error. They may be started again, and are waited for so long; but
what ended them is likely to do so again, and whoever waits is to hear of that rather than of a lost connection."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from sparkflow_runtime.resources.groups import Leader
from sparkflow_runtime.wire.errors import FailedPreconditionError, OpError, to_dict

ENDED_S = 60.0  # for how long one that has ended so is waited for
_log = logging.getLogger(__name__)


class Ended:
    """leading, expected, refuse: see Missing."""

    def __init__(self, leading: Leader, expected: Callable[[int, int], Sequence[str]], refuse: Callable[..., None]):
        self._leading, self._expected, self._refuse = leading, expected, refuse
        self._told: dict[str, tuple[float, str]] = {}  # task -> when it said so, and why

    def note(self, task: str, fields: dict[str, object]) -> None:
        self._told[task] = time.monotonic(), str(fields["why"])
        _log.warning("%s ends by an error: %s. It is waited for, for %g s", task, fields["why"], ENDED_S)

    def back(self, *tasks: str) -> None:
        """They ask for a group anew."""
        for task in tasks:
            self._told.pop(task, None)

    def error(self, task: str) -> OpError | None:
        """That it has ended, if it has said so. Not one of those after which a session is made anew."""
        if task not in self._told:
            return None
        return FailedPreconditionError(
            f"{task} ended by an error and was not started again: {self._told[task][1]}. Mend that, and start all again"
        )

    def next_at(self, now: float) -> list[float]:
        return [told + ENDED_S for told, _ in self._told.values() if told + ENDED_S > now]

    def look(self, now: float) -> None:
        """End the wait for groups that cannot be complete without them."""
        over = [task for task, (told, _) in self._told.items() if told + ENDED_S <= now]
        for key, size, here in self._leading.forming() if over else ():
            expected = self._expected(key, size)
            gone = [task for task in over if task in expected and task not in here]
            if gone and len(expected) - len(gone) < size:
                error = to_dict(self.error(gone[0]))  # type: ignore[arg-type]
                for task, nonce in self._leading.dissolve(key).items():
                    self._refuse(task, fields={"group": key, "nonce": nonce, "error": error})
                self.back(*gone)  # who asks again waits as for any other
