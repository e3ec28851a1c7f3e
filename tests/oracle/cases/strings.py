"""Strings: parts, numbers, hashes, bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sparkflow_runtime.wire.dtypes import as_dtype
from tests.oracle.cases.table import cases
from tests.oracle.cases.values import COMPLEX, INTS, WIDE, i32, ramp, s32, special, strings

TEXT = strings(
    "", "a", "ab", " two words ", "ABC", "\u00e4\u00d6", "x,y;z", "aaa", "0123456789abcdefghijk", "long" * 20
)
ONE = np.array(b"a b", object)
BROKEN = np.array([b"\0", b"a\0b", b"\x80", b"\xff\xfe", b"\xc3", b"\xe4\xb8a", b"a\x80\x80", b" \0 "], object)
MANY = np.concatenate([TEXT, BROKEN, TEXT])  # as many as machine code takes


def _plain(label: str = "values", **attrs: Any) -> Any:
    return lambda dtype: [
        (label, [TEXT], attrs),
        ("matrix", [TEXT[:4].reshape(2, 2)], attrs),
        ("scalar", [ONE], attrs),
        ("empty", [TEXT[:0]], attrs),
    ]


cases("StringStrip", ("string",), _plain())
for _coding in ("", "utf-8"):
    cases("StringLower", ("string",), _plain(f"lower{_coding}", encoding=_coding))
    cases("StringUpper", ("string",), _plain(f"upper{_coding}", encoding=_coding))
for _unit in ("BYTE", "UTF8_CHAR"):
    cases("StringLength", ("string",), _plain(_unit, unit=_unit))
cases("StringLength", ("string",), lambda d: [(f"many{u}", [MANY], {"unit": u}) for u in ("BYTE", "UTF8_CHAR")])
for _op in ("StringToHashBucket", "StringToHashBucketFast"):
    cases(_op, ("string",), _plain(num_buckets=1 << 40))
    cases(
        _op, ("string",), lambda d: [(f"n{n}", [strings("x" * n)], {"num_buckets": 1 << 62}) for n in range(0, 200, 3)]
    )
cases("StringToHashBucketStrong", ("string",), _plain(num_buckets=1 << 40, key=[123456789, -5]))
cases(
    "StringToHashBucketStrong",
    ("string",),
    lambda d: [(f"n{n}", [strings("\xff" * n)], {"num_buckets": 1 << 62, "key": [n, 1 << 62]}) for n in range(18)],
)
for _pad in (True, False):
    cases("EncodeBase64", ("string",), _plain(f"pad{_pad}", pad=_pad))
cases(
    "DecodeBase64",
    ("string",),
    lambda d: [("good", [strings("", "YQ", "YWI=", "_-8")]), ("wrong", [strings("a*b=")]), ("short", [strings("a")])],
)


def _numbers(dtype: str) -> Iterator[Any]:
    for out in ("float32", "float64", "int32", "int64"):
        own = {"out_type": as_dtype(out)}
        yield f"{out}", [strings("1", "-7", "+3", " 12 ")], own
        for i, wrong in enumerate(("", "abc", "1_0", "99999999999999999999", "1 2")):
            if not (out.startswith("f") and i == 3):
                yield f"{out}-wrong{i}", [strings(wrong)], own
    for out in ("float32", "float64"):
        yield f"{out}-real", [strings("1.5", "-1e3", ".25", "inf", "nan")], {"out_type": as_dtype(out)}


cases("StringToNumber", ("string",), _numbers)


def _texts(dtype: str) -> Iterator[Any]:
    x = special(dtype)[:6] if dtype in INTS else ramp(dtype, 5)
    yield "plain", [x]
    if dtype == "bool":
        return
    yield "width", [x], {"width": 12}
    yield "zeros", [x], {"width": 12, "fill": "0"}
    if dtype in WIDE or dtype in COMPLEX:
        yield "precision", [x], {"precision": 2}
        yield "scientific", [x], {"scientific": True}
        yield "shortest", [x], {"shortest": True, "precision": 3}


cases("AsString", (*INTS, *WIDE, *COMPLEX, "bool"), _texts)


def _parts(dtype: str) -> Iterator[Any]:
    for unit in ("BYTE", "UTF8_CHAR"):
        own = {"unit": unit}
        yield f"same{unit}", [strings("hello", "w\u00f6rld"), s32(1), s32(3)], own
        yield f"each{unit}", [strings("hello", "world"), i32(0, -2), i32(2, 5)], own
        yield f"outside{unit}", [strings("hello", "a"), s32(3), s32(1)], own
        yield f"negative{unit}", [strings("hello", "a"), s32(-3), s32(1)], own
        yield f"end{unit}", [strings("abc"), s32(3), s32(1)], own
        for first, most in ((0, 1), (0, 100), (0, -1)):
            yield f"many{first},{most}{unit}", [MANY, s32(first), s32(most)], own
            yield f"few{first},{most}{unit}", [BROKEN, s32(first), s32(most)], own
        yield f"end of few{unit}", [BROKEN, s32(-1), s32(1)], own
        yield f"end of many{unit}", [np.tile(BROKEN, 4), s32(-1), s32(1)], own
        yield f"nothing from the end{unit}", [BROKEN, s32(-1), s32(-1)], own
        last = np.array([-min(1, len(s)) for s in TEXT.tolist() * 2], np.int32)
        yield f"last{unit}", [np.concatenate([TEXT, TEXT]), last, np.full_like(last, 4)], own


cases("Substr", ("string",), _parts)


def _regexes(dtype: str) -> Iterator[Any]:
    for label, pattern, by in (("class", "[ab]+", "<>"), ("group", r"(\w)(\w)", r"\2\1"), ("whole", "a", r"[\0]")):
        for every in (True, False):
            inputs = [TEXT[:8], np.array(pattern.encode(), object), np.array(by.encode(), object)]
            yield f"{label}{every}", inputs, {"replace_global": every}


def _static_regexes(dtype: str) -> Iterator[Any]:
    for every in (True, False):
        yield f"{every}", [TEXT[:8]], {"pattern": "[ab]+", "rewrite": "<>", "replace_global": every}


cases("RegexReplace", ("string",), _regexes)
cases("StaticRegexReplace", ("string",), _static_regexes)
cases("RegexFullMatch", ("string",), lambda d: [("a", [TEXT, np.array(b"a+b?", object)])])
cases("StaticRegexFullMatch", ("string",), lambda d: [("a", [TEXT], {"pattern": "a+b?"})])


def _splits(dtype: str) -> Iterator[Any]:
    x = strings("a b  c", "", "x,y", " z ")
    for label, cut in (("space", b" "), ("two", b" ,"), ("each", b"")):
        for skip in (True, False):
            yield f"{label}{skip}", [x, np.array(cut, object)], {"skip_empty": skip}
            yield f"many{label}{skip}", [MANY, np.array(cut, object)], {"skip_empty": skip}


def _splits_v2(dtype: str) -> Iterator[Any]:
    x = strings("a b  c", "", "x,y", " z ", "a, b, c")
    for label, cut in (("white", b""), ("space", b" "), ("pair", b", ")):
        for most in (-1, 1):
            if cut or most < 0:  # with white space TensorFlow does not count its cuts
                yield f"{label}{most}", [x, np.array(cut, object)], {"maxsplit": most}
                yield f"many{label}{most}", [MANY, np.array(cut, object)], {"maxsplit": most}


cases("StringSplit", ("string",), _splits)
cases("StringSplitV2", ("string",), _splits_v2)


def _raws(dtype: str) -> Iterator[Any]:
    for out in ("uint8", "int16", "float32", "int64"):
        for little in (True, False):
            own = {"out_type": as_dtype(out), "little_endian": little}
            yield f"{out}{little}", [strings("01234567", "abcdefgh")], own
    yield "uneven", [strings("abc")], {"out_type": as_dtype("int16")}
    yield "unequal", [strings("ab", "abcd")], {"out_type": as_dtype("int16")}


def _joins(dtype: str) -> Iterator[Any]:
    x = ramp("string", 2, 3)
    for axes in ([0], [1], [-1], [0, 1], [1, 0], []):
        for keep in (True, False):
            at = np.array(axes, np.int32)
            yield f"{axes}{keep}", [x, at], {"keep_dims": keep, "separator": "-"}
            yield f"many{axes}{keep}", [np.stack([MANY, MANY[::-1]], 1), at], {"keep_dims": keep, "separator": "\0-"}


cases("DecodeRaw", ("string",), _raws)
cases("ReduceJoin", ("string",), _joins)
