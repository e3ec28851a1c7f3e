"""numpy behind cupy's manners, for tests of what a GPU's memory means where there is none.

Its arrays are of a type of their own. As cupy's they take no array of numpy's beside them (its scalars they do), and do
not turn into one but by `get`; each is of one GPU, and computes only where that is the thread's current one. What cupy
lacks is lacking here only where a kernel was once found to use it.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np

LACKING = {"logaddexp.reduce", "float128", "longdouble"}
_VIEWS = frozenset(["reshape", "transpose", "view", "ravel", "squeeze", "swapaxes", "diagonal"])


class _Current(threading.local):
    """Which GPU a thread computes on."""

    index = 0


_current = _Current()


class ndarray:
    __slots__ = ("__weakref__", "_on", "_there")

    def __init__(self, there: np.ndarray, on: int | None = None):
        self._there, self._on = there, _current.index if on is None else on

    @property
    def base(self) -> Any:
        return None

    @property
    def device(self) -> Any:
        return SimpleNamespace(id=self._on)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": self.shape}

    @property
    def data(self) -> Any:
        """Where no kernel of several elements a thread takes it: those are compiled, and have no stand-in."""
        return SimpleNamespace(ptr=1)

    def get(self) -> np.ndarray:
        return self._there.copy()

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **more: Any) -> Any:
        return _wrapped(getattr(ufunc, method))(*inputs, **more)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self._there, name)
        if not callable(found):
            return ndarray(found, self._on) if isinstance(found, np.ndarray) else found
        if name == "copy" or (name in _VIEWS and _current.index != self._on):  # a copy is on the current one
            return lambda *more, **named: ndarray(found(*more, **named), None if name == "copy" else self._on)
        _here(self)
        return _wrapped(found)

    def __getitem__(self, key: Any) -> Any:
        found = self._there[_enters(key)]  # cupy takes numpy's arrays of positions
        return ndarray(np.asarray(found), self._on)

    def __setitem__(self, key: Any, value: Any) -> None:
        _here(self)[_enters(key)] = _here(value)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __len__(self) -> int:
        return len(self._there)

    def __bool__(self) -> bool:
        return bool(self._there)

    def __int__(self) -> int:
        return int(self._there)

    def __float__(self) -> float:
        return float(self._there)

    def __index__(self) -> int:
        return self._there.__index__()

    def __hash__(self) -> int:
        raise TypeError("unhashable type: 'ndarray'")


def _operator(name: str) -> Callable[..., Any]:
    def run(self: ndarray, *others: Any) -> Any:
        return _wrapped(getattr(_here(self), name))(*others)

    return run


def _in_place(name: str) -> Callable[..., Any]:
    def run(self: ndarray, other: Any) -> Any:
        getattr(_here(self), name)(_here(other))
        return self

    return run


_BOTH = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift"]
for _name in [*_BOTH, *(f"r{n}" for n in _BOTH), "neg", "pos", "abs", "invert", "eq", "ne", "lt", "le", "gt", "ge"]:
    setattr(ndarray, f"__{_name}__", _operator(f"__{_name}__"))
for _name in _BOTH:
    setattr(ndarray, f"__i{_name}__", _in_place(f"__i{_name}__"))


def _here(value: Any) -> Any:
    """What numpy is given for it. Raises TypeError on an array of numpy's, ValueError on one of another GPU."""
    if isinstance(value, ndarray):
        if value._on != _current.index:
            raise ValueError(f"Array device must be same as the current device: {value._on}, {_current.index}")
        return value._there
    if isinstance(value, np.ndarray):
        raise TypeError(f"Unsupported type {type(value)}")
    if isinstance(value, (tuple, list)):
        return type(value)(map(_here, value))
    return value


def _there(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return ndarray(value)
    if isinstance(value, np.generic):  # what cupy reduces is an array still
        return ndarray(np.asarray(value))
    if isinstance(value, (tuple, list)):  # numpy's named results too
        return list(map(_there, value)) if isinstance(value, list) else tuple(map(_there, value))
    return value


def _wrapped(function: Any) -> Callable[..., Any]:
    def run(*inputs: Any, **more: Any) -> Any:
        out = more.get("out")
        found = function(*map(_here, inputs), **{k: _here(v) for k, v in more.items()})
        return out if isinstance(out, ndarray) else _there(found)

    return run


class _Ufunc:
    def __init__(self, ufunc: np.ufunc):
        self._ufunc = ufunc

    def __call__(self, *inputs: Any, **more: Any) -> Any:
        return _wrapped(self._ufunc)(*inputs, **more)

    def __getattr__(self, name: str) -> Any:
        if f"{self._ufunc.__name__}.{name}" in LACKING:
            raise AttributeError(name)
        found = getattr(self._ufunc, name)
        return _wrapped(found) if callable(found) else found


def _enters(value: Any) -> Any:
    """For `array` and its like, by which numpy's arrays come in."""
    if isinstance(value, ndarray):
        return value._there
    return type(value)(map(_enters, value)) if type(value) in (tuple, list) else value


class _Module(ModuleType):
    def __init__(self, name: str, of: Any):
        super().__init__(name)
        self._of = of

    def __getattr__(self, name: str) -> Any:
        if name in LACKING or name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self._of, name)
        if isinstance(found, np.ufunc):
            return _Ufunc(found)
        if isinstance(found, ModuleType):
            return _Module(name, found)
        return found if isinstance(found, type) or not callable(found) else _wrapped(found)


# ---------------------------------------------------------------------- kernels written in C

_CAST = re.compile(r"\((float|double|int|long long|bool)\)")
_C_TYPES = {"float": "f4", "double": "f8", "int": "i4", "long long": "i8", "bool": "?"}


class _Cast:
    """`_Cast(type) ** value`: Python's operator that binds as a cast does."""

    def __init__(self, kind: str):
        self._dtype = np.dtype(_C_TYPES[kind])

    def __pow__(self, value: Any) -> Any:
        return np.asarray(value).astype(self._dtype)[()]


_FUNCTIONS = ("fabs", "floor", "ceil", "rint", "sqrt", "exp", "expm1", "log", "log1p", "tanh", "copysign")
_NAMES = (
    {name: getattr(np, name) for name in _FUNCTIONS}
    | {
        "pow": np.power,
    }
    | {f"cast_{kind.replace(' ', '_')}": _Cast(kind) for kind in _C_TYPES}
)


def _value(text: str, names: dict[str, Any]) -> Any:
    """Of an expression in C, as far as fused nodes have them."""
    if " ? " in text:
        test, rest = text.split(" ? ", 1)
        return np.where(_value(test, names), *(_value(part, names) for part in rest.split(" : ", 1)))
    for sign, joined in ((" || ", np.logical_or), (" && ", np.logical_and)):
        if sign in text:
            return joined(*(_value(part, names) for part in text.split(sign, 1)))
    if text.startswith("!"):
        return np.logical_not(_value(text[1:], names))
    return eval(_CAST.sub(lambda m: f"cast_{m[1].replace(' ', '_')} ** ", text), {}, _NAMES | names)


class ElementwiseKernel:
    def __init__(self, inputs: str, outputs: str, text: str, name: str):
        self._inputs, self._outputs = ([one.split() for one in side.split(", ")] for side in (inputs, outputs))
        self._lines = [line.rstrip(";").split(" = ", 1) for line in text.splitlines()]

    def __call__(self, *inputs: Any) -> Any:
        inputs, outputs = inputs[: len(self._inputs)], inputs[len(self._inputs) :]
        given = [np.asarray(_here(x)) for x in inputs]
        assert [x.dtype.name for x in given] == [kind for kind, _ in self._inputs]
        names: dict[str, Any] = dict(zip([name for _, name in self._inputs], given))
        shape = np.broadcast_shapes(*(x.shape for x in given))
        with np.errstate(all="ignore"):
            for left, right in self._lines:
                *kind, name = left.removeprefix("const ").rsplit(" ", 1)
                found = _value(right, names)
                names[name] = _Cast(kind[0]) ** found if kind else found
        made = [ndarray(np.broadcast_to(names[n], shape).astype(k)) for k, n in self._outputs]
        for out, found in zip(outputs, made):
            out._there[...] = found._there
        made = list(outputs) or made
        return made[0] if len(made) == 1 else tuple(made)


# ---------------------------------------------------------------------- the module


class _Device:
    used: ClassVar[list[int]] = []
    awaited: ClassVar[list[int]] = []

    def __init__(self, index: int):
        self.index, self.mem_info, self._before = index, (1 << 30, 2 << 30), list[int]()

    def __enter__(self) -> _Device:
        _Device.used.append(self.index)
        self._before.append(_current.index)
        _current.index = self.index
        return self

    def __exit__(self, *raised: Any) -> None:
        _current.index = self._before.pop()

    def synchronize(self) -> None:
        _Device.awaited.append(self.index)


def cupy(gpus: int) -> ModuleType:
    """The module, on a machine of so many."""
    made = _Module("cupy", np)

    def array(value: Any, dtype: Any = None, copy: bool = True, order: Any = "K") -> ndarray:
        return ndarray(np.array(_enters(value), dtype, copy=copy or None, order=order))

    def asarray(value: Any, dtype: Any = None, order: Any = None) -> ndarray:
        if isinstance(value, ndarray) and dtype in (None, value.dtype):
            return value
        return ndarray(np.array(_enters(value), dtype, order=order))

    runtime = ModuleType("cupy.cuda.runtime")
    runtime.getDeviceCount = lambda: gpus  # type: ignore[attr-defined]
    cuda = ModuleType("cupy.cuda")
    cuda.runtime, cuda.Device = runtime, _Device  # type: ignore[attr-defined]
    made.ndarray, made.array, made.asarray, made.cuda = ndarray, array, asarray, cuda  # type: ignore[attr-defined]
    made.ElementwiseKernel = ElementwiseKernel  # type: ignore[attr-defined]
    made.ascontiguousarray = lambda x, dtype=None: asarray(x, dtype, "C")  # type: ignore[attr-defined]
    return made


@contextmanager
def gpus(count: int) -> Iterator[ModuleType]:
    """With a machine that has so many."""
    from sparkflow_runtime.kernels import memories

    module, before = cupy(count), sys.modules.get("cupy")
    _Device.used.clear()
    _Device.awaited.clear()
    module.__spec__ = ModuleType("spec")  # type: ignore[assignment]  # which `find_spec` asks for
    sys.modules["cupy"] = module
    memories.count.cache_clear()
    memories._numbers.clear()
    try:
        yield module
    finally:
        if before is None:
            del sys.modules["cupy"]
        else:
            sys.modules["cupy"] = before
        memories.count.cache_clear()
        memories._numbers.clear()
