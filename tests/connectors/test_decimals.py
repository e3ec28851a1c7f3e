"""Decimals as doubles: the nearest, as Spark's own cast is."""

from __future__ import annotations

import random
from decimal import Decimal, localcontext

import pyarrow as pa
import pytest

from sparkflow_connectors.decimals import doubles


@pytest.mark.parametrize("precision, scale", [(5, 2), (15, 15), (18, 4), (38, 22), (38, 38), (38, 0), (5, -2)])
def test_decimals_are_the_nearest_doubles(precision: int, scale: int) -> None:
    drawn = random.Random(1)
    with localcontext(prec=precision):
        values: list[Decimal | None] = [None, Decimal(0), Decimal(10**precision - 1).scaleb(-scale)]
        for _ in range(2000):
            top = 10 ** drawn.randint(1, precision) - 1
            values.append(Decimal(drawn.randint(-top, top)).scaleb(-scale))
    array = pa.array(values, pa.decimal128(precision, scale))
    for start in (0, 3, 1000):
        expected = [None if v is None else float(v) for v in values[start:]]
        assert doubles(array.slice(start)).to_pylist() == expected
        assert doubles(array.slice(start).cast(pa.decimal256(76, scale))).to_pylist() == expected
