"""Ends that only call: callers read their own answers, and the reader thread whatever else comes."""

from __future__ import annotations

import gc
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.transport import Channel, NoHandler, Options
from sparkflow_runtime.transport.receiving import ANSWER_BYTES, Receiver
from sparkflow_runtime.transport.taking_turns import TakingTurns
from sparkflow_runtime.wire.errors import (
    AbortedError,
    DataLossError,
    DeadlineExceededError,
    OpError,
    UnavailableError,
    UnimplementedError,
)

from .conftest import WAIT_S, Net, Recorder, eventually


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> SimpleQueue[str]:
    """The threads that have read an answer of their own."""
    found: SimpleQueue[str] = SimpleQueue()
    whole = Receiver.answer

    def answer(self: Receiver, *args: Any) -> Any:
        message = whole(self, *args)
        if message is not None:
            found.put(threading.current_thread().name)
        return message

    monkeypatch.setattr(Receiver, "answer", answer)
    return found


def _soon(channel: Channel, method: int, meta: bytes, tensors: list[np.ndarray], reply: Any) -> None:
    """Answers when the caller had time to wait: here both ends are one process, whose threads wait for each other."""
    threading.Timer(0.003, lambda: reply(meta)).start()


def test_a_caller_reads_its_own_answer(net: Net, answered: SimpleQueue[str]) -> None:
    """Once the reader thread has stepped aside, which is after the first answer or a little later."""
    channel = net.pair(client=NoHandler())

    def asked() -> bool:
        assert channel.call(1, b"x", [np.arange(5)])[1][0].tolist() == [0, 1, 2, 3, 4]
        return not answered.empty()

    eventually(asked)
    assert answered.get() == threading.current_thread().name
    counters = channel.counters
    assert counters["frames_received"] >= counters["frames_sent"] >= 2


def test_an_end_that_is_called_hears_its_peer_between_its_own_calls(net: Net, answered: SimpleQueue[str]) -> None:
    """The reader thread is there whenever no caller reads: at once, after any number of calls."""
    server, client = Recorder(_soon), Recorder()
    channel = net.pair(server, client)

    def asked(k: int) -> bool:
        assert channel.call(1, b"%d" % k)[0] == b"%d" % k
        there = server.message()[0]
        assert there.call(2, b"back %d" % k, timeout_s=WAIT_S)[0] == b"back %d" % k
        assert client.message()[1:3] == (2, b"back %d" % k)
        return not answered.empty()

    for k in range(50):
        asked(k)
    eventually(lambda: asked(50))


def test_messages_before_an_answer_are_handled_before_it(net: Net) -> None:
    """What the peer pushed first has been handled, by the reader thread, when the caller has its answer."""
    handled: list[bytes] = []

    def answer(channel: Channel, method: int, meta: bytes, tensors: list[np.ndarray], reply: Any) -> None:
        for k in range(3):
            channel.push(7, meta + b"/%d" % k)
        reply(meta)

    def note(channel: Channel, method: int, meta: bytes, tensors: list[np.ndarray], reply: Any) -> None:
        time.sleep(0.0005)
        handled.append(meta)

    channel = net.pair(Recorder(answer), Recorder(note))
    for k in range(100):
        assert channel.call(1, b"%d" % k, timeout_s=WAIT_S)[0] == b"%d" % k
        assert handled[-3:] == [b"%d/%d" % (k, j) for j in range(3)]


def test_answers_of_calls_without_a_thread_are_taken(net: Net, answered: SimpleQueue[str]) -> None:
    """take_answer: the thread that waits calls `done`; a late answer is the reader thread's."""
    kept: SimpleQueue[Any] = SimpleQueue()

    def answer(channel: Channel, method: int, meta: bytes, tensors: list[np.ndarray], reply: Any) -> None:
        kept.put(reply) if method == 2 else _soon(channel, method, meta, tensors, reply)

    channel = net.pair(Recorder(answer), Recorder())
    done: SimpleQueue[tuple[bytes, str]] = SimpleQueue()

    def ask(method: int, until_s: float) -> None:
        number = channel.call_async(
            method, b"x", (), lambda error, meta, tensors: done.put((meta, threading.current_thread().name))
        )
        channel.take_answer(number, time.monotonic() + until_s)

    def taken() -> bool:
        ask(1, WAIT_S)
        meta, thread = done.get(timeout=WAIT_S)
        assert meta == b"x"
        return thread == threading.current_thread().name

    eventually(taken)
    began_s = time.monotonic()
    ask(2, 0.05)
    assert time.monotonic() - began_s >= 0.05 and done.empty()
    kept.get(timeout=WAIT_S)(b"late")
    assert done.get(timeout=WAIT_S)[0] == b"late"


def test_many_threads_call_at_once(net: Net) -> None:
    channel = net.pair(client=NoHandler())

    def work(index: int) -> None:
        for k in range(40):
            size = (7, 3000, ANSWER_BYTES)[k % 3]
            meta, (found,) = channel.call(
                1, b"%d" % k, [np.full(size, index * 1000 + k)], timeout_s=(None, 60.0)[k % 2]
            )
            assert meta == b"%d" % k and found.shape == (size,) and (found == index * 1000 + k).all()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [None] * 4


def test_errors_reach_the_caller_that_reads(net: Net, answered: SimpleQueue[str]) -> None:
    def refuse(channel: Channel, method: int, meta: bytes, tensors: list[np.ndarray], reply: Any) -> None:
        raise AbortedError("not today")

    channel = net.pair(Recorder(refuse), NoHandler())

    def asked() -> bool:
        with pytest.raises(AbortedError, match="not today"):
            channel.call(1)
        return not answered.empty()

    eventually(asked)


def test_what_is_no_answer_is_handled_while_nobody_calls(net: Net) -> None:
    """The peer asks an end that only calls, and hears that it does: between calls, and while one waits."""
    server = Recorder()
    channel = net.pair(server, NoHandler())
    for _ in range(3):
        channel.call(1)
    back, *_ = server.message()
    with pytest.raises(UnimplementedError, match="takes no messages"):
        back.call(9, timeout_s=WAIT_S)
    refused: SimpleQueue[OpError | None] = SimpleQueue()

    def ask_back(there: Channel, method: int, meta: bytes, tensors: list[np.ndarray], reply: Any) -> None:
        def done(error: OpError | None, meta: bytes, tensors: list[np.ndarray]) -> None:
            refused.put(error)
            reply(b"then")

        there.call_async(9, b"", (), done)

    server.answer = ask_back
    assert channel.call(2, timeout_s=WAIT_S)[0] == b"then"
    assert isinstance(refused.get(timeout=WAIT_S), UnimplementedError)


def test_answers_in_another_order(net: Net) -> None:
    """The thread that reads is answered last: the other's answer does not wait for that."""
    kept: SimpleQueue[Any] = SimpleQueue()

    def answer(channel: Channel, method: int, meta: bytes, tensors: list[np.ndarray], reply: Any) -> None:
        kept.put(reply) if method == 2 else reply(meta)

    channel = net.pair(Recorder(answer), NoHandler())
    for _ in range(10):
        channel.call(1)
        with ThreadPoolExecutor(1) as pool:
            late = pool.submit(channel.call, 2)
            reply = kept.get(timeout=WAIT_S)
            assert channel.call(1, b"first", timeout_s=WAIT_S)[0] == b"first"
            assert not late.done()
            reply(b"second")
            assert late.result(WAIT_S)[0] == b"second"


def test_a_late_answer_disturbs_nobody(net: Net) -> None:
    kept: SimpleQueue[Any] = SimpleQueue()

    def answer(channel: Channel, method: int, meta: bytes, tensors: list[np.ndarray], reply: Any) -> None:
        kept.put(reply) if method == 2 else reply(meta)

    channel = net.pair(Recorder(answer), NoHandler())
    for k in range(5):
        channel.call(1)
        with pytest.raises(DeadlineExceededError, match="no reply in"):
            channel.call(2, timeout_s=0.02)
        kept.get(timeout=WAIT_S)(b"late")
        assert channel.call(1, b"%d" % k, timeout_s=WAIT_S)[0] == b"%d" % k


def test_a_caller_that_waits_long_hears_heartbeats(net: Net) -> None:
    """Longer than the keepalive, and the peer, which sends them, is not taken for dead."""

    def slowly(channel: Channel, method: int, meta: bytes, tensors: list[np.ndarray], reply: Any) -> None:
        threading.Timer(1.0 if method == 2 else 0.0, lambda: reply(meta)).start()

    channel = net.pair(Recorder(slowly), NoHandler(), options=Options(keepalive_s=0.4))
    for _ in range(3):
        channel.call(1)
    assert channel.call(2, b"x")[0] == b"x"


@pytest.mark.parametrize("who", ["the peer", "this end"])
def test_a_channel_that_ends_while_its_caller_reads(net: Net, who: str) -> None:
    server = Recorder()
    server.answer = lambda channel, method, meta, tensors, reply: reply() if method == 1 else None
    channel = net.pair(server, NoHandler())
    for _ in range(3):
        channel.call(1)
        there = server.message()[0]
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(channel.call, 2)
        server.message()
        (there if who == "the peer" else channel).close("enough")
        with pytest.raises(UnavailableError, match="enough"):
            waiting.result(WAIT_S)
    with pytest.raises(UnavailableError, match="enough"):
        channel.call(1)


def test_a_bad_frame_ends_the_channel_by_name(net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    channel = net.pair(client=NoHandler())
    for _ in range(3):
        channel.call(1)

    def bad(*_: Any) -> Any:
        raise DataLossError("no header of ours")

    monkeypatch.setattr(channel._receiver, "_header", bad)  # type: ignore[attr-defined]
    with pytest.raises(UnavailableError, match="bad frame: no header of ours"):
        channel.call(1, timeout_s=WAIT_S)


class Interrupted(BaseException):
    """As KeyboardInterrupt, which would end the tests."""


def test_an_interrupted_call_loses_no_frame(net: Net) -> None:
    """A signal's exception comes at any point of a call; what was asked before and after is answered all the same."""
    channel, interrupted, asked = net.pair(client=NoHandler()), 0, 400

    def interrupt(*_: Any) -> None:
        raise Interrupted

    gc.disable()  # others have callbacks of it, in which the exception would be lost
    before = signal.signal(signal.SIGALRM, interrupt)
    beside: SimpleQueue[bytes] = SimpleQueue()
    try:
        for k in range(asked):
            sizes = [(3, 3000)[k % 2]] * (1 + k % 9)
            channel.call_async(1, b"%d" % k, (), lambda error, meta, tensors: beside.put(meta)) if k % 5 == 0 else None
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-6 * (1 + 7 * k % 600) if k % 3 else 0)
                meta, found = channel.call(2, b"%d" % k, [np.full(size, k) for size in sizes])
                signal.setitimer(signal.ITIMER_REAL, 0)
                assert meta == b"%d" % k and [(one == k).all() and one.size for one in found] == sizes
            except Interrupted:
                interrupted += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        gc.enable()
    assert channel.call(3, b"end", timeout_s=WAIT_S)[0] == b"end"
    assert [beside.get(timeout=WAIT_S) for _ in range(0, asked, 5)] == [b"%d" % k for k in range(0, asked, 5)]
    assert 0 < interrupted <= asked - len(range(0, asked, 3))
    eventually(lambda: not channel._pending)  # type: ignore[attr-defined]


def test_the_reader_thread_reads_plainly_where_callers_stay_away(net: Net, answered: SimpleQueue[str]) -> None:
    server, client = Recorder(_soon), Recorder()
    channel = net.pair(server, client)

    def asked() -> bool:
        channel.call(1)
        return not answered.empty()

    eventually(asked)
    turns, there = channel._turns, server.message()[0]  # type: ignore[attr-defined]
    for _ in range(40):
        there.call(2, timeout_s=WAIT_S)
    assert not turns._asked
    answered.get()
    eventually(asked)  # and makes room again


def test_no_caller_reads_before_the_reader_thread_has_begun(net: Net) -> None:
    channel = net.pair(client=Recorder())
    turns = TakingTurns(channel._sock)  # type: ignore[attr-defined]
    assert turns.answer(channel._receiver, 1, (), None) is None  # type: ignore[attr-defined]
    assert turns._asked
