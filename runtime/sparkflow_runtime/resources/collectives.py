"""Collectives of one task: which group it is in, what runs, what came early, and how all of it ends.

A group forms when `group_size` tasks have asked its leader (one task of the cluster, the same for all) for the same
group_key; the leader then tells every member the others, in the order of their names, which are the ranks. The n-th
use of an instance_key on one member meets the n-th use on the others. If anything fails anywhere, the whole group is
given up on all members at once, and forms anew, under another generation, when they ask again: so a member that was
restarted is never taken for the one that it was.

Who leaves says what it is done with: it has sent all that the others need for that, so they go on with it. Of one that
died, the next rank says it, when all that came from there is read: every other member's data pass through it.
A session that was in no collective then hears of it at its next one.

All of this happens one after the other: on a thread of the task, or, if it is short, on the kernel's or the transport's
reader that brings it, where nobody else is at it. Neither ever waits for another.
"""

from __future__ import annotations

import itertools
import json
import logging
import secrets
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from sparkflow_runtime.resources.chunk_messages import DATA, SHORT_BYTES, Header, Push, is_short, lost, to_neighbour
from sparkflow_runtime.resources.ended import Ended
from sparkflow_runtime.resources.events import Events
from sparkflow_runtime.resources.groups import Group, Leader, Progress, Request, Untold, as_op_error, by_number
from sparkflow_runtime.resources.known_groups import KnownGroups
from sparkflow_runtime.resources.missing import Away, Missing
from sparkflow_runtime.resources.overdue import Overdue
from sparkflow_runtime.resources.rings import Place
from sparkflow_runtime.resources.telling import Telling
from sparkflow_runtime.wire.errors import (
    AbortedError,
    CancelledError,
    InvalidArgumentError,
    OpError,
    UnavailableError,
    from_dict,
    to_dict,
)

JOIN, FORMED, REFUSED, ABORT, WHO, ANSWER, LOST, ENDED = range(DATA + 1, DATA + 9)
_DIAL_AGAIN_S, _LEADER_S = 0.2, 60.0  # for how long a leader may be away: it may not have started yet, or start anew
_SETTLE_S = 5.0  # for how long more may come of a lost member, over another connection than the one that ended

_log = logging.getLogger(__name__)
Fields = dict[str, Any]


class Collectives:
    """name: of this task. push: carries a message to another task, but does not wait until that is there; it raises
    OpError where the message cannot go, or has `unsent` called later. leader: who forms groups. tasks: who may be in
    one. hears: whether more may come of a task. find: see Missing. most: how many tasks there are at all; 0 where that
    is not known."""

    def __init__(
        self,
        name: str,
        push: Push | None = None,
        leader: Callable[[], str] | None = None,
        tasks: Callable[[], Sequence[str]] = tuple,
        hears: Callable[[str], bool] = lambda task: False,
        find: Callable[[Sequence[str], Callable[[Away], None]], None] = lambda tasks, told: None,
        most: Callable[[], int] = lambda: 0,
    ):
        self.name, self._push, self._leader_name, self._most = name, push, leader or (lambda: name), most
        self._tasks, self._hears = tasks, hears
        self._groups = KnownGroups()
        self._leading, telling = Leader(), Telling(name, push, self.on_message)
        self._tell, self._tell_quietly = telling.tell, telling.quietly
        refuse = partial(self._tell_quietly, kind=REFUSED)
        self._missing = Missing(self._leading, self._may_join, find, refuse, lambda *call: self._put(*call))
        self._ended = Ended(self._leading, self._may_join, refuse)
        self._nonces = itertools.count(secrets.randbits(48))
        self._overdue = Overdue(
            name, self._groups, self._leading, self._may_join, lambda task, told: self._tell_quietly(task, WHO, told),
            lambda task, told: self._tell_quietly(task, ANSWER, told), lambda *call: self._give_up(*call),
        )  # fmt: skip
        self._untold = Untold()
        self._events = Events(f"sparkflow-rings {name}", self._look, self._interrupted)
        self._put = self._events.put

    # ------------------------------------------------------------------ from any thread

    def start(self, request: Request) -> Callable[[OpError], None]:
        """Begin; returns what cancels it (and with it the group, since the others would wait)."""
        put = self._events.put_short if request.nbytes <= SHORT_BYTES else self._put
        self._untold.add(request)
        put(self._begin, request)
        return lambda error: self._put(self._cancel, request, error)

    def leave(self, key: int, session: str, error: OpError) -> None:
        """A step of that session has failed before it had begun all of its collectives."""
        self._put(self._leave, key, session, error)

    def describe(self, request: Request) -> str:
        """For what it waits now, as far as this task knows."""
        if (group := self._groups.of_request(request)) is None:
            return ""
        return group.waits(request, self._leading.joined(group.key), self._may_join(*group.wish))

    def tell_end(self, why: str) -> None:
        """To all that this task can speak to, and who leads: its program ends by an error."""
        for task in {self._leader_name(), *filter(self._hears, self._tasks())}:
            self._tell_quietly(task, ENDED, {"why": why})
        self._put(self._give_all_up, AbortedError(f"{self.name} ends by an error: {why}"))

    def on_message(self, peer: str, meta: bytes, tensors: list[np.ndarray]) -> None:
        """From another task. Raises InvalidArgumentError on what is no message of this kind."""
        if meta[:1] == bytes([DATA]):
            put = self._events.put_short if is_short(tensors) else self._put
            put(self._data, Header.decode(meta, tensors), tensors[0])
        else:
            fields = json.loads(meta[1:])
            handler = {
                JOIN: self._joins, FORMED: self._formed, REFUSED: self._refused, ABORT: self._aborted,
                WHO: self._overdue.asked, ANSWER: self._overdue.answered, LOST: self._hear_lost, ENDED: self._ended.note
            }.get(meta[0] if meta else -1)  # fmt: skip
            if handler is None or not isinstance(fields, dict):
                raise InvalidArgumentError(f"Collective message {meta[:20]!r}: no such kind")
            if meta[0] == LOST:  # now: what was heard of that member until then is in the queue
                fields["settled"] = not self._hears(str(fields["who"]))
            self._put(handler, peer, fields)

    def lost(self, peer: str, error: OpError) -> None:
        """A connection to another task has ended: so have the groups that it is in."""
        if self._events.running:
            self._put(self._lost, peer, error, not self._hears(peer))

    def unsent(self, task: str, meta: bytes, error: OpError) -> None:
        """What `push` took to be sent later could not be."""
        self._put(self._unsent, task, meta, error)

    def close(self) -> None:
        """Leave all groups. The others know when this returns, but for those that take nothing for a second."""
        self._events.close(self._end_all)

    # ------------------------------------------------------------------ one after the other

    def _look(self) -> float:
        """What time alone brings about; when it will do so next."""
        now = time.monotonic()
        self._missing.look(now)
        self._ended.look(now)
        for group in self._groups.all():
            if group.join_at is not None and now >= group.join_at:
                self._join(group)
            if group.settled_at is not None and now >= group.settled_at:
                self._give_up(group, group.why_lost())
        self._overdue.look(now)
        times = [at for g in self._groups.all() for at in (g.join_at, g.settled_at) if at is not None]
        return min([self._overdue.due, *times, *self._missing.next_at(), *self._ended.next_at(now)])

    def _interrupted(self) -> None:
        """In the middle of something here: nobody knows what the others still have to get."""
        error = AbortedError(f"{self.name} was interrupted")
        self._give_all_up(error)
        self._untold.end(error)

    def _give_all_up(self, error: OpError) -> None:
        for group in self._groups.all():
            self._give_up(group, error)

    # ------------------------------------------------------------------ a request's way

    def _begin(self, request: Request) -> None:
        if request not in self._untold:
            return
        self._overdue.note(request)
        if self._events.closed:
            return request.done(CancelledError(f"{request}: {self.name} stopped"), ())
        if 0 < (most := self._most()) < request.group_size:
            return request.done(request.too_large(most), ())
        group = self._groups.to_begin_in(request)
        if group is None and (error := self._groups.untold(request)) is not None:
            return request.done(error, ())
        if group is None:
            group = Group(request.group_key, request.group_size, next(self._nonces), self._leader_name())
            self._groups.current[request.group_key] = group
            group.waiting.append(request)
            return self._join(group)
        if group.size != request.group_size:
            message = f"{request}: group_size {request.group_size}, and the group has {group.size} members"
            request.done(InvalidArgumentError(message), ())
        elif group.generation:
            self._start_ring(group, request)
        else:
            group.waiting.append(request)

    def _join(self, group: Group) -> None:
        group.join_at = None
        wish = {"group": group.key, "size": group.size, "nonce": group.nonce}
        try:
            self._tell(group.leader, JOIN, {**wish, "left": self._groups.generation_before(group.key)})
        except OpError as error:
            self._not_joined(group, error)

    def _not_joined(self, group: Group, error: OpError) -> None:
        if isinstance(error, UnavailableError) and group.away_s() < _LEADER_S:
            _log.debug("%s: %s cannot be reached yet: %s", self.name, group.leader, error)
            group.join_at = time.monotonic() + _DIAL_AGAIN_S
            return
        if (ended := self._ended.error(group.leader)) is not None:
            error = ended
        elif isinstance(error, UnavailableError):
            away = f"{group.leader}, which forms the groups, could not be reached for {_LEADER_S:g} s"
            error = UnavailableError(f"{away}: {error.message}. Look for an earlier error in its log")
        self._give_up(group, error)

    def _start_ring(self, group: Group, request: Request) -> None:
        early = group.begin(request)
        try:
            place = group.generation, group.key, request.instance_key, request.use
            send = to_neighbour(self._push, group.after(self.name), place, lambda: request.what)
            request.ring = request.make(Place(group.rank, group.size), send)
            request.ring.begin()
            self._check_done(group, request)
            for header, data in early:
                self._feed(group, request, header, data)
        except Exception as error:
            self._give_up(group, as_op_error(error))

    def _data(self, header: Header, data: np.ndarray) -> None:
        group = self._groups.of(header.group, header.generation)
        if group is None:
            self._groups.keep(header.group, header.generation, (self._data, (header, data)))
            return
        request = group.running.get((header.instance, header.use))
        if request is not None and request.ring is not None:
            self._feed(group, request, header, data)
        elif header.use >= group.uses.get(header.instance, 0):
            group.early.setdefault((header.instance, header.use), []).append((header, data))
        else:
            self._stray(group, header)

    def _stray(self, group: Group, header: Header) -> None:
        """What came for a ring that is done, or ended with its group."""
        if self._groups.current.get(group.key) is group and group.broken is None:
            self._give_up(group, header.unexpected(group.members))

    def _feed(self, group: Group, request: Request, header: Header, data: np.ndarray) -> None:
        if request.ring is None:
            self._stray(group, header)
            return
        try:
            header.check(request.what)
            request.ring.receive(header.chunk, data)
        except Exception as error:
            self._give_up(group, as_op_error(error))
            return
        self._check_done(group, request)

    def _check_done(self, group: Group, request: Request) -> None:
        if request.ring is not None and request.ring.done:
            group.running.pop((request.instance_key, request.use), None)
            result, request.ring = request.ring.result, None
            self._groups.drop_if_done(group)
            request.done(None, (result,))

    # ------------------------------------------------------------------ forming

    def _joins(self, peer: str, fields: Fields) -> None:
        """This task leads: another asks to be in a group."""
        key, size = int(fields["group"]), int(fields["size"])
        self._ended.back(peer)
        answer = self._leading.join(key, size, peer, int(fields["nonce"]), int(fields.get("left", 0)))
        for task in answer.abort:
            left = AbortedError(f"{peer} left group {key} and asks for it anew")
            self._tell_quietly(task, ABORT, {"group": key, "generation": answer.old, "error": to_dict(left)})
        if answer.refused:
            error = InvalidArgumentError(answer.refused)
            self._tell_quietly(peer, REFUSED, {"group": key, "nonce": fields["nonce"], "error": to_dict(error)})
        for task in answer.members:
            told = {"group": key, "generation": answer.generation, "members": answer.nonces}
            self._tell_quietly(task, FORMED, told)

    def _formed(self, peer: str, fields: Fields) -> None:
        group = self._groups.current.get(fields["group"])
        if group is None or group.generation or fields["members"].get(self.name) != group.nonce:
            return
        group.members = sorted(fields["members"], key=by_number)
        group.rank = group.members.index(self.name)
        group.generation = int(fields["generation"])  # last: who describes the group looks from other threads
        self._groups.stands(group)
        self._ended.back(*group.members)
        waiting, group.waiting = group.waiting, []
        for request in waiting:
            if group.begins(request):
                self._start_ring(group, request)
            else:
                request.done(AbortedError(f"{request}: the group was given up"), ())
        for handler, arguments in self._groups.kept(group.generation):
            handler(*arguments)

    def _refused(self, peer: str, fields: Fields) -> None:
        group = self._groups.current.get(fields["group"])
        if group is not None and not group.generation and group.nonce == fields["nonce"]:
            group.given_up = True
            self._fail(group, from_dict(fields["error"]))

    # ------------------------------------------------------------------ ending

    def _cancel(self, request: Request, error: OpError) -> None:
        if (group := self._groups.of_request(request)) is not None:
            self._give_up(group, AbortedError(f"{request} was cancelled on {self.name}: {error.message}"))

    def _leave(self, key: int, session: str, error: OpError) -> None:
        if (group := self._groups.current.get(key)) is not None:
            group.sessions.discard(session)  # it knows
            why = f"a step of {self.name} failed before it had begun all of its collectives"
            self._give_up(group, AbortedError(f"{why}: {error.message}"))

    def _give_up(self, group: Group, error: OpError, here: OpError | None = None) -> None:
        """Leave it, and tell all other members."""
        told = {"group": group.key, "generation": group.generation, "nonce": group.nonce, "error": to_dict(error)}
        told["done"] = group.progress()
        group.given_up = True
        self._fail(group, here or error)
        others = [m for m in group.members if m != self.name and m not in group.gone]
        for member in dict.fromkeys([*others, group.leader]):
            self._tell_quietly(member, ABORT, told)

    def _fail(self, group: Group, error: OpError) -> None:
        """End the requests of a group that was left, but for those that can go on."""
        requests = group.end(error)
        if group.given_up:
            self._groups.leave(group)
        self._groups.drop_if_done(group)
        for request in requests:
            request.ring = None
            request.done(type(error)(None, None, f"{request}: {error.message}"), ())

    def _aborted(self, peer: str, fields: Fields) -> None:
        key, generation = fields["group"], int(fields["generation"])
        self._leading.forget(key, peer, generation, fields.get("nonce"))
        if (group := self._groups.of(key, generation)) is not None:
            group.left[peer] = Progress.read(fields.get("done"))
            self._fail(group, from_dict(fields["error"]))
        else:
            self._groups.keep(key, generation, (self._aborted, (peer, fields)))

    def _lost(self, peer: str, error: OpError, settled: bool) -> None:
        self._leading.lost(peer)
        for group in self._groups.all():
            if peer in group.members:
                self._without(group, peer, f"lost {peer}: {error.message}", settled)
            elif peer == group.leader and not group.generation and group.join_at is None:
                group.join_at, group.away_since = time.monotonic() + _DIAL_AGAIN_S, None  # back, it would know nobody

    def _hear_lost(self, peer: str, fields: Fields) -> None:
        if (group := self._groups.of(fields["group"], int(fields["generation"]))) is not None:
            self._without(group, str(fields["who"]), str(fields["why"]), bool(fields["settled"]))
        else:
            self._groups.keep(fields["group"], int(fields["generation"]), (self._hear_lost, (peer, fields)))

    def _without(self, group: Group, peer: str, why: str, settled: bool) -> None:
        """A member died. The next one says what can go on; settled: all that came from there has been seen."""
        if peer in group.left or group.given_up:
            return  # it, or this task, has said what it is done with
        group.lose(peer, why)
        while (after := group.after(peer)) != self.name:
            try:
                self._tell(after, LOST, {"group": group.key, "generation": group.generation, "who": peer, "why": why})
                return
            except OpError:
                group.lose(after, f"lost {after}")
                peer, settled = after, False
        if settled:
            self._give_up(group, group.why_lost())
        elif group.settled_at is None:
            group.settled_at = time.monotonic() + _SETTLE_S

    def _end_all(self) -> None:
        text = f"{self.name} stopped"
        for group in self._groups.all():
            self._give_up(group, UnavailableError(text), CancelledError(text))

    def _unsent(self, task: str, meta: bytes, error: OpError) -> None:
        if meta[0] == DATA:
            header = Header.read(meta)
            if (group := self._groups.of(header.group, header.generation)) is not None and not group.given_up:
                self._give_up(group, lost(task, error))
            return
        fields = json.loads(meta[1:])
        if meta[0] == JOIN and (group := self._groups.current.get(fields["group"])) is not None:
            if group.nonce == fields["nonce"] and not group.generation:
                self._not_joined(group, error)
        elif meta[0] == LOST and (group := self._groups.of(fields["group"], fields["generation"])) is not None:
            self._without(group, task, f"lost {task}", False)

    def _may_join(self, key: int, size: int) -> Sequence[str]:
        """Who is expected in a group: those that were in it before, else all tasks."""
        return self._groups.members_before(key, size) or self._tasks()
