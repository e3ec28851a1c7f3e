"""Generated code unpacks several outputs at once where it is known how many there are, and drops each on its own."""

import weakref

import numpy as np
import pytest

from sparkflow_runtime.worker.codegen import Call, compile_segment


class Value(np.ndarray):
    """An array that a weak reference may watch."""


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("used", [(0, 1, 2), (2, 0), (1,)])
@pytest.mark.parametrize("outputs", [0, 3])
def test_outputs_go_where_they_are_used(outputs, used, stored):
    seen = []

    def make():
        made = [np.full(2, i, np.float32).view(Value) for i in range(3)]
        seen.extend(weakref.ref(one) for one in made)
        return made

    def last(first, *others):
        del others
        return [float(first[0]), *(ref() is not None for ref in seen)]

    calls = [Call("make", make, (), [(1, 1)] if stored else [], outputs=outputs)]
    calls += [Call("use", lambda one: one + 1, [("item", 0, port)]) for port in used]
    calls += [Call("last", last, [("local", 1)], [(0, None)])]
    values = [None, None]
    compile_segment(calls).run(values)
    assert values[0] == [used[0] + 1, False, stored, False], "all are gone but what is stored"
    assert not stored or values[1][0] == 1
