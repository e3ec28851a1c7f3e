"""The garbage collector rests while graphs are compiled, and works again afterwards."""

import contextlib
import gc
import itertools
import sys
import threading
import time
import weakref

import pytest

import sparkflow as tf
from sparkflow_runtime.master.passes.symbols import Shapes
from sparkflow_runtime.master.passes.view import Op, View
from sparkflow_runtime.wire import collector
from sparkflow_runtime.wire.collector import paused
from sparkflow_runtime.worker.old_values import OldValues
from tests.interrupts import Interrupted


def test_pauses_of_several_threads_end_with_the_last():
    inside, leave = threading.Event(), threading.Event()

    def other():
        with paused():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with paused():
        thread.start()
        inside.wait(10)
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert _works_again()


def _works_again():
    """Threads of tests before may compile, and so pause, until they are done."""
    deadline = time.monotonic() + 10
    while not gc.isenabled() and time.monotonic() < deadline:
        time.sleep(0.001)
    return gc.isenabled()


class _Slow:
    """The collector, which another thread's pause meets as it is turned on."""

    def __init__(self, pause, on):
        self.thread, self.on = threading.Thread(target=pause), on
        self.begun, self.over = threading.Event(), threading.Event()

    def __getattr__(self, name):
        return getattr(gc, name)

    def enable(self):
        if threading.current_thread() is self.thread:
            gc.enable()
            return
        if self.on:
            gc.enable()
        self.thread.start()
        self.begun.wait(10)
        gc.enable()
        self.over.set()


@pytest.mark.parametrize("on", [True, False])
def test_a_pause_that_begins_while_another_ends_does_not_leave_it_off(monkeypatch, on):
    """on: whether it finds the collector on already."""

    def pause():
        with paused():
            slow.begun.set()
            slow.over.wait(10)
            found.append(gc.isenabled())

    slow, found = _Slow(pause, on), []
    monkeypatch.setattr(collector, "gc", slow)
    try:
        with paused():
            pass
        slow.thread.join()
        assert len(found) == 1
        assert _works_again()
    finally:
        gc.enable()


def test_an_error_ends_a_pause_and_what_was_off_stays_off():
    with pytest.raises(KeyError), paused():
        raise KeyError
    assert _works_again()
    gc.disable()
    try:
        with paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize("event", range(30))
def test_ctrl_c_in_a_pause_leaves_it_on_after_the_next(event):
    """Wherever it comes; once it was left off for good."""
    gc.enable()
    events = itertools.count()
    ours = {__file__, collector.__file__, contextlib.__file__}  # what the collector calls meanwhile would swallow it

    def interrupt(frame, kind, function):
        if kind in ("call", "c_return") and frame.f_code.co_filename in ours and next(events) == event:
            raise Interrupted

    with contextlib.suppress(Interrupted):
        try:
            sys.setprofile(interrupt)
            with paused():
                len([])
        finally:
            sys.setprofile(None)
    with paused():
        pass
    assert _works_again()


@pytest.fixture
def thawed():
    """As in a program of which nothing is frozen, unlike in this one (conftest.py)."""
    gc.unfreeze()
    yield
    gc.collect()
    gc.freeze()


def test_what_is_made_for_good_is_old_afterwards_and_still_collected(thawed):
    class Loop:
        def __init__(self):
            self.me = self

    gc.collect()
    with paused(for_good=True):
        kept = [Loop() for _ in range(20_000)]
        born = gc.get_count()[0]
    assert born > 10_000 > 1_000 > gc.get_count()[0]  # other threads let go of things meanwhile
    assert gc.get_freeze_count() == 0
    young = {id(o) for generation in (0, 1) for o in gc.get_objects(generation)}
    assert id(kept[0]) not in young
    watched = weakref.ref(kept[0])
    del kept
    gc.collect()
    assert watched() is None


def test_what_a_program_froze_stays_frozen(thawed):
    gc.freeze()
    frozen = gc.get_freeze_count()
    with paused(for_good=True):
        kept = [[i] for i in range(20_000)]
    assert len(kept) == 20_000 < frozen
    assert gc.get_freeze_count() > frozen // 2  # some of them may have ended; unfrozen, it would be 0


def test_a_compile_leaves_no_rings_of_nodes(graph):
    """Thousands of objects would wait for the collector, and the next compile would not have their memory."""
    x = tf.placeholder(tf.float32, [None, 3])
    v = tf.get_variable("v", [3], initializer=tf.zeros_initializer())
    train = v.assign_add(tf.reduce_sum(x[:, :3] * v, axis=0))
    with tf.Session() as session:
        session.run(v.initializer)
        gc.collect()
        with paused():
            session.run(train, {x: [[1.0, 2.0, 3.0]]})
            left = [one for one in gc.get_objects() if type(one) in (View, Shapes, Op, OldValues)]  # no proxy is asked
    assert not left
