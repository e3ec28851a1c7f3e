"""Every public function and class takes TensorFlow's arguments: by their names, and in their order."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import tensorflow.compat.v1 as theirs

import sparkflow as ours

MODULES = [
    "", "bitwise", "data", "data.experimental", "debugging", "distribute", "feature_column", "gfile", "graph_util",
    "image", "initializers", "io", "io.gfile", "linalg", "losses", "lookup", "manip", "math", "metrics", "nn",
    "nn.rnn_cell", "python_io", "quantization", "queue", "ragged", "random", "saved_model", "saved_model.builder",
    "saved_model.signature_def_utils", "saved_model.utils", "sets", "signal", "sparse", "spectral", "strings",
    "summary", "train", "train.queue_runner",
]  # fmt: skip

OTHERWISE = {  # names whose arguments differ, and why
    **dict.fromkeys(["DType", "Operation", "RaggedTensor", "Tensor", "data.Iterator"], "made by the library alone"),
    **dict.fromkeys(["VariableAggregation", "VariableSynchronization"], "an enum's constructor"),
    "UnconnectedGradients": "an enum's constructor",
    "nn.rnn_cell.RNNCell": "its further keywords are those of a layer",
    **dict.fromkeys(["ConditionalAccumulatorBase", "linalg.LinearOperator"], "a base class: users call its subclasses"),
    "RegisterGradient": "a decorator that takes several op types",
    **dict.fromkeys(
        ["custom_gradient", "numpy_function", "py_function"], "in TensorFlow 2 also made without a function"
    ),
    "sparse.cross": "its separator is TensorFlow 2's",
}
LATER = {  # arguments that TensorFlow 1 does not have
    "allow_fast_lookup", "bad_indices_policy", "canonicalized_coordinates", "defaults", "deterministic", "encoding",
    "exclude_cols", "fn_output_signature", "grad_a", "grad_b", "ignore_errors", "index_type", "layout", "output_type",
    "return_index_map", "sorted_input", "sparse_gradient", "stop_on_empty_dataset", "tile_size",
    "use_own_namescope_for_non_slot_vars", "use_pybind11_proto",
}  # fmt: skip
LATER_OF = {  # those that other symbols have had from the beginning
    **{f"data.{kind}Dataset": {"name"} for kind in ("FixedLengthRecord", "TFRecord", "TextLine")},
    **{name: {"axis"} for name in ("linspace", "lin_space")},
}


def _found(root: Any, module: str) -> Any:
    for part in filter(None, module.split(".")):
        root = getattr(root, part, None)
    return root


def _symbols() -> Iterator[tuple[str, Any, Any]]:
    for module in MODULES:
        here, there = _found(ours, module), _found(theirs, module)
        for name in vars(there) if here is not None and there is not None else ():
            if name.startswith("_") or name in ("keras", "layers", "estimator"):
                continue
            mine, other = getattr(here, name, None), getattr(there, name)
            if callable(mine) and callable(other) and not isinstance(mine, ModuleType):
                yield f"{module}.{name}".lstrip("."), mine, other


def _parameters(symbol: Any) -> list[inspect.Parameter] | None:
    """None where it does not say, or says only *args and **kwargs."""
    try:
        found = list(inspect.signature(symbol).parameters.values())
    except (TypeError, ValueError):
        return None
    named = [p for p in found if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    return found if named and not any(p.name == "args" for p in found) else None


def _wrong(mine: list[inspect.Parameter], other: list[inspect.Parameter], later: set[str]) -> str:
    names = [p.name for p in mine]
    later = later - set(names)
    taken = [p.name for p in other if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.name not in later]
    if not any(p.kind is p.VAR_KEYWORD for p in mine) and set(taken) - set(names):
        return f"does not take {sorted(set(taken) - set(names))}"
    by_place = [p.name for p in mine if p.kind is p.POSITIONAL_OR_KEYWORD]
    for place, (name, wanted) in enumerate(zip(by_place, taken)):
        if name != wanted:
            return f"argument {place} is {name!r} and not {wanted!r}"
    optional = {p.name for p in other if p.default is not p.empty}
    required = [p.name for p in mine if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    return f"needs {required}" if optional & set(required) else ""


SYMBOLS = {name: pair for name, *pair in _symbols()}


def test_there_are_many() -> None:
    assert len(SYMBOLS) > 1000


@pytest.mark.parametrize("name", sorted(set(SYMBOLS) - set(OTHERWISE)))
def test_arguments(name: str) -> None:
    mine, other = map(_parameters, SYMBOLS[name])
    if mine and other:
        assert not _wrong(mine, other, LATER | LATER_OF.get(name, set()))
