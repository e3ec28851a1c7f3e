"""Functions of datasets that ran as Python's before they were converted, and do so still."""

from __future__ import annotations

import collections
import functools
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf


def _mapped(function: Any, count: int = 4) -> list[Any]:
    with tf.Graph().as_default(), tf.Session() as session:
        row = tf.data.make_one_shot_iterator(tf.data.Dataset.range(count).map(function)).get_next()
        return [session.run(row).tolist() for _ in range(count)]


def _doubled(function: Any) -> Any:
    @functools.wraps(function)
    def g(x: Any) -> Any:
        return function(x) * 2

    return g


def _branches(x: Any) -> Any:
    if x > 1:
        return x
    return -x


def test_a_decorated_function_is_not_taken_for_what_it_wraps() -> None:
    @_doubled
    def g(x: Any) -> Any:
        return x + 1

    assert _mapped(g) == [2, 4, 6, 8]
    assert _mapped(_doubled(_branches)) == [0, -2, 4, 6]


class _Scaled:
    __scale = 3

    def of_lambda(self) -> list[Any]:
        return _mapped(lambda x: x * self.__scale)

    def of_function(self) -> list[Any]:
        def parse(x: Any) -> Any:
            if x > 1:
                x = x * self.__scale
            return x

        return _mapped(parse)

    def __with_argument(self, x: Any, __by: int = 4) -> Any:
        return x * __by

    def of_argument(self) -> list[Any]:
        return _mapped(self.__with_argument)


def test_private_names_in_functions_inside_methods() -> None:
    assert _Scaled().of_lambda() == [0, 3, 6, 9]
    assert _Scaled().of_function() == [0, 1, 6, 9]
    assert _Scaled().of_argument() == [0, 4, 8, 12]


def _walrus(x: Any) -> Any:
    known = [1, 2, 3]
    if known is not None and (n := len(known)) > 2:
        x = x + n
    late = known is None or (first := known[0]) is None
    z = (m := 5) if known else 0
    return x if late else x + first + m * z


def _match_returns(x: Any, mode: str = "a") -> Any:
    match mode:
        case "b":
            return x + 2
        case "a":
            return x + 1
    return x * 10


def _match_jumps(x: Any) -> Any:
    for i in range(5):
        match {"i": i, "j": 1}:
            case {"i": 3}:
                break
            case {"i": 1}:
                continue
            case {"i": _, **more} if more and i != 7:
                x = x + i * more["j"]
    return x


def _annotated(x: Any) -> Any:
    for i in range(2):
        y: int = i
        if y > 0:
            z: Any = x + y
            x = z
    return x


def _same_name_in_comprehension(x: Any) -> Any:
    if x > 1:
        a = [x, x]
    else:
        a = [x + 1, x + 2]
    b = [a * 2 for a in a]
    return b[0] + b[1]


def _groups(x: Any) -> Any:
    for i in range(3):
        try:
            if i == 1:
                continue
            raise ExceptionGroup("several", [ValueError()])
        except* ValueError:
            x = x + i
    return x


@pytest.mark.parametrize(
    "function, wanted",
    [
        (_walrus, [29, 30, 31, 32]),
        (_match_returns, [1, 2, 3, 4]),
        (_match_jumps, [2, 3, 4, 5]),
        (_annotated, [1, 2, 3, 4]),
        (_same_name_in_comprehension, [6, 10, 8, 12]),
        (_groups, [2, 3, 4, 5]),
    ],
)
def test_statements_that_keep_their_meaning(function: Callable[..., Any], wanted: list[int]) -> None:
    assert _mapped(function) == wanted


def test_a_loop_of_pythons_reads_nothing_that_its_body_only_sets() -> None:
    class Caching:
        cache: Any = None
        reads = 0

        @property
        def last(self) -> int:
            self.reads += 1
            return 0

        @last.setter
        def last(self, value: int) -> None:
            pass

        def __call__(self, x: Any) -> Any:
            i = 0
            while i < 2:
                if self.cache is None:
                    self.cache = {}
                self.cache["k"] = self.last = i
                seen["k"] = i
                i += 1
            return x + self.cache["k"] + self.reads

    seen: Any = collections.defaultdict(list)
    assert _mapped(Caching()) == [1, 2, 3, 4]

    def never(x: Any) -> Any:
        while len(empty) > 3:
            empty["k"] = 1
        return x + len(empty)

    empty: Any = collections.defaultdict(list)
    assert _mapped(never) == [0, 1, 2, 3]


def test_lambdas_whose_body_is_a_condition() -> None:
    assert _mapped(lambda x: 1 if x > 1 else 0) == [0, 0, 1, 1]
    a, b = lambda x: x + 1 if x > 1 else x, lambda x: x + 2 if x > 1 else x
    assert (_mapped(a), _mapped(b)) == ([0, 1, 3, 4], [0, 1, 4, 5])
    outer = lambda k: lambda x: x * k if x > 1 else x  # noqa: E731
    assert _mapped(outer(3)) == [0, 1, 6, 9]
    assert _mapped(lambda x: sum(map(_branches, [x, x + 1]))) == [-1, 1, 5, 7]


def test_chained_comparisons_compute_each_value_once() -> None:
    calls = []

    def middle(x: Any) -> Any:
        calls.append(x)
        return tf.abs(x)

    assert _mapped(lambda x: x * 9 if 0 < middle(x) <= 2 else x) == [0, 9, 18, 3]
    assert len(calls) == 1
    one = np.int64(1)
    assert _mapped(lambda x: x + 1 if 0 < len("a") == one < 3 else x) == [1, 2, 3, 4]


def test_a_branch_without_return_is_named() -> None:
    def g(x: Any) -> Any:
        if x > 1:
            return x

    with pytest.raises(
        TypeError, match=r"returned is None at the end of the else .* must also have a return statement"
    ):
        _mapped(g)


def _inner(x: Any) -> Any:
    for _ in range(2):
        if x > 1:
            x = tf.matmul(
                x,
                x,
            )
        else:
            x = -x

    return x


def _outer(x: Any) -> Any:
    return tf.identity(
        _inner(
            x,
        ),
    )


def test_tracebacks_tell_the_lines_of_the_program() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError) as failed:
        _mapped(_outer)
    frames = traceback.extract_tb(failed.tb)
    assert [frame.line for frame in frames if frame.filename == __file__][-4:] == [
        "_inner(",
        "for _ in range(2):",
        "if x > 1:",
        "x = tf.matmul(",
    ]


def test_a_function_without_source_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """It runs as Python's, in which == of a tensor and a number is never true."""
    space: dict[str, Any] = {}
    exec("def typed(x):\n    return x == 2\ndef plain(x):\n    return x + 2\n", space)
    assert _mapped(space["plain"]) == [2, 3, 4, 5] and not caplog.records
    assert _mapped(space["typed"]) == [False] * 4 and _mapped(space["typed"]) == [False] * 4
    assert [r.getMessage()[:32] for r in caplog.records] == ["AutoGraph leaves typed as it is,"]


def _returns_from_a_count(n: Any) -> Any:
    i = 0
    while i < n:
        i += 1
        if i > 3:
            return i * 100
    return i


def test_a_loop_that_returns_by_a_number_of_pythons() -> None:
    """Before the loop it is a number, which decided at once that the loop never returns: it gave 0."""
    for n, wanted in ((9, 400), (2, 2)):
        with tf.Graph().as_default(), tf.Session() as session:
            assert session.run(tf.function(_returns_from_a_count)(tf.constant(n))) == wanted


def _reads_from_inside(x: Any) -> Any:
    if len("a") > 1:
        z = 1

    def inner() -> Any:
        return z

    try:
        return x + inner()
    except NameError:
        return x + 7


def test_a_function_inside_reads_a_name_that_has_no_value() -> None:
    assert _mapped(_reads_from_inside) == [7, 8, 9, 10]
