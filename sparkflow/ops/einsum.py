"""einsum: sums of products, the axes of each factor named by letters."""

from __future__ import annotations

import re
from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow_runtime.wire.errors import InvalidArgumentError

_VALID = re.compile(r"[A-Za-z.]*(,[A-Za-z.]*)*(->[A-Za-z.]*)?$")


def split(equation: str) -> tuple[list[str], str]:
    """(the labels of each factor, those of the result), "." standing for the axes of an ellipsis.

    Without "->" the result has the labels that occur once, in the order of the alphabet.
    """
    text = equation.replace(" ", "")
    if not _VALID.match(text) or "." in text.replace("...", ""):
        raise ValueError(f"Indices have incorrect format: {equation}")
    left, arrow, right = text.replace("...", ".").partition("->")
    factors = left.split(",")
    if not arrow:
        joined = left.replace(",", "")
        right = ("." if "." in joined else "") + "".join(sorted(c for c in set(joined) - {"."} if joined.count(c) == 1))
    unknown = set(right) - set(left)
    if unknown:
        raise ValueError(f"Unknown output labels: {''.join(sorted(unknown))} of {equation}")
    return factors, right


def _rule(op: Operation) -> list[Dims]:
    factors, result = split(op.attrs["equation"])
    unknown: Dims = None if "." in result else (None,) * len(result)
    if len(factors) != len(op.inputs):
        raise InvalidArgumentError(f"Expected {len(factors)} inputs for equation {op.attrs['equation']}")
    sizes: dict[str, int | None] = {}
    middle: Dims = ()
    for labels, tensor in zip(factors, op.inputs):
        dims = tensor._shape
        if dims is None:
            return [unknown]
        named = len(labels.replace(".", ""))
        if len(dims) < named or (len(dims) != named and "." not in labels):
            raise InvalidArgumentError(f"Einsum: {labels!r} does not name the axes of shape {shapes.show(dims)}")
        at = labels.index(".") if "." in labels else named
        extra = len(dims) - named
        middle = shapes.broadcast(middle, dims[at : at + extra], "Einsum")
        for label, size in zip(labels.replace(".", ""), dims[:at] + dims[at + extra :]):
            (sizes[label],) = shapes.merge((sizes.get(label),), (size,)) or (None,)
    out: list[int | None] = []
    for label in result:
        out += list(middle or ()) if label == "." else [sizes[label]]
    return [tuple(out)]


op("Einsum", "inputs: N * T -> output: T", _rule)


def einsum(equation: str, *inputs: Any, **kwargs: Any) -> Tensor:
    """The product of the inputs, summed over the labels that the result does not have: "ij,jk->ik" is matmul.

    More than two factors are multiplied from the left. Raises ValueError on a malformed equation.
    """
    name = kwargs.pop("name", None)
    kwargs.pop("optimize", None)
    if kwargs:
        raise TypeError(f"Invalid keyword arguments for this function: {', '.join(sorted(kwargs))}")
    factors, result = split(equation)
    if len(factors) != len(inputs):
        raise ValueError(f'Got {len(inputs)} arguments for equation "{equation}", expecting {len(factors)}.')
    with get_default_graph().name_scope(name or "einsum"):
        tensors = [convert_to_tensor(x) for x in inputs]
        while len(tensors) > 2:
            kept = "".join(dict.fromkeys(c for c in factors[0] + factors[1] if c in "".join(factors[2:]) + result))
            tensors[:2] = [node([factors[0], factors[1]], kept, tensors[:2])]
            factors[:2] = [kept]
        return node(factors, result, tensors)


def node(factors: list[str], result: str, tensors: list[Tensor]) -> Tensor:
    """One Einsum of at most two factors."""
    equation = f"{','.join(factors)}->{result}".replace(".", "...")
    return apply_op("Einsum", [tensors], {"equation": equation})
