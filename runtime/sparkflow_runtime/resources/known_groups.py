"""The groups that a member knows: one a key to begin in, those it has left, and messages of ones it will be told of."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from sparkflow_runtime.resources.groups import Group, Request
from sparkflow_runtime.wire.errors import OpError

_ENDED = 64
_EARLY, _EARLY_GENERATIONS = 4096, 16

Event = tuple[Callable[..., None], tuple[Any, ...]]


class KnownGroups:
    """Changed by one thread; `all` and `of_request` may be asked by any."""

    def __init__(self) -> None:
        self.current: dict[int, Group] = {}  # by key
        self._left: dict[int, Group] = {}  # by generation: no more begins there, and some requests go on
        self._ended: deque[int] = deque(maxlen=_ENDED)  # generations of which nothing is left
        self._last: dict[int, Group] = {}  # by key: the last that stood
        self._early: dict[int, list[Event]] = {}  # by generation

    def all(self) -> list[Group]:
        return [*self.current.values(), *self._left.values()]

    def of_request(self, request: Request) -> Group | None:
        return next((g for g in self.all() if any(r is request for r in g.requests())), None)

    def of(self, key: int, generation: int) -> Group | None:
        """The group that stands, or stood, under that generation (never 0)."""
        group = self.current.get(key)
        found = group if group is not None and group.generation == generation else self._left.get(generation)
        return found if generation else None

    def to_begin_in(self, request: Request) -> Group | None:
        """The group that a request can be one of."""
        group = self.current.get(request.group_key)
        if group is None or group.begins(request):
            return group
        self.leave(group)
        return None

    def stands(self, group: Group) -> None:
        self._last[group.key] = group

    def generation_before(self, key: int) -> int:
        return self._last[key].generation if key in self._last else 0

    def members_before(self, key: int, size: int) -> Sequence[str]:
        """Of a group of that size."""
        members = self._last[key].members if key in self._last else []
        return members if len(members) == size else ()

    def untold(self, request: Request) -> OpError | None:
        """What a session has to hear before it is in a group anew: the old one ended while it asked for nothing. The
        others have heard of that, and may not go on from where this session is."""
        last = self._last.get(request.group_key)
        if last is None or last.broken is None or request.session not in last.sessions:
            return None
        last.sessions.discard(request.session)
        return type(last.broken)(None, None, f"{request}: {last.broken.message}")

    def leave(self, group: Group) -> None:
        """Nothing more begins there."""
        if self.current.get(group.key) is group:
            del self.current[group.key]
            group.early = {}
            if group.generation:
                self._left[group.generation] = group
                self.drop_if_done(group)

    def drop_if_done(self, group: Group) -> None:
        if not group.running and self._left.pop(group.generation, None) is not None:
            self._ended.append(group.generation)

    # ------------------------------------------------------------------ of groups that this member will be told of

    def keep(self, key: int, generation: int, event: Event) -> None:
        """For when the group of that generation stands here too, if it may still do so."""
        group = self.current.get(key)
        if not generation or generation in self._ended or (group is not None and group.generation):
            return
        kept = self._early.setdefault(generation, [])
        if len(kept) < _EARLY:
            kept.append(event)
        while len(self._early) > _EARLY_GENERATIONS:
            self._early.pop(next(iter(self._early)))

    def kept(self, generation: int) -> list[Event]:
        return self._early.pop(generation, [])
