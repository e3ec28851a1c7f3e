"""Groups of tasks that do collectives together: what a member knows of its own, and what the leader of all decides."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sparkflow_runtime.resources.chunk_messages import Header
from sparkflow_runtime.resources.rings import Place, Ring, Send
from sparkflow_runtime.wire.errors import (
    DeadlineExceededError,
    InternalError,
    InvalidArgumentError,
    OpError,
    UnavailableError,
)

ANSWER_S = 1.0  # how long the others may take to say how far they are, once a deadline has passed
Done = Callable[[OpError | None, Sequence[Any]], None]


@dataclass(eq=False)
class Request:
    """One use of one collective. make(place, send): its ring. done(error, outputs): told once, from any thread; after
    Ctrl-C maybe twice. nbytes: of what this member gives."""

    name: str
    group_key: int
    group_size: int
    instance_key: int
    make: Callable[[Place, Send], Ring]
    done: Done
    timeout_s: float = 0.0
    session: str = ""  # who asks
    nbytes: int = 0
    begun: float = field(default_factory=time.monotonic)
    ring: Ring | None = None
    use: int = -1
    asked: float | None = None  # when the others were asked how far they are
    answers: dict[str, bool] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"Collective {self.name!r} (group {self.group_key}, instance {self.instance_key})"

    @property
    def due(self) -> float:
        """When something is to be done about it, if it still is there."""
        if self.asked is not None:
            return self.asked + ANSWER_S
        return self.begun + self.timeout_s if self.timeout_s > 0 else math.inf

    @property
    def what(self) -> str:
        """What it does, once it runs."""
        return "" if self.ring is None else self.ring.what

    def too_large(self, most: int) -> InvalidArgumentError:
        """most: how many tasks there are."""
        tasks = "one task" if most == 1 else f"{most} tasks"
        return InvalidArgumentError(
            f"{self}: group_size {self.group_size}, and there {'is' if most == 1 else 'are'} {tasks} at all: the group "
            "could never be complete. Take the number of tasks that have this collective"
        )


class Untold:
    """Requests that have not been told how they ended. Where Ctrl-C breaks off what a thread does on its way, none of
    another session may be forgotten with it."""

    def __init__(self) -> None:
        self._requests: set[Request] = set()

    def __contains__(self, request: Request) -> bool:
        return request in self._requests

    def add(self, request: Request) -> None:
        told = request.done

        def done(error: OpError | None, outputs: Sequence[Any]) -> None:
            told(error, outputs)
            self._requests.discard(request)  # then: rather twice than never

        request.done = done
        self._requests.add(request)

    def end(self, error: OpError) -> None:
        for request in self._requests.copy():
            request.done(type(error)(None, None, f"{request}: {error.message}"), ())


@dataclass(frozen=True)
class Progress:
    """Which uses of collectives a member of a group has done with, when it leaves: those before `uses` (by instance
    key), but for the ones that ran."""

    uses: dict[int, int]
    running: frozenset[tuple[int, int]]

    @staticmethod
    def read(told: Any) -> Progress:
        """Of what `Group.progress` gave; of None: nothing is done with."""
        uses, running = told or ((), ())
        return Progress({int(i): int(n) for i, n in uses}, frozenset((int(i), int(n)) for i, n in running))

    def done_with(self, instance: int, use: int) -> bool:
        return use < self.uses.get(instance, 0) and (instance, use) not in self.running


@dataclass
class Group:
    """What this member knows. generation: 0 while the leader has not answered."""

    key: int
    size: int
    nonce: int
    leader: str
    generation: int = 0
    members: list[str] = field(default_factory=list)
    rank: int = -1
    waiting: list[Request] = field(default_factory=list)  # until the group stands
    running: dict[tuple[int, int], Request] = field(default_factory=dict)
    uses: dict[int, int] = field(default_factory=dict)
    early: dict[tuple[int, int], list[tuple[Header, np.ndarray]]] = field(default_factory=dict)
    join_at: float | None = None  # when to ask the leader (again), which could not be reached
    left: dict[str, Progress] = field(default_factory=dict)  # members that left, with what they had done
    gone: dict[str, str] = field(default_factory=dict)  # members that died, and how that was seen
    given_up: bool = False  # by this member, which has said so
    broken: OpError | None = None  # why it is given up, or a member has left it
    sessions: set[str] = field(default_factory=set)  # that have asked for something in it, and are to hear of its end
    settled_at: float | None = None  # when all that a dead member sent must have come
    away_since: float | None = None  # when it could not be reached for the first time

    @property
    def wish(self) -> tuple[int, int]:
        return self.key, self.size

    def requests(self) -> list[Request]:
        return [*self.waiting, *self.running.values()]

    def begin(self, request: Request) -> list[tuple[Header, np.ndarray]]:
        """Number a request, which runs now; what has come for it before."""
        request.use = self.uses.get(request.instance_key, 0)
        self.uses[request.instance_key] = request.use + 1
        key = request.instance_key, request.use
        self.running[key] = request
        if request.session:
            self.sessions.add(request.session)
        return self.early.pop(key, [])

    def end(self, error: OpError) -> list[Request]:
        """The requests that end with an error, when somebody has left."""
        self.broken = self.broken or error
        over = [r for r in self.requests() if not self.goes_on(r)]
        self.sessions -= {r.session for r in over}
        self.waiting, self.settled_at = [], None
        self.running = {key: r for key, r in self.running.items() if self.goes_on(r)}
        return over

    def lose(self, member: str, why: str) -> None:
        """A member died."""
        self.gone.setdefault(member, why)
        self.broken = self.broken or self.why_lost()

    def progress(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """What `Progress.read` takes."""
        return list(self.uses.items()), list(self.running)

    def goes_on(self, request: Request) -> bool:
        """Whether a request that runs can end well."""
        return request.use >= 0 and not self.given_up and self._have_done(request.instance_key, request.use)

    def begins(self, request: Request) -> bool:
        """Whether a request can be one of this group's: nobody has left, or only those who have done their part."""
        use = self.uses.get(request.instance_key, 0)
        return not (self.gone or self.given_up) and self._have_done(request.instance_key, use)

    def _have_done(self, instance: int, use: int) -> bool:
        return all(progress.done_with(instance, use) for progress in self.left.values())

    def after(self, member: str) -> str:
        """Of the next rank: to whom this one sends."""
        return self.members[(self.members.index(member) + 1) % self.size]

    def why_lost(self) -> OpError:
        return UnavailableError("; ".join(self.gone.values()))

    def away_s(self) -> float:
        """Since when the leader has been away, which could not be reached just now either."""
        now = time.monotonic()
        self.away_since = now if self.away_since is None else self.away_since
        return now - self.away_since

    def waits(self, request: Request, joined: Iterable[str], expected: Sequence[str]) -> str:
        """For what a request of it does. joined: who is known to have asked for the group. expected: who may do so."""
        if not self.generation:
            here = sorted(joined, key=by_number)
            known = f": {self._missing(here, expected)}" if here else ""
            return f"{request}: the group of {self.size} is not complete{known}; {self.leader} forms it"
        return f"{request}: waits for data of {self.members[self.rank - 1]}, of {', '.join(self.members)}"

    def _missing(self, joined: Sequence[str], expected: Sequence[str]) -> str:
        lacking = self.size - len(joined)
        absent = sorted(set(expected) - set(joined), key=by_number)
        names = ", ".join(absent) or "others"
        who = names if len(absent) == lacking else f"{lacking} of {names}"
        return f"{who} did not join, {', '.join(joined) or 'nobody'} did"

    def overdue(self, request: Request, own: str, expected: Sequence[str]) -> DeadlineExceededError:
        """Whom a request of the task `own` lacked, by what the others have answered. expected: who may join."""
        after = f"not done in {request.timeout_s:g} s"
        if not self.generation and not request.answers:
            return DeadlineExceededError(
                f"{after}: the group of {self.size} is not complete: {self.leader}, which forms it, does not answer"
            )
        if not self.generation:
            said = self._missing(sorted(request.answers, key=by_number), expected)
            return DeadlineExceededError(
                f"{after}: the group of {self.size} is not complete: {said}. Look for an earlier error in the others' "
                "logs, and at group_size and group_key there"
            )
        others = [m for m in self.members if m != own]
        missing = [m for m in others if not request.answers.get(m)]
        if missing:
            silent = [m for m in missing if m not in request.answers]
            said = f" ({', '.join(silent)} did not even answer)" if silent else ""
            return DeadlineExceededError(f"{after}: {', '.join(missing)} did not begin it{said}")
        return DeadlineExceededError(f"{after}, though all {self.size} members began it: it is slow, or allow more")


@dataclass
class _Forming:
    size: int
    nonces: dict[str, int] = field(default_factory=dict)
    tired: dict[str, None] = field(default_factory=dict)  # who asked and no longer waits
    generation: int = 0  # once it is complete


@dataclass
class Answer:
    """What follows from one task's wish. members: to be told that the group of `nonces` stands; abort: members of the
    old generation; refused: why the task cannot join."""

    members: list[str] = field(default_factory=list)
    nonces: dict[str, int] = field(default_factory=dict)
    generation: int = 0
    abort: list[str] = field(default_factory=list)
    old: int = 0
    refused: str = ""


class Leader:
    """Groups by key, complete or not. A nonce tells one wish of a task from its later ones."""

    def __init__(self) -> None:
        self._groups: dict[int, _Forming] = {}

    def join(self, key: int, size: int, task: str, nonce: int, left: int = 0) -> Answer:
        """left: the generation of the group of that key that the task has left before."""
        answer = Answer()
        group = self._groups.get(key)
        if group is not None and group.generation and task not in group.nonces:
            members = ", ".join(sorted(group.nonces))
            answer.refused = f"{task} is not in this group, which stands already: {members}. Take another group_key"
            return answer
        if group is not None and group.generation:
            if group.generation != left:  # a process anew: none of it can go on. Else all are told who is missing
                answer.abort, answer.old = [m for m in group.nonces if m != task], group.generation
            group = None
        if group is not None and group.size != size:
            first = next(iter(group.nonces))
            answer.refused = f"group_size {size} of {task}, and {first} says {group.size}"
            return answer
        group = self._groups[key] = group or _Forming(size)
        group.nonces[task] = nonce
        if len(group.nonces) == size:
            group.generation = secrets.randbits(63) | 1
            answer.members, answer.nonces, answer.generation = list(group.nonces), group.nonces, group.generation
        return answer

    def joined(self, key: int) -> list[str]:
        """Who has asked for the group that forms, if they still wait or not."""
        group = self._groups.get(key)
        return list(group.tired | dict.fromkeys(group.nonces)) if group else []

    def forming(self) -> list[tuple[int, int, list[str]]]:
        """(key, size, who waits for it) of those that are not complete."""
        return [(key, g.size, list(g.nonces)) for key, g in self._groups.items() if not g.generation]

    def dissolve(self, key: int) -> dict[str, int]:
        """The wishes for a group that will not be complete."""
        return self._groups.pop(key).nonces

    def forget(self, key: int, task: str, generation: int, nonce: int | None) -> None:
        """A member gave up the group, or its wish for it."""
        group = self._groups.get(key)
        if group is None:
            return
        if generation and group.generation == generation:
            del self._groups[key]
        elif not group.generation and group.nonces.get(task) == nonce:
            group.tired[task] = None
            self._drop(key, group, task)

    def lost(self, task: str) -> None:
        for key, group in list(self._groups.items()):
            group.tired.pop(task, None)
            if task in group.nonces:
                if group.generation:
                    del self._groups[key]
                else:
                    self._drop(key, group, task)

    def _drop(self, key: int, group: _Forming, task: str) -> None:
        group.nonces.pop(task, None)
        if not group.nonces:
            del self._groups[key]


def as_op_error(error: Exception) -> OpError:
    if isinstance(error, OpError):
        return error
    if isinstance(error, (ValueError, IndexError, TypeError)):
        return InvalidArgumentError(str(error))
    return InternalError(f"{type(error).__name__}: {error}")


def by_number(task: str) -> tuple[str, int]:
    """/job:worker/.../task:10 comes after task:9."""
    stem, _, number = task.rpartition(":")
    return (stem, int(number)) if number.isdecimal() else (task, -1)
