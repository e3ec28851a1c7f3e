"""Patterns are RE2's: of characters, not of bytes, and without what looks around."""

from __future__ import annotations

from typing import Any

import pytest

import sparkflow as tf

pytestmark = pytest.mark.usefixtures("graph")


def _run(tensor: Any) -> list[Any]:
    with tf.Session() as sess:
        return list(sess.run(tensor).tolist())


@pytest.mark.parametrize(
    "pattern, text, wanted",
    [
        (".", "h\u00e9", "<h><\u00e9>"),
        ("[^a]", "a\u4f60b", "a<\u4f60><b>"),
        (r"[^\x00-\x7F]+", "na\u00efve \u4f60\u597d", "na<\u00ef>ve <\u4f60\u597d>"),
        (r"\w+", "a\u00e9b c", "<a>\u00e9<b> <c>"),
        (r"\pL+", "a\u00e9 1", "<a\u00e9> 1"),
        ("[[:upper:]]", "aBc", "a<B>c"),
        ("(?i)\u00e9", "\u00c9", "<\u00c9>"),
        ("a*", "aab", "<aa>b<>"),
        ("a$", "a\n", "a\n"),
        (r"a\z", "a", "<a>"),
        ("x{,2}", "x{,2}", "<x{,2}>"),
        ("(?U)a+", "aa", "<a><a>"),
        (r"\Qa.\E", "a.ab", "<a.>ab"),
    ],
)
def test_what_is_replaced(pattern: str, text: str, wanted: str) -> None:
    assert _run(tf.strings.regex_replace([text], pattern, r"<\0>")) == [wanted.encode()]


def test_bytes_that_are_no_characters_stay_and_are_not_matched() -> None:
    assert _run(tf.strings.regex_replace([b"a\xffb"], ".", "x")) == [b"x\xffx"]
    assert _run(tf.strings.regex_full_match([b"\xff", "\u00e9"], ".")) == [False, True]


@pytest.mark.parametrize(
    "pattern", ["(?=a)", "(?<!a)b", r"(a)\1", "a**", "a++", "a{1001}", "[z-a]", r"\pX", "(", "[[:foo:]]"]
)
def test_what_re2_does_not_take_is_refused(pattern: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="Invalid pattern"):
        _run(tf.strings.regex_full_match(["a"], pattern))


def test_scripts_are_refused_by_name() -> None:
    with pytest.raises(tf.errors.UnimplementedError, match="Greek"):
        _run(tf.strings.regex_full_match(["a"], r"\p{Greek}"))


def test_a_rewrite_with_a_wrong_escape() -> None:
    """RE2 leaves the strings alone where the group is wanting, and writes what comes before a wrong escape."""
    found = [tf.strings.regex_replace(["abc"], "b", by) for by in (r"\1", r"x\n", r"\\", r"\00")]
    assert [_run(t) for t in found] == [[b"abc"], [b"axc"], [rb"a\c"], [b"ab0c"]]
    assert _run(tf.strings.regex_replace(["abc"], "b", r"x\n", replace_global=False)) == [b"abc"]


@pytest.mark.parametrize(
    "given", [[], [b"a"], [b"a", b"", b"ba"], [b"\0a", b"b"], [b"\xe4\xb8", b"\xadab"], [b"", b""]]
)
@pytest.mark.parametrize("by", ["<a>", "", "\0"])
def test_strings_keep_apart(given: list[bytes], by: str) -> None:
    """Whatever bytes they hold, and whatever stands at their ends."""
    x = tf.placeholder(tf.string, [None])
    with tf.Session() as sess:
        replaced, matched = sess.run(
            [tf.strings.regex_replace(x, "a", by), tf.strings.regex_full_match(x, "b?a")], {x: given}
        )
    assert replaced.tolist() == [text.replace(b"a", by.encode()) for text in given]
    assert matched.tolist() == [text in (b"a", b"ba") for text in given] and matched.dtype == bool


@pytest.mark.parametrize("pattern", ["(?:x)??", "^|xy", "x*?"])
def test_nothing_is_matched_once_where_it_comes_first(pattern: str) -> None:
    """RE2 goes on behind it, where re would match something at the same place, and so take it away."""
    assert _run(tf.strings.regex_replace(["xyx", "ax"], pattern, "")) == [b"xyx", b"ax"]
