"""Collectives whose deadline has passed: the other members are asked how far they are, and what they have said is in
the error with which the group is given up."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from sparkflow_runtime.resources.groups import Group, Leader, Request
from sparkflow_runtime.resources.known_groups import KnownGroups
from sparkflow_runtime.wire.errors import OpError

Fields = dict[str, Any]


class Overdue:
    """Of the task `name`. expected(key, size): who may be in a group. ask(task, fields), answer(task, fields): tell it
    to another task, if that can be. give_up(group, error): ends a group. Called by one thread."""

    def __init__(
        self,
        name: str,
        groups: KnownGroups,
        leading: Leader,
        expected: Callable[[int, int], Sequence[str]],
        ask: Callable[[str, Fields], None],
        answer: Callable[[str, Fields], None],
        give_up: Callable[[Group, OpError], None],
    ):
        self._name, self._groups, self._leading, self._expected = name, groups, leading, expected
        self._ask, self._answer, self._give_up = ask, answer, give_up
        self.due = math.inf  # when a deadline has passed next, at the earliest

    def note(self, request: Request) -> None:
        """It begins."""
        self.due = min(self.due, request.due)

    def look(self, now: float) -> None:
        """Nothing, mostly: it is called after each message, and thousands of requests may run."""
        if now < self.due:
            return
        for group in self._groups.all():
            for request in [r for r in group.requests() if now >= r.due]:
                if request.asked is not None:
                    self._end(group, request)
                    break
                self._ask_all(group, request)
        self.due = min((r.due for g in self._groups.all() for r in g.requests()), default=math.inf)

    def _end(self, group: Group, request: Request) -> None:
        self._give_up(group, group.overdue(request, self._name, self._expected(*group.wish)))

    def _ask_all(self, group: Group, request: Request) -> None:
        request.asked = time.monotonic()
        told = {"group": group.key, "generation": group.generation, "nonce": group.nonce}
        told |= {"instance": request.instance_key, "use": request.use}
        for task in [m for m in group.members if m != self._name] or [group.leader]:
            self._ask(task, told)

    def asked(self, peer: str, fields: Fields) -> None:
        """Another member's deadline has passed."""
        group, instance, use = self._groups.of(fields["group"], fields["generation"]), fields["instance"], fields["use"]
        begun = group is not None and group.uses.get(instance, 0) > use
        self._answer(peer, {**fields, "begun": begun, "joined": self._leading.joined(fields["group"])})

    def answered(self, peer: str, fields: Fields) -> None:
        for group, request in [(g, r) for g in self._groups.all() if g.nonce == fields["nonce"] for r in g.requests()]:
            if request.asked is not None and (request.instance_key, request.use) == (fields["instance"], fields["use"]):
                if not group.generation:
                    request.answers = dict.fromkeys(fields["joined"], True)
                else:
                    request.answers[peer] = bool(fields["begun"])
                if not group.generation or len(request.answers) == group.size - 1:
                    return self._end(group, request)
