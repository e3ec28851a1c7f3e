"""The garbage collector rests while graphs are compiled, and works again afterwards."""

import gc
import threading

import pytest

from sparkflow_runtime.wire.collector import paused


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
    assert gc.isenabled()


def test_an_error_ends_a_pause_and_what_was_off_stays_off():
    with pytest.raises(KeyError), paused():
        raise KeyError
    assert gc.isenabled()
    gc.disable()
    try:
        with paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
