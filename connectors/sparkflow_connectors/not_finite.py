"""Which columns a loss that is no number may come of: the floats of a step's rows, looked at when that has happened."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from sparkflow_connectors.layout import Layout

_MOST_NAMED = 3


def floats(layout: Layout, taken: Sequence[Any]) -> list[Any]:
    """Those of a batch's components that may have values which are not finite; taken: one for each component."""
    return [one for one, component in zip(taken, layout.components, strict=True) if component.dtype.is_floating]


def why(layout: Layout, batch: Sequence[np.ndarray]) -> str:
    """What to look at when the loss of these rows is not finite. batch: what `floats` leaves of a batch."""
    odd, rows = list(_odd(layout, batch)), len(batch[0]) if batch else 0
    if not odd:
        return "its rows are finite: lower the learning rate, or look for a log or a division in the model"
    named = ", ".join(f"{name!r} in {count}" for name, count in odd[:_MOST_NAMED])
    more = f", and {len(odd) - _MOST_NAMED} columns more" if len(odd) > _MOST_NAMED else ""
    return f"its {rows} rows have nan or inf: column {named}{more}. Drop or fill them"


def _odd(layout: Layout, batch: Sequence[np.ndarray]) -> Iterator[tuple[str, int]]:
    """(column, in how many rows it has nan or inf)."""
    for component, values in zip(floats(layout, layout.components), batch, strict=True):
        finite = np.isfinite(values).reshape(len(values), -1)
        if component.packed:
            yield from (
                (n, int((~finite[:, i]).sum())) for i, n in enumerate(component.columns) if not finite[:, i].all()
            )
        elif count := int((~finite.all(axis=1)).sum()):
            yield component.columns[0], count
