"""Patterns as tables give what re gives, and where there is no table re does the work."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.kernels import regex_loops, regex_patterns, strings_regex
from sparkflow_runtime.kernels.regex_machines import machine_of
from sparkflow_runtime.kernels.regex_patterns import compiled

LOOPS = (regex_loops.match_all, regex_loops.search_all, regex_loops.replace_all, regex_loops.find_texts)
PARTS = [
    *(b"a", b"b", b"c", b"A", b"k", b"s", b"1", b"9", b" ", b"\n", b".", b"-", b"\xff", b"\x80", b"\xe4\xb8", b"\0"),
    *(text.encode() for text in ("\u00e9", "\u4e2d", "\U0001f600", "\u00fc", "\u212a", "\u017f", "ab", "aaaa", "_")),
]
ATOMS = [
    *("a", "b", "\u00e9", "\u4e2d", ".", "[ab]", "[^a]", "[^ab\\n]", "\\w", "\\W", "\\d", "\\S", "[[:alpha:]]"),
    *("\\p{Lu}", "[a-c\u4e2d]", "\\x{1F600}", "\\.", "[k-s]", "(?i:a)", "(?i:[^b])", "(?i:k)", "(?s:.)", "^", "$"),
    *("\\b", "\\Qa.\\E"),
]  # fmt: skip
REPEATED = ["*", "+", "?", "*?", "+?", "??", "{2}", "{1,3}", "{0,2}?", "{2,}"]
REWRITES = ["", "X", r"<\0>", r"\\", "\u00e9", r"\0\0", r"x\1y"]


@pytest.fixture(autouse=True)
def every_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A table for each pattern, and the loops ready."""
    monkeypatch.setattr(regex_patterns, "_WORTH", 0)
    for loop in LOOPS:
        monkeypatch.setattr(loop, "_call", loop.compile())
    compiled.cache_clear()
    yield
    compiled.cache_clear()


def pattern_of(rng: random.Random, depth: int = 0) -> str:
    kind, inner = rng.random(), lambda: pattern_of(rng, depth + 1)
    if depth > 2 or kind < 0.45:
        return rng.choice(ATOMS)
    if kind < 0.65:
        return inner() + inner()
    if kind < 0.8:
        return f"({inner()}|{inner()})"
    return f"(?:{inner()}){rng.choice(REPEATED)}"


def strings(rng: random.Random, count: int) -> np.ndarray:
    made = [b"".join(rng.choice(PARTS) for _ in range(rng.randint(0, 8))) for _ in range(count)]
    return np.fromiter([b"", b"a" * 9, *made], object, count + 2)


@pytest.mark.parametrize("seed", range(6))
def test_what_re_gives(seed: int) -> None:
    rng, tables = random.Random(seed), 0
    for _ in range(150):
        pattern, given, every = pattern_of(rng).encode(), strings(rng, 40), rng.random() < 0.7
        rewrite, own = rng.choice(REWRITES), compiled(pattern)
        if re.search(r"[*?}]\)", own.found.pattern):
            continue  # it may repeat nothing, which re and RE2 do not do alike
        tables += own.machine(False, 1) is not None
        quick = strings_regex._matched(given, pattern), strings_regex._replaced(given, pattern, rewrite, every)
        own._machines = {True: None, False: None}
        slow = strings_regex._matched(given, pattern), strings_regex._replaced(given, pattern, rewrite, every)
        for found, wanted in zip(quick, slow):
            assert found.tolist() == wanted.tolist(), (pattern, rewrite, every)
    assert tables > 60


@pytest.mark.parametrize("pattern", [r"(?=a)b", r"a(?!b)", r"(a)\1", r"(?m:^)a", r"\bfoo", r"(?:ab){1500}"])
def test_what_has_no_table(pattern: str) -> None:
    assert machine_of(re.compile(pattern), False) is None


def test_states_are_bounded() -> None:
    """a after which exactly so many follow: each of the last bytes may have been it."""
    assert machine_of(re.compile("[ab]*a[ab]{20}"), True) is None


@pytest.mark.parametrize("ready", [True, False])
@pytest.mark.parametrize("pattern", ["(a+)+b", "(?:a|a)+b", "(?:a*)*b", "(?:a|aa)*b", "(?:(?:a+ ?)+,?)+!", "(a?){40}b"])
def test_repetitions_of_repetitions_take_no_longer(
    graph: Any, monkeypatch: pytest.MonkeyPatch, ready: bool, pattern: str
) -> None:
    """re takes years for each of these; there is no waiting for many strings, and none for the loops."""
    monkeypatch.setattr(regex_patterns, "_WORTH", 2000)
    if not ready:
        for loop in LOOPS:
            monkeypatch.setattr(loop, "_call", loop.numpy)
    given, end = [b"a" * 60, b"a" * 30 + b"c"], pattern.encode()[-1:]
    found = [b"x" + b"a" * 9 + end + b"y"]
    with tf.Session() as session:
        assert session.run(tf.strings.regex_full_match([*given, *found], pattern)).tolist() == [False] * 3
        assert session.run(tf.strings.regex_replace([*given, *found], pattern, "-")).tolist() == [*given, b"x-y"]
        groups = session.run(tf.strings.regex_replace([*given, *found], f"({pattern})", r"<\1>"))
        assert groups.tolist() == [*given, b"x<aaaaaaaaa" + end + b">y"]


@pytest.mark.parametrize(
    "pattern, rewrite, text, wanted",
    [
        (r"(\w+) (\w+)", r"\2 \1", "ab cd ef gh", "cd ab gh ef"),
        ("(a)|(b)", r"<\2\1>", "abc", "<a><b>c"),
        ("(a)|(b)", r"<\2>", "abc", "<><b>c"),
        ("(a+?)(a*)b", r"\1-\2-", "aaab", "a-aa-"),
        ("(?:(a)|b)+c", r"\1", "abc", "a"),
        ("((a|b)+)$", r"\1\2", "xab", "xabb"),
        ("^(.)(.)", r"\2\1", "\u00e9\u4e2dx", "\u4e2d\u00e9x"),
        ("(a|ab)(c|bcd)", r"[\1,\2]", "abcd", "[a,bcd]"),
        ("(?i)(K)(.)", r"\2\1", "k\u212a", "\u212ak"),
        (r"(.*)(\d+)", r"\2", "a123", "3"),
    ],
)
def test_groups(graph: Any, pattern: str, rewrite: str, text: str, wanted: str) -> None:
    """By the loop and by re, as RE2 has them."""
    made, given = tf.strings.regex_replace([text, "", text + "~"], pattern, rewrite), compiled(pattern.encode())
    with tf.Session() as session:
        assert session.run(made)[0] == wanted.encode()
    given._machines = {True: None, False: None}
    assert strings_regex._replaced(np.array([text.encode()], object), pattern, rewrite, True)[0] == wanted.encode()


def test_groups_of_a_match_for_which_there_is_no_room(graph: Any) -> None:
    text = b"x" * 200_000 + b"y1"
    x = tf.placeholder(tf.string)
    with tf.Session() as session:
        found = session.run(tf.strings.regex_replace(x, "(x+)y([0-9])", r"\2\1"), {x: [text, b"xy2"]})
    assert found.tolist() == [b"1" + b"x" * 200_000, b"2x"]


def test_a_few_strings_are_matched_without_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regex_patterns, "_WORTH", 2000)
    own = compiled(b"a+")
    assert own.machine(True, 1999) is None and own.machine(True, 1) is not None


def test_many_strings(graph: Any) -> None:
    """In several axes, with strings of a type of their own, and while the loops are not there."""
    x, given = (
        tf.placeholder(tf.string),
        np.array([b"ab1", np.bytes_(b"cab22"), b"", b"x"] * 500, object).reshape(4, -1),
    )
    made = [
        tf.strings.regex_full_match(x, "[a-c]+[0-9]+"),
        tf.strings.regex_replace(x, "[0-9]", "#"),
        tf.strings.regex_replace(x, "([a-z])([0-9])", r"\2\1"),
        tf.strings.regex_replace(x, "b", r"\0\0", replace_global=False),
    ]
    wanted = [
        [True, True, False, False],
        [b"ab#", b"cab##", b"", b"x"],
        [b"a1b", b"ca2b2", b"", b"x"],
        [b"abb1", b"cabb22", b"", b"x"],
    ]
    with tf.Session() as session:
        for _ in range(2):
            for found, row in zip(session.run(made, {x: given}), wanted):
                assert found.shape == given.shape and found.ravel().tolist() == row * 500
            for loop in LOOPS:
                loop._call = loop.numpy


def test_references_are_kept(graph: Any) -> None:
    """A string that holds no match comes out as it is; one that is replaced is not held any longer than it was."""
    import sys

    given = np.array([bytes([97 + i % 26]) * 40 for i in range(3000)], object)
    before = [sys.getrefcount(given[i]) for i in range(3)]
    found = strings_regex._replaced(given, "b+", "", True)
    assert found[0] is given[0] and found[1] == b""
    del found
    assert [sys.getrefcount(given[i]) for i in range(3)] == before
