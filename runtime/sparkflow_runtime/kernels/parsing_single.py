"""One serialized Example with one value of each feature: what a pipeline of single records parses again and again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.records.example_line import Line


class OneRow:
    """The kernel for such messages. Any other message is the business of `whole`, its errors too."""

    def __init__(self, line: Line, dtypes: Sequence[Any], dims: Sequence[tuple[int, ...]], whole: Callable[..., Any]):
        self._line, self._dtypes, self._dims, self._whole = line, dtypes, dims, whole
        self._own = threading.local()

    def __call__(self, serialized: Any, *defaults: Any) -> list[Any]:
        message = serialized.item() if isinstance(serialized, np.ndarray) and serialized.ndim == 0 else serialized
        if type(message) is not bytes or any(np.size(default) > 1 for default in defaults):
            return self._whole(serialized, *defaults)
        places = getattr(self._own, "places", None)
        if places is None:
            places = self._own.places = self._line.places()
        found = self._line.read(message, places)
        if found is None:
            return self._whole(serialized, *defaults)
        out = []
        for dtype, dims, value in zip(self._dtypes, self._dims, found):
            made = np.empty(dims, dtype)
            made[...] = value
            out.append(made)
        return out
