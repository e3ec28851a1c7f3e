"""Members that end while others still wait: what they were done with ends well, whatever the order of the messages."""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.resources import ended, rings, small_reductions
from sparkflow_runtime.resources.collectives import Collectives
from sparkflow_runtime.resources.groups import Request
from sparkflow_runtime.resources.known_groups import KnownGroups
from sparkflow_runtime.resources.rings import Broadcast, Place, Ring, Send
from sparkflow_runtime.resources.small_reductions import reduction
from sparkflow_runtime.wire.errors import AbortedError, FailedPreconditionError, OpError, UnavailableError


class Net:
    """Members without threads; each link keeps its order, and `seed` picks which speaks next."""

    def __init__(self, size: int, seed: int):
        self.rng = random.Random(seed)
        self.names = [f"/job:worker/replica:0/task:{i}" for i in range(size)]
        self.links: dict[tuple[str, str], deque[Any]] = {}
        self.dead: set[str] = set()
        self.members = {name: self._member(name) for name in self.names}
        self.results: dict[tuple[int, int], Any] = {}

    def _member(self, name: str) -> Collectives:
        def push(task: str, meta: bytes, tensors: Any) -> None:
            if task in self.dead:
                raise UnavailableError(f"{task} is not there")
            copies = [np.array(t) for t in tensors]
            self.links.setdefault((name, task), deque()).append(("says", meta, copies))

        def hears(task: str) -> bool:
            return any(kind == "says" for kind, *_ in self.links.get((task, name), ()))

        made = Collectives(name, push, lambda: self.names[0], lambda: self.names, hears)
        made._put = lambda handler, *arguments: handler(*arguments)  # type: ignore[method-assign]
        made._events.thread = True  # type: ignore[assignment]
        return made

    def ask(self, rank: int, instance: int, make: Callable[[Place, Send], Ring], session: str = "") -> None:
        def done(error: OpError | None, outputs: Any) -> None:
            assert (rank, instance) not in self.results, "told once"
            self.results[rank, instance] = error or outputs[0]

        name = f"r{rank}"
        self.members[self.names[rank]].start(Request(name, 1, len(self.names), instance, make, done, 0.0, session))

    def has(self, rank: int, instance: int) -> bool:
        """Whether a member that is alive has its value."""
        return (rank, instance) in self.results and self.names[rank] not in self.dead

    def waits(self, rank: int) -> bool:
        """For the group to form."""
        group = self.members[self.names[rank]]._groups.current.get(1)
        return group is not None and bool(group.waiting)

    def kill(self, rank: int) -> None:
        """What it has sent arrives, and then the end of its connections; what is on its way to it does not."""
        name = self.names[rank]
        self.dead.add(name)
        for other in self.names:
            self.links.pop((other, name), None)
            if other not in self.dead:
                self.links.setdefault((name, other), deque()).append(("lost", UnavailableError("killed")))

    def stop(self, rank: int) -> None:
        self.members[self.names[rank]]._end_all()
        self.kill(rank)

    def deliver(self, until: Callable[[], bool] = lambda: False) -> None:
        while not until() and (ready := [link for link, held in self.links.items() if held]):
            source, task = self.rng.choice(ready)
            what, *rest = self.links[source, task].popleft()
            if task in self.dead:
                continue
            if what == "lost":
                self.members[task].lost(source, rest[0])
            else:
                self.members[task].on_message(source, *rest)


@pytest.fixture(autouse=True, params=[0, 1 << 20], ids=["cut", "whole"])
def small_chunks(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.setattr(rings, "CHUNK_BYTES", 40)
    monkeypatch.setattr(small_reductions, "SMALL_BYTES", request.param)


def reduce(place: Place, send: Send) -> Ring:
    return reduction(place, send, np.full(50, place.rank + 1.0, np.float32))


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("end", [Net.stop, Net.kill])
def test_who_ends_after_its_step_takes_nothing_from_the_others(size: int, end: Callable[[Net, int], None]) -> None:
    """Each ends as soon as it has its own value."""
    for seed in range(60):
        net = Net(size, seed)
        for rank in range(size):
            net.ask(rank, 1, reduce)
        while len(net.dead) < size and any(net.links.values()):
            net.deliver(lambda net=net: any(net.has(rank, 1) for rank in range(size)))
            for rank in range(size):
                if net.has(rank, 1):
                    end(net, rank)
        for rank in range(size):
            np.testing.assert_array_equal(net.results[rank, 1], np.full(50, size * (size + 1) / 2), err_msg=f"{seed}")


@pytest.mark.parametrize("end", [Net.stop, Net.kill])
def test_who_ends_within_a_step_ends_it_for_all(end: Callable[[Net, int], None]) -> None:
    """Nobody waits for ever, and the next collective asks for a group anew."""
    values = errors = 0
    for seed in range(60):
        net = Net(4, seed)
        for rank in range(4):
            net.ask(rank, 1, reduce)
        left = net.rng.randrange(1, 60)

        def enough(net: Net = net, left: int = left) -> bool:
            return net.rng.random() * left < 1

        net.deliver(enough)
        over = (3, 1) in net.results
        end(net, 3)
        for rank in range(2):
            net.ask(rank, 2, reduce)
        net.deliver()
        for rank in range(3):
            found = net.results.get((rank, 1))
            if found is None:
                assert net.waits(rank) and not over
            elif isinstance(found, OpError):
                errors += 1
                assert not over and "task:3" in found.message, (seed, found)
                assert isinstance(found, UnavailableError | AbortedError)
            else:
                values += 1
                np.testing.assert_array_equal(found, np.full(50, 10.0))
        for rank in range(2):  # refused as the member was lost, or it waits for it to come back
            assert isinstance(net.results.get((rank, 2)), OpError) or net.waits(rank), (seed, rank)
    assert values > 10 and errors > 10


def test_the_source_of_a_broadcast_may_end_before_the_others_begin() -> None:
    x = np.arange(30, dtype=np.float32)
    for seed in range(30):
        net = Net(3, seed)
        for rank in range(3):
            net.ask(rank, 1, reduce)
        net.deliver()
        net.ask(1, 2, lambda place, send: Broadcast(place, send, x))
        net.stop(1)
        net.deliver()
        for rank in (2, 0):
            net.ask(rank, 2, lambda place, send: Broadcast(place, send, None, [30], np.float32))
            net.deliver()
            np.testing.assert_array_equal(net.results[rank, 2], x)


def test_a_member_that_died_before_it_spoke_to_its_neighbour() -> None:
    """Who finds it missing tells the neighbour, which has no connection whose end would say so."""
    net = Net(4, 0)
    for rank in range(4):
        net.ask(rank, 1, reduce)
    net.deliver()
    for rank in (0, 2, 3):
        net.ask(rank, 2, reduce)
    net.kill(1)
    net.links.pop((net.names[1], net.names[2]))
    net.deliver()
    for rank in (0, 2, 3):
        assert "lost /job:worker/replica:0/task:1" in net.results[rank, 2].message


@pytest.mark.parametrize("end", [Net.stop, Net.kill])
def test_a_session_that_asked_for_nothing_hears_of_the_end_once(end: Callable[[Net, int], None]) -> None:
    """Else it would wait, in a group anew, for a collective that the others, who know, do not begin."""
    for seed in range(10):
        net = Net(3, seed)
        for rank in range(3):
            net.ask(rank, 1, reduce, f"session of {rank}")
        net.deliver()
        net.ask(0, 2, reduce, "session of 0")
        net.deliver()
        end(net, 2)
        net.deliver()
        for instance, rank in ((2, 0), (3, 1)):
            if rank:
                net.ask(rank, instance, reduce, f"session of {rank}")
            error = net.results[rank, instance]
            assert isinstance(error, UnavailableError) and "task:2" in error.message
        for instance, rank in ((4, 0), (4, 1)):
            net.ask(rank, instance, reduce, f"session of {rank}")
            net.deliver()
            assert net.waits(rank)


def test_a_session_of_later_begins_a_group_anew() -> None:
    net = Net(2, 0)
    for rank in range(2):
        net.ask(rank, 1, reduce, "first")
    net.deliver()
    net.kill(1)
    net.deliver()
    net.ask(0, 2, reduce, "second")
    assert net.waits(0)


def test_one_that_ended_by_an_error_is_waited_for_until_it_asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ended, "ENDED_S", 0.0)
    net = Net(2, 0)
    leader, other = (net.members[name] for name in net.names)
    other.tell_end("ValueError: bad row")
    net.deliver()
    net.ask(0, 1, reduce)
    leader._look()
    error = net.results[0, 1]
    assert isinstance(error, FailedPreconditionError) and "task:1 ended by an error" in error.message
    assert "ValueError: bad row" in error.message
    other.tell_end("ValueError: bad row")
    net.deliver()
    net.ask(1, 2, reduce)  # it was started again
    net.deliver()
    net.ask(0, 2, reduce)
    leader._look()
    net.deliver()
    assert net.has(0, 2) and net.has(1, 2)


@pytest.mark.parametrize("of, where", [(Collectives, "_begin"), (KnownGroups, "drop_if_done"), (KnownGroups, "leave")])
def test_ctrl_c_forgets_no_other_session_s_request(of: type, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """That the thread it ends has taken on its way."""
    member, told, ended = Collectives("/job:worker/replica:0/task:0"), list[Any](), threading.Event()

    def done(error: OpError | None, outputs: Any) -> None:
        told.append(error)
        ended.set()

    def reduce(place: Place, send: Send) -> Ring:
        if where == "leave":
            raise ValueError("no such ring")
        return reduction(place, send, np.ones(3))

    def interrupted(*_: Any) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    def takes_other() -> None:
        other = threading.Thread(target=member.start, args=(Request("r", 1, 1, 1, reduce, done),))
        other.start()
        other.join(20)

    first = threading.Event()
    member.start(Request("first", 1, 1, 2, lambda p, s: reduction(p, s, np.ones(3)), lambda *_: first.set()))
    assert first.wait(20)  # the group stands
    until = time.monotonic() + 20
    while member._events._owner is not None and time.monotonic() < until:  # or this thread would do nothing on its way
        time.sleep(0.001)
    monkeypatch.setattr(of, where, interrupted)
    with pytest.raises(KeyboardInterrupt):
        member._events.put_short(takes_other)
    assert ended.wait(5)
    assert isinstance(told[0], AbortedError) and "was interrupted" in str(told[0])
    member.close()
