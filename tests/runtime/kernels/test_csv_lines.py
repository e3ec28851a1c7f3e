"""Lines of comma-separated values: the compiled loop finds what Python finds value by value, in the same bits, or
leaves the lines to Python."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.kernels import csv_lines, csv_loops
from sparkflow_runtime.wire import dtypes

TYPES = {"i": dtypes.int32, "l": dtypes.int64, "f": dtypes.float32, "d": dtypes.float64, "s": dtypes.string}
NUMBERS = [
    "0",
    "-0",
    "+7",
    "1.",
    ".5",
    "-.25",
    "1e5",
    "1E-5",
    "-1.5e+3",
    "0.1",
    "3.141592653589793",
    "1e23",
    "1e-23",
    "1e400",
]
NUMBERS += ["9007199254740993", "9007199254740992e22", "0.30000000000000004", "4.9e-324", "-inf", "infinity", "00012"]
NUMBERS += ["123456789012345678", "0.000000000000000000001", "1e00005", "1e22", "nan"]
WRONG = ["", "x", "1e", ".", "-", "e5", "1.5.2", "1_000", "1 2", "0x10", "--1", "1e+"]


@pytest.fixture(autouse=True)
def _compiled() -> None:
    csv_loops.read_lines.compile()


def both(
    lines: list[bytes], kinds: str, defaults: Any, *, delimiter: str = ",", quotes: bool = True, missing: str = "",
    chosen: tuple[int, ...] = (),
) -> list[np.ndarray] | None:  # fmt: skip
    """What the loop found, which is what is found value by value; None where it has left the lines."""
    types = [TYPES[kind] for kind in kinds]
    found = csv_lines._Form(delimiter, quotes, missing.encode(), list(chosen), types).read(lines, defaults)
    if found is not None:
        slow = csv_lines._value_by_value(lines, delimiter, quotes, missing, list(chosen), types, defaults)
        for a, b in zip(found, slow, strict=True):
            assert a.dtype == b.dtype and (
                a.tolist() == b.tolist() if a.dtype == object else a.tobytes() == b.tobytes()
            ), (a, b)
    return found


@pytest.mark.parametrize("kind", "fd")
def test_numbers_have_the_bits_that_python_gives_them(kind: str) -> None:
    rng = np.random.default_rng(0)
    drawn = [repr(x) for x in (rng.standard_normal(2000) * 10.0 ** rng.integers(-30, 30, 2000)).tolist()]
    drawn += [f"{x:.{n}f}" for x, n in zip(rng.standard_normal(2000) * 100, rng.integers(0, 18, 2000))]
    assert both([n.encode() for n in NUMBERS + drawn], kind, [[]]) is not None


@pytest.mark.parametrize("kind", "ilfd")
def test_a_wrong_number_is_left(kind: str) -> None:
    for text in WRONG + ["12345678901234567890", "2147483648"] * (kind == "i") + ["1.0"] * (kind in "il"):
        assert both([b"1", text.encode()], kind, [[]]) is None


def test_whole_numbers_at_their_ends() -> None:
    assert both([b"2147483647", b"-2147483648", b" 7 ", b"+0"], "i", [[]]) is not None
    assert both([b"9223372036854775807", b"-9223372036854775808", b"999999999999999999"], "l", [[]]) is not None


def test_fields_of_every_form() -> None:
    """All lines of up to three fields of these, with and without quotes as quotes."""
    fields = [b"", b"7", b"NA", b'"8"', b'"a,b"', b'"a""b"', b'""', b'"', b'a"b', b'"a"b', b" x", "é".encode(), b"\xff"]
    fields += [b'"x\ny"', b"x\n", b"x\r", b"a\0", b'"a\0"', b'""""']
    read = 0
    for count in (1, 2, 3):
        for some in itertools.product(fields, repeat=count):
            for quotes in (True, False):
                found = both([b",".join(some)], "s" * count, [["d"]] * count, quotes=quotes, missing="NA")
                read += found is not None
    assert read > 4000, "most of them are read by the loop"


def test_columns_are_chosen() -> None:
    lines = [b"1|2|3|4", b"5|6|7|", b"|8|9"]
    assert [c.tolist() for c in both(lines, "is", [[0], ["-"]], delimiter="|", chosen=(0, 2)) or ()] == [
        [1, 5, 0],
        [b"3", b"7", b"9"],
    ]
    assert both(lines, "ii", [[0], [0]], delimiter="|", chosen=(0, 3)) is None, "the last line is too short"
    assert both(lines, "iiii", [[0]] * 4, delimiter="|") is None
    assert both([b"1,2"], "ii", [[0], [0]], chosen=(1, 0)) is None, "the rule is that they rise"


def test_more_cells_than_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_lines, "_CELLS", 10)
    lines = [f"{i},{i / 8},{'' if i % 3 else 'x'}".encode() for i in range(100)]
    found = both(lines, "ids", [[], [], ["none"]])
    assert found is not None and found[0].tolist() == list(range(100))
    assert both([], "ids", [[], [], []]) is not None


def test_what_is_wrong_is_said() -> None:
    with tf.Session() as session:
        for line, said in (
            (b"\xff", r"Field 0 in record 1 is not a valid float: �"),
            (b"1_0", "not a valid float: 1_0"),
        ):
            with pytest.raises(tf.errors.InvalidArgumentError, match=said):
                session.run(tf.decode_csv([b"1", line], [[0.5]]))
        assert session.run(tf.decode_csv([b'"a""b\xff"'], [["x"]]))[0].tolist() == [b'a"b\xff']
        for line, said in (
            (b'a"b', "Unquoted fields"),
            (b"a\r", "Unquoted fields"),
            (b'"a"b', "Quoted field has to end"),
        ):
            with pytest.raises(tf.errors.InvalidArgumentError, match=said):
                session.run(tf.decode_csv([line], [["x"]]))
