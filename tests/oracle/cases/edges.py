"""Inputs at the edges of ops, where random changes of the other cases once showed a difference."""

from __future__ import annotations

import numpy as np

from sparkflow_runtime.wire.dtypes import as_dtype
from tests.oracle.cases.table import cases
from tests.oracle.cases.values import i32, strings
from tests.oracle.compare import Tolerance

cases(
    "RegexReplace",
    ("string",),
    lambda d: [
        (
            f"rewrite{i}",
            [strings("abc", "bb", ""), strings(pattern).reshape(()), strings(by).reshape(())],
            {"replace_global": every},
        )
        for every in (True, False)
        for pattern in ("b", "(b)(c)?", "")
        for i, by in enumerate(
            (r"\1", r"\2\1", r"\\", "\\", r"\n", r"\g<0>", r"\10", r"<\0>", "a\nb", r"\\1", r"x\\\1")
        )
    ],
)
_INFINITE = np.array([np.inf, -np.inf, np.nan, -1, 0, -0.0, 2])
cases("LeakyRelu", ("float32", "float64"), lambda d: [("alpha0", [_INFINITE.astype(d)], {"alpha": 0.0})])
for _equation in ("ij->", "ij->j", "ij->ji", "ii->i", "ii->"):
    cases(
        "Einsum",
        ("bfloat16", "float16", "float32"),
        lambda d, e=_equation: [(e, [[np.arange(9).reshape(3, 3).astype(d)]], {"equation": e})],
    )
cases(
    "MatrixInverse",
    ("float16",),
    lambda d: [("half", [np.array([[2, 1], [1, 3]], d)], {"adjoint": False})],
    tolerance=Tolerance(4),
)
_BOX = np.array([[0, 0, 1, 1]], np.float32)
cases(
    "CropAndResizeGradBoxes",
    ("float32",),
    lambda d: [
        ("no-cells", [np.zeros((1, 0, 2, 1), d), np.ones((1, 2, 2, 1), d), _BOX, i32(0)]),
        ("other-depth", [np.zeros((1, 2, 2, 1), d), np.ones((1, 2, 2, 2), d), _BOX, i32(0)]),
    ],
)
cases(
    "StringToNumber",
    ("string",),
    lambda d: [
        (text.strip(), [strings(text)], {"out_type": as_dtype("float32")})
        for text in ("0x1F", " -0X1.8p1 ", "0x.8", "0x", "0xg", "0x1p", "0b1", "1e", "+.5")
    ],
)
cases(
    "DecodeCSV",
    ("string",),
    lambda d: [
        (
            f"{line}{chosen}",
            [strings(line), [strings("a"), strings("b")]],
            {"OUT_TYPE": [as_dtype("string")] * 2, "select_cols": chosen},
        )
        for line in ("1,2", "1,2,3", "1", "")
        for chosen in ([0, 1], [0, 2], [1, 2], [0, 5])
    ],
)
_EMPTY = np.empty((2, 0, 3), object)

cases("AsString", ("bool",), lambda d: [("wide", [np.array([True, False])], {"width": 8, "fill": "0"})])
cases(
    "UnsortedSegmentJoin",
    ("string",),
    lambda d: [
        (
            "first-empty",
            [strings("a", "", "c", "", "", "e", "", "x", ""), i32(1, 1, 1, 0, 0, 0, 2, 2, 3), i32(4)[0]],
            {"separator": "-"},
        ),
    ],
)
cases(
    "StringSplitV2",
    ("string",),
    lambda d: [
        (f"to-the-end{n}", [strings("a b", " a b ", "a", "a b c", ""), np.array(b"", object)], {"maxsplit": n})
        for n in (0, 1, 2, 3, -1)
    ],
)
cases("NthElement", ("float32",), lambda d: [("vector-n", [np.array([3, 1, 2], d), i32(2)])])
_LINES = np.array([[1, 2, 3]], np.float32), np.array([[np.nan, 0, 4]], np.float32)
for _op in ("LowerBound", "UpperBound"):
    cases(_op, ("float32",), lambda d: [("nan", list(_LINES))])
cases(
    "ReduceJoin",
    ("string",),
    lambda d: [
        (f"none{axes}{kept}", [_EMPTY, i32(*axes)], {"keep_dims": kept, "separator": "-"})
        for axes in ((0,), (1,), (2,), (1, 2))
        for kept in (True, False)
    ],
)
cases("InTopKV2", ("int32",), lambda d: [("no-classes", [np.zeros((3, 0), np.float32), i32(0, 1, 2), i32(1)[0]])])
cases("ConjugateTranspose", ("bool",), lambda d: [("bool", [np.ones((2, 3), bool), i32(1, 0)])])
for _value in (1, 0):
    cases(
        "SerializeTensor",
        ("bool", "int32", "float32", "float16", "bfloat16", "int64"),
        lambda d, v=_value: [(f"all-{v}", [np.full((2, 3), v).astype(d)])],
    )


# Patterns of RE2 that Python's re takes otherwise, or not at all, or alone.
_PATTERNS = [
    r"a*",
    r"a*?",
    r"a$",
    r"\w+",
    r"\W",
    r"\S+",
    r".",
    r".*",
    r"(?s).*",
    r"[^\x00-\x7F]",
    r"[^a]",
    r"\pL",
    r"\p{Lu}+",
    r"\PL",
    r"[\pL\d]+",
    r"[[:alpha:]]+",
    r"[[:^alpha:]]",
    r"[^[:space:]]+",
    r"\z",
    r"\Ab?",
    r"(?i)\x{e9}",
    r"(?i:A)b",
    r"a(?i)B|X",
    r"(?m)^",
    r"(?m)$",
    r"$",
    r"\b",
    r"\bw",
    r"(l+)(o)?",
    r"x{,2}",
    r"a{2}?",
    r"(?U)a+",
    r"\Qa b\E",
    r"\141",
    r"[\]a]",
    r"[]a]",
    r"[a-c-]",
    r"[&&]",
    r"[\w-]",
    r"[^\W]",
    r"(?P<n>a)",
    r"a|b|",
    r"(a|ab)(c|bcd)?",
    r"\_",
    r"[\D]",
    r"a{",
    r"a{1",
    r"(?:)",
    r"|",
    r"a**",
    r"a*+",
    r"a++",
    r"(",
    r")",
    r"[",
    r"*",
    r"(?<=a)b",
    r"(?=a)",
    r"(?!a)",
    r"\1",
    r"a{1001}",
    r"a{3,2}",
    r"[z-a]",
    r"\pX",
    r"\8",
    r"\y",
    r"(?P=n)",
    r"(?#c)",
    r"a{2}{3}",
    r"(?x)a",
]
_TEXTS = strings(
    "",
    "a",
    "h\u00e9llo w\u00f6rld",
    "\u4f60\u597d",
    "a b  c",
    "A-Z_0.9",
    " x ",
    "aaa",
    "tab\tnew\nline",
    "\u00c9\u00e9",
    "a\n",
    "x{,2}",
)
_TEXTS[-1] = b"a\xffb"
for _pattern in _PATTERNS:
    cases("RegexFullMatch", ("string",), lambda d, p=_pattern: [(p, [_TEXTS, strings(p).reshape(())])])
    for _every in (True, False):
        cases(
            "RegexReplace",
            ("string",),
            lambda d, p=_pattern, every=_every: [
                (
                    f"{p}{every}",
                    [_TEXTS, strings(p).reshape(()), strings(r"<\0>").reshape(())],
                    {"replace_global": every},
                )
            ],
        )
