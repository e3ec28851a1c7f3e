"""Generated code reads variables where they are: no call says again which variable is meant."""

import numpy as np
import pytest

from sparkflow_runtime.resources.variables import Variable
from sparkflow_runtime.wire.dtypes import float32
from sparkflow_runtime.wire.errors import FailedPreconditionError
from sparkflow_runtime.worker.codegen import Call, compile_segment


def test_a_variable_is_named_once_and_read_at_each_run():
    asked = []
    held = Variable("v", float32, (2,))

    def name():
        asked.append(1)
        return held

    calls = [Call("v", name, (), is_name=True), Call("use", lambda x: x + 1, [("&local", 0)], [(0, None)])]
    calls += [Call("which", lambda ref: ref, [("local", 0)], [(1, None)])]
    segment, values = compile_segment(calls), [None, None]
    with pytest.raises(FailedPreconditionError, match="uninitialized value v"):
        segment.run(values)
    for value in (1.0, 5.0):
        held.value = np.full(2, value, np.float32)
        segment.run(values)
        assert values[0].tolist() == [value + 1] * 2 and values[1] is held
    assert len(asked) == 1
    assert segment.nodes[2] == "v" and segment.nodes[3] == "use"


def test_what_may_give_another_variable_is_asked_each_time():
    first, second = Variable("a", float32, ()), Variable("b", float32, ())
    first.value, second.value = np.float32(1), np.float32(2)
    either = iter([first, second])
    calls = [Call("either", lambda: next(either), ()), Call("use", lambda x: x * 10, [("&local", 0)], [(0, None)])]
    segment, values = compile_segment(calls), [None]
    found = []
    for _ in range(2):
        segment.run(values)
        found.append(float(values[0]))
    assert found == [10, 20]
