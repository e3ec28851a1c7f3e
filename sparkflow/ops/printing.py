"""Tensors as text: strings.format and print."""

from __future__ import annotations

import pprint
import sys
from typing import Any

from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.framework.registry import op
from sparkflow.framework.sparse_tensor import SparseTensor
from sparkflow.ops.variables import Variable

op("StringFormat", "inputs: [T] -> output: string", lambda op: [()], template="%s", placeholder="%s", summarize=3)
op("PrintV2", "input: string ->", stateful=True, output_stream="stderr", end="\n")


def string_format(
    template: str, inputs: Any, placeholder: str = "{}", summarize: int = 3, name: str | None = None
) -> Tensor:
    """The template with each placeholder replaced by the next tensor's value: a string scalar.

    summarize: how many elements are shown from each end of an axis, all for -1. Raises ValueError where there are not
    as many inputs as placeholders.
    """
    tensors = [convert_to_tensor(t) for t in (inputs if isinstance(inputs, (list, tuple)) else [inputs])]
    if template.count(placeholder) != len(tensors):
        raise ValueError(
            f"{template.count(placeholder)} placeholder(s) in template {template!r} do not match {len(tensors)} inputs"
        )
    attrs = {"template": template, "placeholder": placeholder, "summarize": summarize}
    return apply_op("StringFormat", [tensors], attrs, name)


_STREAMS = ("stdout", "stderr", "log(info)", "log(warning)", "log(error)")


def print_(
    *inputs: Any,
    output_stream: Any = None,
    summarize: int = 3,
    sep: str = " ",
    end: str = "\n",
    name: str | None = None,
) -> Operation:
    """An op that writes its inputs when it runs: tensors, whatever Python prints, and structures of both.

    output_stream: sys.stderr by default, sys.stdout, logging.info (warning, error) or "file://path". Nothing waits for
    the op by itself: use control_dependencies.
    """
    tensors: list[Any] = []
    texts = [_Text(x, tensors) for x in inputs]
    mark = _placeholder(sep.join(t.text("") for t in texts))
    template = sep.join(t.text(mark) for t in texts)
    line = string_format(template, tensors, mark, summarize, name)
    return apply_op("PrintV2", [line], {"output_stream": _stream(output_stream), "end": end}, name)


class _Mark:
    """Prints as the placeholder does."""

    def __init__(self, owner: _Text, sparse: bool):
        self._owner, self._sparse = owner, sparse

    def __repr__(self) -> str:
        mark = self._owner.mark
        return f"SparseTensor(indices={mark}, values={mark}, shape={mark})" if self._sparse else mark


class _Text:
    """One argument of print, its tensors marked."""

    def __init__(self, value: Any, tensors: list[Any]):
        self.mark, self._plain = "", isinstance(value, str)
        self._value = value if self._plain else self._marked(value, tensors)

    def _marked(self, value: Any, tensors: list[Any]) -> Any:
        if isinstance(value, SparseTensor):
            tensors += [value.indices, value.values, value.dense_shape]
            return _Mark(self, True)
        if isinstance(value, (Tensor, Variable)):
            tensors.append(value)
            return _Mark(self, False)
        if isinstance(value, dict):
            return {k: self._marked(value[k], tensors) for k in sorted(value)}
        if isinstance(value, (list, tuple)):
            parts = [self._marked(v, tensors) for v in value]
            return parts if isinstance(value, list) else tuple(parts)
        return value

    def text(self, mark: str) -> str:
        self.mark = mark
        return self._value if self._plain else pprint.pformat(self._value)


def _placeholder(text: str) -> str:
    """One that does not occur in the text."""
    mark = "{}"
    while mark in text:
        mark += "0"
    return mark


def _stream(given: Any) -> str:
    if given is None or given is sys.stderr:
        return "stderr"
    if given is sys.stdout:
        return "stdout"
    if isinstance(given, str) and (given in _STREAMS or given.startswith("file://")):
        return given
    level = getattr(given, "__name__", None)
    if level in ("info", "warning", "warn", "error"):  # logging's, or a logger's
        return f"log({'warning' if level == 'warn' else level})"
    raise ValueError(f"print: output_stream must be one of {_STREAMS}, their streams, or 'file://...', got {given!r}")
