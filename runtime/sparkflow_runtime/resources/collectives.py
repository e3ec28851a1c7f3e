"""Collectives of one task: which group it is in, what runs, what came early, and how all of it ends.

A group forms when `group_size` tasks have asked its leader (one task of the cluster, the same for all) for the same
group_key; the leader then tells every member the others, in the order of their names, which are the ranks. The n-th
use of an instance_key on one member meets the n-th use on the others. If anything fails anywhere, the whole group is
given up on all members at once, and forms anew, under another generation, when they ask again: so a member that was
restarted is never taken for the one that it was.

All of this happens on one thread of the task, fed by a queue: kernels and the transport's readers only put something
there, so neither ever waits.
"""

from __future__ import annotations

import itertools
import json
import logging
import secrets
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from sparkflow_runtime.resources.groups import Group, Leader, Request, as_op_error, by_number
from sparkflow_runtime.resources.rings import Chunk, Place, Send
from sparkflow_runtime.wire.errors import (
    AbortedError,
    CancelledError,
    InvalidArgumentError,
    OpError,
    UnavailableError,
    from_dict,
    to_dict,
)

DATA, JOIN, FORMED, REFUSED, ABORT, WHO, ANSWER = range(7)
_DATA_META = struct.Struct("<BQiiQBIIQ")  # DATA, generation, group key, instance key, use, and the four of Chunk
_ANSWER_S = 1.0  # how long the others may take to say how far they are, once a deadline has passed
_DIAL_AGAIN_S, _LEADER_S = 0.2, 60.0  # for how long a leader may be away: it may not have started yet, or start anew
_EARLY = 4096  # messages kept of a generation that this task does not know yet

_log = logging.getLogger(__name__)
Push = Callable[[str, bytes, Sequence[Any]], None]  # (task, meta, tensors)


class Collectives:
    """name: of this task. push: carries a message to another task, and raises OpError where that cannot be.
    leader: who forms the groups."""

    def __init__(self, name: str, push: Push | None = None, leader: Callable[[], str] | None = None):
        self.name, self._push, self._leader_name = name, push, leader or (lambda: name)
        self._events: SimpleQueue[tuple[Callable[..., None], tuple[Any, ...]]] = SimpleQueue()
        self._groups: dict[int, Group] = {}
        self._unknown: dict[int, list[tuple[Any, ...]]] = {}  # generation -> messages of a group not yet known here
        self._ended: deque[int] = deque(maxlen=64)  # generations given up
        self._leading = Leader()
        self._nonces = itertools.count(secrets.randbits(48))
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False

    # ------------------------------------------------------------------ from any thread

    def start(self, request: Request) -> Callable[[OpError], None]:
        """Begin; returns what cancels it (and with it the group, since the others would wait)."""
        self._put(self._begin, request)
        return lambda error: self._put(self._cancel, request, error)

    def describe(self, request: Request) -> str:
        """For what it waits now, as far as this task knows."""
        group = self._groups.get(request.group_key)
        return "" if group is None else group.waits(request, self._leading.joined(group.key))

    def on_message(self, peer: str, meta: bytes, tensors: list[np.ndarray]) -> None:
        """From another task. Raises InvalidArgumentError on what is no message of this kind."""
        if meta[:1] == bytes([DATA]):
            if len(meta) != _DATA_META.size or len(tensors) != 1 or tensors[0].ndim != 1:
                raise InvalidArgumentError(f"Collective message of {len(meta)} bytes and {len(tensors)} tensors")
            self._put(self._data, _DATA_META.unpack(meta)[1:], tensors[0])
        else:
            fields = json.loads(meta[1:])
            handler = {
                JOIN: self._joins, FORMED: self._formed, REFUSED: self._refused, ABORT: self._aborted,
                WHO: self._asked, ANSWER: self._answered,
            }.get(meta[0] if meta else -1)  # fmt: skip
            if handler is None or not isinstance(fields, dict):
                raise InvalidArgumentError(f"Collective message {meta[:20]!r}: no such kind")
            self._put(handler, peer, fields)

    def lost(self, peer: str, error: OpError) -> None:
        """The connection to another task has ended: so have the groups that it is in."""
        if self._thread is not None:
            self._put(self._lost, peer, error)

    def close(self) -> None:
        with self._lock:
            if self._thread is not None:
                self._events.put((self._end_all, ()))
            else:
                self._closed = True

    def _put(self, handler: Callable[..., None], *arguments: Any) -> None:
        with self._lock:  # else the thread could end, of one that is closed, before it has seen this
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"sparkflow-rings {self.name}", daemon=True)
                self._thread.start()
            self._events.put((handler, arguments))

    # ------------------------------------------------------------------ the thread

    def _run(self) -> None:
        np.seterr(all="ignore")  # of this thread: sums of what is not finite are no warnings, as in steps
        while not self._is_over():
            try:
                event = self._events.get(timeout=self._next_look_s())
            except Empty:
                self._look()
                continue
            handler, arguments = event
            try:
                handler(*arguments)
            except Exception:
                _log.exception("%s: a collective message failed", self.name)
            del event, arguments  # the memory of a chunk goes back to its sender now
            self._look()

    def _is_over(self) -> bool:
        """Closed, and nothing is left to do: the thread ends. What may come yet gets another."""
        if not (self._closed and self._events.empty()):
            return False
        with self._lock:
            over = self._events.empty()
            if over:
                self._thread = None
        return over

    def _next_look_s(self) -> float | None:
        times = [g.join_at for g in self._groups.values() if g.join_at is not None]
        for group in self._groups.values():
            for r in group.requests():
                if r.asked is not None:
                    times.append(r.asked + _ANSWER_S)
                elif r.timeout_s > 0:
                    times.append(r.begun + r.timeout_s)
        return max(0.0, min(times) - time.monotonic()) if times else None

    def _look(self) -> None:
        """What time alone brings about."""
        now = time.monotonic()
        for group in list(self._groups.values()):
            if group.join_at is not None and now >= group.join_at:
                self._join(group)
            for request in group.requests():
                if request.asked is not None and now >= request.asked + _ANSWER_S:
                    self._give_up(group, group.overdue(request, self.name))
                    break
                if request.asked is None and 0 < request.timeout_s <= now - request.begun:
                    self._ask(group, request)

    # ------------------------------------------------------------------ a request's way

    def _begin(self, request: Request) -> None:
        if self._closed:
            request.done(CancelledError(f"{request}: {self.name} stopped"), ())
            return
        group = self._groups.get(request.group_key)
        if group is None:
            nonce, leader = next(self._nonces), self._leader_name()
            group = self._groups[request.group_key] = Group(request.group_key, request.group_size, nonce, leader)
            group.waiting.append(request)
            self._join(group)
            return
        if group.size != request.group_size:
            message = f"{request}: group_size {request.group_size}, and the group has {group.size} members"
            request.done(InvalidArgumentError(message), ())
        elif group.generation:
            self._start_ring(group, request)
        else:
            group.waiting.append(request)

    def _join(self, group: Group) -> None:
        group.join_at = None
        try:
            self._tell(group.leader, JOIN, {"group": group.key, "size": group.size, "nonce": group.nonce})
            group.away_since = None
        except UnavailableError as error:
            if group.away_s() < _LEADER_S:
                _log.debug("%s: %s cannot be reached yet: %s", self.name, group.leader, error)
                group.join_at = time.monotonic() + _DIAL_AGAIN_S
                return
            away = f"{group.leader}, which forms the groups, could not be reached for {_LEADER_S:g} s"
            self._give_up(group, UnavailableError(f"{away}: {error.message}. Look for an earlier error in its log"))
        except OpError as error:
            self._give_up(group, error)

    def _start_ring(self, group: Group, request: Request) -> None:
        request.use = group.uses.get(request.instance_key, 0)
        group.uses[request.instance_key] = request.use + 1
        key = request.instance_key, request.use
        group.running[key] = request
        early = group.early.pop(key, [])
        try:
            request.ring = request.make(Place(group.rank, group.size), self._sender(group, request))
            request.ring.begin()
            self._check_done(group, request)
            for chunk, data in early:
                self._feed(group, request, chunk, data)
        except Exception as error:
            self._give_up(group, as_op_error(error))

    def _sender(self, group: Group, request: Request) -> Send:
        right = group.members[(group.rank + 1) % group.size]
        fixed = (DATA, group.generation, group.key, request.instance_key, request.use)

        def send(chunk: Chunk, data: np.ndarray) -> None:
            try:
                self._push(right, _DATA_META.pack(*fixed, *chunk), [data])  # type: ignore[misc]
            except UnavailableError as error:
                raise UnavailableError(f"lost {right}: {error.message}") from None

        return send

    def _data(self, fields: tuple[int, ...], data: np.ndarray) -> None:
        generation, group_key, instance, use, *chunk = fields
        group = self._groups.get(group_key)
        if generation in self._ended:
            return
        if group is None or not group.generation:
            kept = self._unknown.setdefault(generation, [])
            if len(kept) < _EARLY:
                kept.append((fields, data))
            while len(self._unknown) > 16:
                self._unknown.pop(next(iter(self._unknown)))
            return
        if group.generation != generation:
            return
        request = group.running.get((instance, use))
        if request is not None and request.ring is not None:
            self._feed(group, request, Chunk(*chunk), data)
        elif use >= group.uses.get(instance, 0):
            group.early.setdefault((instance, use), []).append((Chunk(*chunk), data))

    def _feed(self, group: Group, request: Request, chunk: Chunk, data: np.ndarray) -> None:
        if request.ring is None or request.ring.done:
            return
        try:
            request.ring.receive(chunk, data)
        except Exception as error:
            self._give_up(group, as_op_error(error))
            return
        self._check_done(group, request)

    def _check_done(self, group: Group, request: Request) -> None:
        if request.ring is not None and request.ring.done:
            group.running.pop((request.instance_key, request.use), None)
            result, request.ring = request.ring.result, None
            request.done(None, (result,))

    # ------------------------------------------------------------------ forming

    def _joins(self, peer: str, fields: dict[str, Any]) -> None:
        """This task leads: another asks to be in a group."""
        key, size = int(fields["group"]), int(fields["size"])
        answer = self._leading.join(key, size, peer, int(fields["nonce"]))
        for task in answer.abort:
            left = AbortedError(f"{peer} left group {key} and asks for it anew")
            self._tell_quietly(task, ABORT, {"group": key, "generation": answer.old, "error": to_dict(left)})
        if answer.refused:
            error = InvalidArgumentError(answer.refused)
            self._tell_quietly(peer, REFUSED, {"group": key, "nonce": fields["nonce"], "error": to_dict(error)})
        for task in answer.members:
            told = {"group": key, "generation": answer.generation, "members": answer.nonces}
            self._tell_quietly(task, FORMED, told)

    def _formed(self, peer: str, fields: dict[str, Any]) -> None:
        group = self._groups.get(fields["group"])
        if group is None or group.generation or fields["members"].get(self.name) != group.nonce:
            return
        group.members = sorted(fields["members"], key=by_number)
        group.rank = group.members.index(self.name)
        group.generation = int(fields["generation"])  # last: who describes the group looks from other threads
        waiting, group.waiting = group.waiting, []
        early = self._unknown.pop(group.generation, [])
        for request in waiting:
            if self._groups.get(group.key) is group:
                self._start_ring(group, request)
            else:
                request.done(AbortedError(f"{request}: the group was given up"), ())
        for message, data in early:
            self._data(message, data)

    def _refused(self, peer: str, fields: dict[str, Any]) -> None:
        group = self._groups.get(fields["group"])
        if group is not None and not group.generation and group.nonce == fields["nonce"]:
            self._fail(group, from_dict(fields["error"]))

    # ------------------------------------------------------------------ ending

    def _cancel(self, request: Request, error: OpError) -> None:
        group = self._groups.get(request.group_key)
        if group is None or all(r is not request for r in group.requests()):
            return
        self._give_up(group, AbortedError(f"{request} was cancelled on {self.name}: {error.message}"))

    def _give_up(self, group: Group, error: OpError, here: OpError | None = None) -> None:
        """Here and on all other members."""
        self._fail(group, here or error)
        others = [m for m in group.members if m != self.name] or [group.leader]
        told = {"group": group.key, "generation": group.generation, "nonce": group.nonce, "error": to_dict(error)}
        for member in dict.fromkeys([*others, group.leader]):
            self._tell_quietly(member, ABORT, told)

    def _fail(self, group: Group, error: OpError) -> None:
        if self._groups.get(group.key) is group:
            del self._groups[group.key]
            self._ended.append(group.generation)
        requests = group.requests()
        group.waiting, group.running, group.early = [], {}, {}
        for request in requests:
            request.ring = None
            request.done(type(error)(None, None, f"{request}: {error.message}"), ())

    def _aborted(self, peer: str, fields: dict[str, Any]) -> None:
        key, generation = fields["group"], int(fields["generation"])
        self._leading.forget(key, peer, generation, fields.get("nonce"))
        group = self._groups.get(key)
        if group is not None and generation and group.generation == generation:
            self._fail(group, from_dict(fields["error"]))

    def _lost(self, peer: str, error: OpError) -> None:
        self._leading.lost(peer)
        for group in list(self._groups.values()):
            if peer in group.members:
                self._give_up(group, UnavailableError(f"lost {peer}: {error.message}"))
            elif peer == group.leader and not group.generation and group.join_at is None:
                group.join_at = time.monotonic() + _DIAL_AGAIN_S  # it may come back, as a leader that knows nobody

    def _end_all(self) -> None:
        self._closed, text = True, f"{self.name} stopped"
        for group in list(self._groups.values()):
            self._give_up(group, UnavailableError(text), CancelledError(text))

    # ------------------------------------------------------------------ who is missing

    def _ask(self, group: Group, request: Request) -> None:
        request.asked = time.monotonic()
        told = {
            "group": group.key,
            "generation": group.generation,
            "instance": request.instance_key,
            "use": request.use,
        }
        for task in [m for m in group.members if m != self.name] or [group.leader]:
            self._tell_quietly(task, WHO, {**told, "nonce": group.nonce})

    def _asked(self, peer: str, fields: dict[str, Any]) -> None:
        group, instance, use = self._groups.get(fields["group"]), fields["instance"], fields["use"]
        joined = self._leading.joined(fields["group"])
        begun = group is not None and group.generation == fields["generation"] and group.uses.get(instance, 0) > use
        self._tell_quietly(peer, ANSWER, {**fields, "begun": begun, "joined": joined})

    def _answered(self, peer: str, fields: dict[str, Any]) -> None:
        group = self._groups.get(fields["group"])
        if group is None or group.nonce != fields["nonce"]:
            return
        for request in group.requests():
            if request.asked is not None and (request.instance_key, request.use) == (fields["instance"], fields["use"]):
                if not group.generation:
                    request.answers = dict.fromkeys(fields["joined"], True)
                    self._give_up(group, group.overdue(request, self.name))
                    return
                request.answers[peer] = bool(fields["begun"])
                if len(request.answers) == group.size - 1:
                    return self._give_up(group, group.overdue(request, self.name))

    # ------------------------------------------------------------------ messages

    def _tell(self, task: str, kind: int, fields: dict[str, Any]) -> None:
        message = bytes([kind]) + json.dumps(fields).encode()
        if task == self.name:
            self.on_message(task, message, [])
        elif self._push is None:
            raise InvalidArgumentError(f"{self.name} has no way to reach {task}: this session is not part of a cluster")
        else:
            self._push(task, message, ())

    def _tell_quietly(self, task: str, kind: int, fields: dict[str, Any]) -> None:
        """To a task that may be gone: whoever waits for it is told by the end of its connection."""
        try:
            self._tell(task, kind, fields)
        except OpError as error:
            _log.debug("%s: not told to %s: %s", self.name, task, error)
