"""Which worker threads of a Dask cluster a training may use, and whether the workers that hold them still live.

Every training claims all its threads at once from a table in the scheduler, first come, first served: two trainings
that each held half of the threads would wait for each other for ever, and Dask's own MultiLock stays held when its
client dies. A claim lasts as long as the client that made it is connected to the scheduler.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from secrets import token_hex
from threading import Thread
from typing import Any

from distributed import Client
from distributed.metrics import time as cluster_time

from sparkflow_connectors.processes import START_TIMEOUT_S
from sparkflow_connectors.waiting import CLAIM_TIMEOUT_S, Patience
from sparkflow_runtime.wire.errors import FailedPreconditionError, InvalidArgumentError, UnavailableError

RETURN_TIMEOUT_S = 300.0  # for lost workers to come back, or others in their place: of a machine that is lost, minutes
SILENCE_SLACK_S = 20.0
_ASK_EVERY_S = 0.5
_FIRST_WORD_S = 2.0
_FORGET_WAITING_S = 10.0
_FIRST_BUSY_WORD_S, _LOOK_EVERY_S = 5.0, 1.0
_ANSWER_S = 30.0
_EXTENSION = "sparkflow-slots"

log = logging.getLogger("sparkflow")


def silence_s(keepalive_s: float, workers: int) -> float:
    """How long a Dask worker may be silent before it counts as lost: the keepalive, 10 s at least, and 20 s more.

    A worker starved for some seconds is not lost, and its heartbeats say little of its role, which has a process and a
    keepalive of its own. They come every 0.5 s, from n > 200 workers every 1 + n / 200 s.
    """
    return max(keepalive_s, 10.0) + SILENCE_SLACK_S + workers / 50


def scheduler_of(client: Client) -> Any:
    """By which the cluster is asked; one that is away just now is waited for, as long as the client itself does so.

    Raises InvalidArgumentError where this thread cannot wait for answers, FailedPreconditionError where none can come.
    """
    if client.asynchronous:
        raise InvalidArgumentError(
            "A training waits for its cluster, and this Dask client is for asynchronous calls: give `client` one of "
            "its own, Client(address), and call it from a thread"
        )
    patience = Patience(_FIRST_WORD_S)
    while client.status == "connecting":
        patience.say("waiting for the Dask scheduler, which the client has lost")
        time.sleep(_ASK_EVERY_S)
    check_open(client)
    return client.scheduler


def check_open(client: Client) -> None:
    """Raises FailedPreconditionError where the client is closed."""
    if is_closed(client):
        raise FailedPreconditionError(
            "The Dask client is closed: somebody has closed it or its cluster, or its scheduler went away and did not "
            "come back. Train again by a new one, to go on from the last checkpoint"
        )


def is_closed(client: Client) -> bool:
    return client.status in ("closing", "closed") or client.scheduler is None


def workers_now(client: Client) -> dict[str, Any]:
    """What the scheduler says of its workers at this moment, by address.

    Not client.scheduler_info(): that returns a field which the client's own refresh overwrites with no workers at all
    while one reads it.
    """
    scheduler = scheduler_of(client)
    try:
        identity = client.sync(scheduler.identity, n_workers=-1, callback_timeout=_ANSWER_S)
    except TimeoutError:
        raise UnavailableError(f"The Dask scheduler {scheduler.address} was silent for {_ANSWER_S:g} s") from None
    except OSError as error:
        raise _away(error) from error
    return dict(identity["workers"])


def _away(error: OSError) -> UnavailableError:
    return UnavailableError(f"The Dask scheduler is away ({type(error).__name__}: {error})")


def spread(threads: Mapping[str, int], used: Mapping[str, int]) -> list[str]:
    """The address of each free thread, every worker once before any a second time; used: by others, by address."""
    turns = [(turn, address) for address, n in threads.items() for turn in range(used.get(address, 0), n)]
    return [address for _, address in sorted(turns)]


@dataclass(frozen=True)
class Request:
    """A training's wish for `workers` threads. token: the training's own; run_id: its attempt's."""

    token: str
    run_id: str
    client: str
    who: str
    workers: int


@dataclass(frozen=True)
class Answer:
    """addresses: one a role, and usable: the only workers that may compute the table, or any worker where empty. Where
    there are no addresses, held_by: the trainings to wait for.

    total: the threads of all workers that run and were heard of lately.
    """

    total: int
    addresses: list[str] = field(default_factory=list)
    usable: list[str] = field(default_factory=list)
    held_by: list[str] = field(default_factory=list)


class Claims:
    """The scheduler's table of who holds which threads. It is asked again and again, and never waits."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[Request, list[str]]] = {}  # by token
        self._waiting: dict[str, tuple[Request, float]] = {}  # in the order of their first asking

    def ask(self, request: Request, threads: Mapping[str, int], clients: Container[str], now: float) -> Answer:
        self._forget(clients, now)
        self._held.pop(request.token, None)
        total = sum(threads.values())
        if total < request.workers:  # no training's end would mend that
            self._waiting.pop(request.token, None)
            return Answer(total)
        self._waiting[request.token] = request, now
        free = spread(threads, self._used())
        first = next(iter(self._waiting)) == request.token
        if not first or len(free) < request.workers:
            others = [*(r for r, _ in self._held.values()), *(r for r, _ in self._waiting.values())]
            return Answer(total, held_by=[r.who for r in others if r.token != request.token])
        del self._waiting[request.token]
        self._held[request.token] = request, free[: request.workers]
        return Answer(total, free[: request.workers], sorted(set(free)))

    def release(self, token: str, run_id: str) -> None:
        """Nothing where that attempt holds nothing any more: a release may come late."""
        for table in (self._held, self._waiting):
            if token in table and table[token][0].run_id == run_id:
                del table[token]

    def _used(self) -> dict[str, int]:
        used: dict[str, int] = {}
        for _, addresses in self._held.values():
            for address in addresses:
                used[address] = used.get(address, 0) + 1
        return used

    def _forget(self, clients: Container[str], now: float) -> None:
        """Those whose client is gone, and those who ask no more."""
        self._held = {t: h for t, h in self._held.items() if h[0].client in clients}
        self._waiting = {
            t: (r, at) for t, (r, at) in self._waiting.items() if r.client in clients and now - at < _FORGET_WAITING_S
        }


def _claims(scheduler: Any) -> Claims:
    found: Claims = scheduler.extensions.setdefault(_EXTENSION, Claims())
    return found


def _ask(request: Request, silent_s: float, dask_scheduler: Any = None) -> Answer:
    """On the scheduler's event loop: nothing happens between the look and the claim."""
    now = cluster_time()
    threads = {
        address: worker.nthreads
        for address, worker in dask_scheduler.workers.items()
        if worker.status.name == "running" and now - worker.last_seen < silent_s
    }
    answer = _claims(dask_scheduler).ask(request, threads, dask_scheduler.clients, now)
    return replace(answer, usable=[]) if set(answer.usable) == set(dask_scheduler.workers) else answer


def _release(token: str, run_id: str, dask_scheduler: Any = None) -> None:
    _claims(dask_scheduler).release(token, run_id)


class Slots:
    """The driver's side: one training's claim on worker threads, anew for each of its attempts."""

    def __init__(self, client: Client):
        self._client, self._token = client, token_hex(6)

    def take(self, run_id: str, workers: int, who: str, silent_s: float) -> Answer:
        """Claim a thread for each role, waiting for other trainings to end and for lost workers to come back.

        Raises FailedPreconditionError where others hold them for 600 s, or there are too few for 300 s: as long as
        several attempts would have to wait. `release` afterwards, whatever happens.
        """
        here = f"{who} (process {os.getpid()} on {socket.gethostname()})"
        request = Request(self._token, run_id, self._client.id, here, workers)
        patience = Patience(_FIRST_WORD_S)
        while True:
            try:
                answer: Answer = self._client.run_on_scheduler(_ask, request, silent_s)
            except OSError as error:
                raise _away(error) from error
            if answer.addresses:
                return answer
            _wait_on(answer, workers, patience)
            time.sleep(_ASK_EVERY_S)

    def release(self, run_id: str) -> None:
        self._client.run_on_scheduler(_release, self._token, run_id)


def _others(addresses: Collection[str], mine: Collection[str], dask_scheduler: Any = None) -> dict[str, int]:
    """On the scheduler: how many tasks but `mine` each of these workers has."""
    states = {address: dask_scheduler.workers.get(address) for address in addresses}
    return {at: sum(ts.key not in mine for ts in ws.processing) for at, ws in states.items() if ws is not None}


class ThreadQueue:
    """Looks, once a second at the most, at roles that have not begun: no other training has their threads, but a thread
    that runs another task of Dask's ends that first."""

    def __init__(self, client: Client):
        self._client, self._patience, self._next_s = (
            client,
            Patience(_FIRST_BUSY_WORD_S),
            time.monotonic() + _LOOK_EVERY_S,
        )

    def look(self, waiting: Mapping[int, str], mine: Collection[Any]) -> None:
        """waiting: the address of each such rank. mine: the keys of all roles.

        Raises FailedPreconditionError where other tasks hold their threads for 600 s, UnavailableError where none does
        and still they do not begin for 60 s.
        """
        if time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + _LOOK_EVERY_S
        try:
            others = self._client.run_on_scheduler(_others, set(waiting.values()), set(mine))
        except OSError as error:
            raise _away(error) from error
        busy = {at: count for at, count in others.items() if count}
        waited_s = self._patience.waited_s("others" if busy else "start")
        ranks = ", ".join(map(str, waiting))
        if not busy and waited_s > START_TIMEOUT_S:
            raise UnavailableError(
                f"Start: workers {ranks} did not begin in {waited_s:.0f} s. See the Dask workers' logs"
            )
        held_by = ", ".join(f"{n} other task{'s' * (n > 1)} on {at}" for at, n in sorted(busy.items()))
        if busy and waited_s > CLAIM_TIMEOUT_S:
            raise FailedPreconditionError(
                f"Workers {ranks} of this training had no free thread in {waited_s:.0f} s: Dask runs {held_by}. "
                "Wait for these or cancel them, use fewer workers, or add Dask workers"
            )
        if busy:
            self._patience.say("waiting for the threads of workers %s: Dask has %s", ranks, held_by)


def _wait_on(answer: Answer, workers: int, patience: Patience) -> None:
    """Say what is waited for. Raises when that has been long enough."""
    if answer.held_by:
        waited_s, holders = patience.waited_s("others"), "; ".join(answer.held_by)
        if waited_s > CLAIM_TIMEOUT_S:
            raise FailedPreconditionError(
                f"{workers} of the Dask cluster's {answer.total} worker threads were not free in {waited_s:.0f} s. "
                f"These trainings hold them or came first: {holders}. End them, use fewer workers, or add Dask workers"
            )
        patience.say("waiting for %d of %d Dask worker threads, held by %s", workers, answer.total, holders)
    else:
        waited_s = patience.waited_s("workers")
        if waited_s > RETURN_TIMEOUT_S:
            raise FailedPreconditionError(
                f"{workers} workers need {workers} task slots at once, and for {waited_s:.0f} s the Dask cluster has "
                f"had {answer.total} worker threads (paused and silent workers not counted). See the log of its "
                "workers; with more of them, train again, to go on from the last checkpoint"
            )
        say_waiting(patience, answer.total, workers)


def say_waiting(patience: Patience, threads: int, workers: int) -> None:
    patience.say("waiting for Dask workers: %d threads are there, %d are needed", threads, workers)


class Liveness:
    """Which of some workers are lost, told from what the scheduler says of them, look by look.

    One look alone is never believed: a worker is lost where two looks in a row say so. Silence is measured by this
    process's clock, since the scheduler's may differ.
    """

    def __init__(self, addresses: Iterable[str], silent_s: float):
        self._silent_s = silent_s
        self._heard: dict[str, tuple[Any, float]] = dict.fromkeys(addresses, (None, 0.0))  # last_seen, since when
        self._suspects: Container[str] = ()

    def look(self, workers: Mapping[str, Mapping[str, Any]], now_s: float) -> dict[str, str]:
        """address -> why, of the lost ones. workers: `workers_now`, asked for at `now_s` of the monotonic clock."""
        why = {a: text for a in self._heard if (text := self._suspicion(a, workers.get(a), now_s))}
        lost = {address: text for address, text in why.items() if address in self._suspects}
        self._suspects = frozenset(why)
        return lost

    def _suspicion(self, address: str, worker: Mapping[str, Any] | None, now_s: float) -> str:
        if worker is None:
            return "is gone"
        last_seen, since_s = self._heard[address]
        if worker["last_seen"] != last_seen:
            self._heard[address] = worker["last_seen"], now_s
            return ""
        if now_s - since_s <= self._silent_s:
            return ""
        return f"has been silent for {now_s - since_s:.0f} s: it is stopped or cut off"


def within(timeout_s: float, act: Callable[[], Any]) -> bool:
    """Whether act() returned in time, in a thread of its own: it may be calling a cluster that is gone for ever."""

    def run() -> None:
        try:
            act()
        except Exception as error:
            log.warning("Dask could not be told to clear up: %s: %s", type(error).__name__, error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(timeout_s)
    return not thread.is_alive()
