"""Kernels of a GPU that read some arrays and write others, element by element, from one text.

Where arrays are large and lie one element after the other, each thread takes four at once: of an H200's memory that
reaches far more than cupy's form with one a thread, which takes all else: any strides, and shapes that broadcast.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

_C_TYPES = {"f4": "float", "f8": "double", "i4": "int", "i8": "long long", "?": "bool"}
C_TYPES = {np.dtype(kind): name for kind, name in _C_TYPES.items()}  # what a kernel may have
FORMS = {  # numpy's names -> what they are in C; t: the type of the result
    "negative": "-{0}",
    "absolute": "fabs({0})",
    "absolute of integers": "{0} < 0 ? -{0} : {0}",
    "sign": "{0} != {0} ? {0} : {0} > 0 ? ({t})(1) : {0} < 0 ? ({t})(-1) : ({t})(0)",
    "square": "{0} * {0}",
    "add": "{0} + {1}",
    "subtract": "{0} - {1}",
    "multiply": "{0} * {1}",
    "true_divide": "({t}){0} / ({t}){1}",
    "maximum": "{0} != {0} || {0} >= {1} ? {0} : {1}",
    "minimum": "{0} != {0} || {0} <= {1} ? {0} : {1}",
    "power": "pow({0}, {1})",
    "copysign": "copysign({0}, {1})",
    "logical_not": "!{0}",
    "logical_and": "{0} && {1}",
    "logical_or": "{0} || {1}",
    "equal": "{0} == {1}",
    "not_equal": "{0} != {1}",
    "less": "{0} < {1}",
    "less_equal": "{0} <= {1}",
    "greater": "{0} > {1}",
    "greater_equal": "{0} >= {1}",
    "select": "{0} ? {1} : {2}",
    "widen": "({t}){0}",
    "copy": "{0}",
}
LIBRARY = ("floor", "ceil", "rint", "sqrt", "exp", "expm1", "log", "log1p", "tanh")
FORMS |= {name: f"{name}({{0}})" for name in LIBRARY}
_LARGE = 1 << 18  # elements
_AT_ONCE, _THREADS = 4, 256
_FULL, _ROW, _ONE = "full", "row", "one"  # of an input: an element, one of its column, the same for every element

_SOURCE = """
template <typename T> struct alignas({at_once} * sizeof(T) < 16 ? {at_once} * sizeof(T) : 16) Some {{
    T v[{at_once}];
}};

extern "C" __global__ void {name}({parameters}, const unsigned long long n, const unsigned int width) {{
    unsigned long long i = {at_once}ull * (blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x);
    if (i + {at_once} <= n) {{
        {loads}
        #pragma unroll
        for (int j = 0; j < {at_once}; ++j) {{
            {takes}
            {text}
            {gives}
        }}
        {stores}
    }} else for (; i < n; ++i) {{
        {takes_one}
        {text}
        {gives_one}
    }}
}}
"""


class Elementwise:
    """text: lines of C that give y0, y1 ... of x0, x1 ..., whose types are those of outputs and inputs."""

    def __init__(
        self, xp: Any, inputs: Sequence[np.dtype[Any]], outputs: Sequence[np.dtype[Any]], text: str, name: str
    ):
        self._xp, self._inputs, self._outputs = xp, tuple(inputs), tuple(outputs)
        self._text, self._name = text, name
        taken = ", ".join(f"{t.name} x{i}" for i, t in enumerate(inputs))
        given = ", ".join(f"{t.name} y{i}" for i, t in enumerate(outputs))
        self._any = xp.ElementwiseKernel(taken, given, text, name)

    def __call__(self, given: Sequence[Any], out: Sequence[Any] = ()) -> list[Any]:
        """The outputs: `out`, whose arrays may be inputs of their type and shape, or new ones, of the shape that one of
        the inputs has."""
        size, _, shape = max((x.size, x.ndim, x.shape) for x in given)
        forms = self._forms(given, shape, size) if size >= _LARGE else None
        if forms is None or not all(_is_plain(x) for x in out):
            found = self._any(*given, *out)
            return list(found) if isinstance(found, tuple) else [found]
        made = list(out) or [self._xp.empty(shape, dtype) for dtype in self._outputs]
        kernel = _compiled(self._xp.RawKernel, self._inputs, self._outputs, self._text, self._name, forms)
        blocks = -(-size // (_AT_ONCE * _THREADS))
        width = shape[-1] if _ROW in forms else 1
        kernel((blocks,), (_THREADS,), (*given, *made, np.uint64(size), np.uint32(width)))
        return made

    @staticmethod
    def _forms(given: Sequence[Any], shape: tuple[int, ...], size: int) -> tuple[str, ...] | None:
        """How each input lies; None where one lies otherwise."""
        forms = []
        for x in given:
            if x.shape == shape and _is_plain(x):
                forms.append(_FULL)
            elif x.size == 1:
                forms.append(_ONE)
            elif x.shape == shape[-1:] and not x.size % _AT_ONCE and x.size < 1 << 32 and _is_plain(x):
                forms.append(_ROW)
            else:
                return None
        return tuple(forms)


def _is_plain(x: Any) -> bool:
    return x.flags.c_contiguous and not x.data.ptr % 16


@lru_cache(maxsize=256)
def _compiled(
    make: Any,
    inputs: tuple[np.dtype[Any], ...],
    outputs: tuple[np.dtype[Any], ...],
    text: str,
    name: str,
    forms: tuple[str, ...],
) -> Any:
    return make(source_of(inputs, outputs, text, name, forms), name)


def source_of(
    inputs: Sequence[np.dtype[Any]], outputs: Sequence[np.dtype[Any]], text: str, name: str, forms: Sequence[str]
) -> str:
    ins, outs = [C_TYPES[t] for t in inputs], [C_TYPES[t] for t in outputs]
    at = {_FULL: "i", _ROW: "i % width", _ONE: "0"}
    some = {_FULL: "const Some<{0}> a{1} = *(const Some<{0}>*)(p{1} + i);", _ONE: "const {0} a{1} = *p{1};"}
    some[_ROW] = "const Some<{0}> a{1} = *(const Some<{0}>*)(p{1} + i % width);"
    results = " ".join(f"{t} y{k};" for k, t in enumerate(outs))
    own = [f"const {t} x{k} = a{k}{'' if form == _ONE else '.v[j]'};" for k, (t, form) in enumerate(zip(ins, forms))]
    alone = [f"const {t} x{k} = p{k}[{at[form]}];" for k, (t, form) in enumerate(zip(ins, forms))]
    return _SOURCE.format(
        at_once=_AT_ONCE,
        name=name,
        parameters=", ".join(
            [*(f"const {t}* p{k}" for k, t in enumerate(ins)), *(f"{t}* q{k}" for k, t in enumerate(outs))]
        ),
        loads=" ".join(some[form].format(t, k) for k, (t, form) in enumerate(zip(ins, forms)))
        + " ".join(f" Some<{t}> b{k};" for k, t in enumerate(outs)),
        takes=" ".join([*own, results]),
        text=text,
        gives=" ".join(f"b{k}.v[j] = y{k};" for k in range(len(outs))),
        stores=" ".join(f"*(Some<{t}>*)(q{k} + i) = b{k};" for k, t in enumerate(outs)),
        takes_one=" ".join([*alone, results]),
        gives_one=" ".join(f"q{k}[i] = y{k};" for k in range(len(outs))),
    )
