"""Members that a group still lacks: its leader looks for them now and then. One that has ended, or was never started,
would be waited for without end by who has set no deadline, such as a worker that starts anew when all others are done.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from sparkflow_runtime.resources.groups import Leader, by_number
from sparkflow_runtime.wire.errors import OpError, UnavailableError, to_dict

LATE_S = 300.0  # for how long so many may be away that the group cannot be complete: people start tasks by hand, too
_LOOK_S = 20.0
_log = logging.getLogger(__name__)
Away = dict[str, str]  # task -> why it cannot be reached


@dataclass
class _Look:
    """at: when they are looked for next. since: when too many were away for the first time without a pause."""

    at: float
    asked: bool = False
    since: float | None = None


class Missing:
    """Of the groups that `leading` forms. expected(key, size): who may be in one. find(tasks, told): has told(away)
    called, from any thread. refuse(task, fields=): ends the wait of one. put(handler, *arguments): has that called on
    the one thread that calls all of this."""

    def __init__(
        self,
        leading: Leader,
        expected: Callable[[int, int], Sequence[str]],
        find: Callable[[Sequence[str], Callable[[Away], None]], None],
        refuse: Callable[..., None],
        put: Callable[..., None],
    ):
        self._leading, self._expected, self._find, self._refuse, self._put = leading, expected, find, refuse, put
        self._looks: dict[int, _Look] = {}  # by group key

    def next_at(self) -> list[float]:
        return [look.at for look in self._looks.values() if not look.asked]

    def look(self, now: float) -> None:
        """Have those looked for whose time it is."""
        forming = {key: (size, here) for key, size, here in self._leading.forming()}
        self._looks = {key: look for key, look in self._looks.items() if key in forming}
        for key, (size, here) in forming.items():
            look = self._looks.setdefault(key, _Look(now + _every_s()))
            if look.asked or now < look.at:
                continue
            look.at = now + _every_s()
            if absent := [task for task in self._expected(key, size) if task not in here]:
                look.asked = True
                try:
                    self._find(absent, partial(self._put, self.found, key))
                except OpError as error:  # no thread to be had
                    look.asked = False
                    _log.debug("Not looked for %s: %s", absent, error)

    def found(self, key: int, away: Away) -> None:
        """Which of them cannot be reached."""
        now, look = time.monotonic(), self._looks.get(key)
        group = next(((size, here) for k, size, here in self._leading.forming() if k == key), None)
        if group is None or look is None:
            return
        size, here = group
        gone = [task for task in away if task not in here]
        coming = [t for t in self._expected(key, size) if t not in away and t not in here]
        look.asked, look.at = False, now + _every_s()
        if len(here) + len(coming) >= size:
            look.since = None
            return
        if look.since is None:
            look.since = now
            _log.warning("%s. They are waited for, for %g s", _incomplete(size, here, gone, away), LATE_S)
        if now - look.since >= LATE_S:
            del self._looks[key]
            error = to_dict(_never_complete(size, here, gone, away))
            for task, nonce in self._leading.dissolve(key).items():
                self._refuse(task, fields={"group": key, "nonce": nonce, "error": error})


def _every_s() -> float:
    return min(_LOOK_S, LATE_S / 4)


def _incomplete(size: int, here: Sequence[str], gone: Sequence[str], away: Away, late: str = "") -> str:
    absent, joined = (", ".join(sorted(names, key=by_number)) for names in (gone, here))
    why = next(iter(away.values()), "")
    return (
        f"the group of {size} is not complete: {absent} did not join, {joined} did, and {late}nobody answers there "
        f"({why})"
    )


def _never_complete(size: int, here: Sequence[str], gone: Sequence[str], away: Away) -> OpError:
    said = _incomplete(size, here, gone, away, f"for {LATE_S:g} s ")
    return UnavailableError(
        f"{said}. They have ended, or were not started: start all members, or take a smaller group_size"
    )
