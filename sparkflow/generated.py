"""tensorflow.python.ops.gen_*_ops: every op as a function, by its name in small letters, inputs and attributes in their
order.

Source of the names: GenerateLowerCaseOpName, tensorflow/python/framework/python_op_gen.cc.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from sparkflow import raw_ops
from sparkflow.framework.registry import lookup, registered


def lower_case(op: str) -> str:
    """AvgPool3DGrad -> avg_pool3d_grad."""
    made = ""
    for i, letter in enumerate(op):
        if i and letter.isupper() and (op[i - 1].islower() or op[i + 1 : i + 2].islower()):
            made += "_"
        made += letter.lower()
    return made


@cache
def _names() -> dict[str, str]:
    return {lower_case(op): op for op in registered() if not op.startswith("_")}


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("__") or name not in _names():
        raise AttributeError(f"module {__name__!r} has no op {name!r}")
    return _function(_names()[name])


def _function(op: str) -> Callable[..., Any]:
    spec, build = lookup(op), getattr(raw_ops, op)
    types = {arg.type_attr for arg in spec.inputs} | {arg.number_attr for arg in spec.inputs}
    names = [arg.name for arg in spec.inputs] + [attr for attr in spec.defaults if attr not in types] + ["name"]

    def call(*args: Any, **kwargs: Any) -> Any:
        if len(args) > len(names):
            raise TypeError(
                f"{lower_case(op)}() takes at most {len(names)} arguments ({', '.join(names)}), got {len(args)}"
            )
        return build(**dict(zip(names, args)), **kwargs)

    call.__name__ = call.__qualname__ = lower_case(op)
    call.__doc__ = build.__doc__
    return call
