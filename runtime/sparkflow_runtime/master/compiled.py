"""What a signature is compiled to: parts registered with tasks, and how the master speaks to a task."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from threading import Event, Lock
from typing import Any, Protocol

from sparkflow_runtime.wire.bundles import Bundle
from sparkflow_runtime.wire.errors import OpError
from sparkflow_runtime.wire.protos import GraphDef

_LATE_S, _MOST_LATE = 5e-3, 8


class OwnStep(Protocol):
    whole: Callable[[], str] | None

    def waits(self) -> str: ...

    def opens(self, openings: Mapping[str, Callable[[Sequence[Bundle]], None]]) -> None: ...

    def run(self, timeout_s: float | None = None) -> list[Any]: ...

    def cancel(self, error: OpError) -> None: ...


class Pending(Protocol):
    """The handle of a part that another task compiles; a call waits for it."""

    def __call__(self) -> int: ...

    def done(self) -> bool: ...


class Task(Protocol):
    """A task of the cluster as the master sees it."""

    @property
    def is_here(self) -> bool:
        """Whether a server of this process is that task."""
        ...

    def register(
        self, session: str, graph: GraphDef, feeds: Sequence[str], fetches: Sequence[str], trace: bool = False
    ) -> Pending:
        """Have the task compile a part."""

    def start(
        self,
        handle: int,
        step_id: int,
        feeds: list[Any],
        done: Callable[..., None],
        bundles: Sequence[Bundle] = (),
        deadline: float | None = None,
    ) -> Callable[[float], None] | None:
        """bundles: the first that this task's own part has for it. Returns how to wait for `done` until then
        (time.monotonic), or for less long, where a thread that waits may take the answer itself. Raises
        DeadlineExceededError where the task has not taken all of it by `deadline`."""
        ...

    def done_with(self, step_id: int, abort: Callable[[OpError], None]) -> Callable[[], None]:
        """It has done its part of a step that goes on: abort(error) where it is lost before the step is over, when
        what is returned is called."""
        ...

    def abort(self, step_id: int, error: OpError) -> None: ...

    def waits(self, step_id: int, said: Callable[[str], None]) -> None:
        """Have the task say for what its part of a step waits; said(text) once it has, if ever."""
        ...

    def gpus(self) -> int:
        """How many it has; asked of it at the first call."""
        ...

    def deregister(self, session: str) -> None: ...

    def forget(self, handle: int) -> None: ...


class OwnTask(Protocol):
    """The task of this process: its part of a step runs in the caller's thread."""

    name: str
    resets: int  # how often all sessions here were ended

    def register(
        self, session: str, graph: GraphDef, feeds: Sequence[str], fetches: Sequence[str], trace: bool = False
    ) -> int: ...

    def run_straight(self, handle: int, feeds: list[Any], lent: bool = False) -> Any: ...

    def begin(self, handle: int, step_id: int, feeds: list[Any], halted: Any = None) -> Any: ...

    def opening_peers(self, handle: int) -> frozenset[str]: ...

    def deregister(self, session: str) -> None: ...

    def forget(self, handle: int) -> None: ...

    @property
    def rendezvous(self) -> Any: ...


class Registered:
    """A part as another task has it. Signatures whose parts there are the same share it, and the task forgets it when
    the last of them goes, unless the session (`session_open`) has ended with all its parts."""

    def __init__(self, task: Task, handle: Pending, session_open: Event):
        self._wait, self._task, self._open = handle, task, session_open
        self._handle, self._lock = 0, Lock()

    def is_there(self) -> bool:
        return bool(self._handle) or self._wait.done()

    @property
    def handle(self) -> int:
        """Raises what went wrong where the task could not compile the part."""
        with self._lock:
            if not self._handle:
                self._handle = self._wait()
                weakref.finalize(self, forget_parts, self._open, [(self._task, self._handle)]).atexit = False
        return self._handle


@dataclass
class Part:
    task: Task | None  # None: this process
    name: str
    handle: int
    feeds: list[int]  # positions in the run's feeds
    fetches: list[int]  # positions in the run's fetches
    registered: Registered | None = None  # with another task


@dataclass(eq=False)  # so that it can be referred to weakly, and is its own key
class Compiled:
    """A signature's parts, own part first when there is one."""

    own: Part | None
    others: list[Part]
    num_feeds: int
    num_fetches: int
    direct: dict[int, int]  # fetch position -> feed position, for fetches of fed tensors
    graphs: dict[str, GraphDef]  # task -> its part
    placed: GraphDef  # before it was partitioned
    one_at_a_time: Lock | None = None  # of a traced signature: its parts record one step at a time
    measured_s: list[float] = field(default_factory=list)  # its steps
    edges: tuple[Sequence[str], Sequence[str]] = ((), ())  # what is fed and fetched
    opening: frozenset[str] = frozenset()  # the tasks whose part begins with a bundle of the own part
    _late_openings: int = 0

    def opening_took(self, took_s: float) -> None:
        """After how much of a step the own part had a bundle for a part that it held back. Where that is long, step
        after step, the parts had better begin with the step."""
        self._late_openings = self._late_openings + 1 if took_s > _LATE_S else 0
        if self._late_openings > _MOST_LATE:
            self.opening = frozenset()

    def assemble(self, feeds: list[Any], results: Sequence[tuple[Part, list[Any]]]) -> list[Any]:
        """What was fetched, in order, of what each part gave."""
        if len(results) == 1 and len(results[0][0].fetches) == self.num_fetches:
            return results[0][1]  # positions ascend
        out: list[Any] = [None] * self.num_fetches
        for part, values in results:
            for position, value in zip(part.fetches, values, strict=True):
                out[position] = value
        for position, feed in self.direct.items():
            out[position] = feeds[feed]
        return out

    @cached_property
    def all_here(self) -> bool:
        """Whether the own part takes all feeds and gives all fetches, in order."""
        own = self.own
        return (
            own is not None
            and not self.others
            and self.one_at_a_time is None
            and own.fetches == list(range(self.num_fetches))
            and own.feeds == list(range(self.num_feeds))
        )


def forget_parts(session_open: Event, handles: Sequence[tuple[Task | OwnTask, int]]) -> None:
    """Of a signature that nobody can run any more; a session that ends has all its parts forgotten at once."""
    if session_open.is_set():
        for task, handle in handles:
            task.forget(handle)
