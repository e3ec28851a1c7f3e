"""Partitions of a Dask DataFrame on their way to a training, as values that cost Dask little.

Dask asks every value for its size, where it is made and where it arrives, and of a frame each column: 500 columns of
200 small partitions kept it busy for longer than all else took until the first step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from dask.sizeof import sizeof

from sparkflow_runtime.wire.errors import InvalidArgumentError


class Frame:
    """A partition, whose size is told by its types where these tell it."""

    def __init__(self, pandas: pd.DataFrame):
        """Raises InvalidArgumentError on a partition that is no frame, whatever the table says."""
        if not isinstance(pandas, pd.DataFrame):
            raise InvalidArgumentError(
                f"A partition of the table is of type {type(pandas).__name__}, and the table said pandas DataFrames. "
                "Make all partitions alike"
            )
        self.pandas = pandas

    def __sizeof__(self) -> int:
        kinds = self.pandas.dtypes.to_numpy()
        told = np.array([isinstance(kind, np.dtype) and not kind.hasobject for kind in kinds], bool)
        row_bytes = sum(kind.itemsize for kind in kinds[told])
        rest = 0 if told.all() else sizeof(self.pandas.iloc[:, np.flatnonzero(~told)])
        return object.__sizeof__(self) + len(self.pandas) * row_bytes + rest


def of_frames(ddf: Any) -> list[Any]:
    """Its partitions as delayed Frames, in order. Dask makes each in the task that makes the partition."""
    return list(ddf.map_partitions(Frame, meta=ddf._meta, enforce_metadata=False).to_delayed())
