"""Columns of a batch as arrays, of the kinds that bench_feeding.py has not.

    python tests/benchmarks/bench_arrow_columns.py [words] [numbers] [lists] [vectors] [wide] [bits] [images]

M rows a second of the clock by one core, and ns a row: the median of the rounds, batches of 16,384 rows.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

import numpy as np
import pyarrow as pa

import sparkflow as tf
from sparkflow_connectors.columns import Column
from sparkflow_connectors.schema import arrays, check_batch, resolve

ROWS, ROUNDS = 16_384, 9
RANDOM = np.random.default_rng(1)
WORDS = tuple(f"word{i}" for i in range(5000))
VECTOR = pa.struct(
    [("type", pa.int8()), ("size", pa.int32()), ("indices", pa.list_(pa.int32())), ("values", pa.list_(pa.float64()))]
)

Case = tuple[dict[str, pa.Array], dict[str, Any]]  # columns, and what a Column says of each


def several(count: int, make: Any) -> dict[str, pa.Array]:
    return {f"c{i}": make() for i in range(count)}


def words() -> pa.Array:
    return pa.array(WORDS).take(pa.array(RANDOM.integers(0, len(WORDS), ROWS)))


def lists(values: Any) -> pa.Array:
    """0 to 19 values a row."""
    ends = np.cumsum([0, *RANDOM.integers(0, 20, ROWS)]).astype(np.int32)
    return pa.ListArray.from_arrays(ends, pa.array(values(int(ends[-1]))))


def sparse_vectors() -> pa.Array:
    values = lists(lambda n: RANDOM.normal(size=n))
    places = [np.sort(RANDOM.choice(1000, n, replace=False)) for n in values.value_lengths().to_pylist()]
    indices = pa.ListArray.from_arrays(values.offsets, pa.array(np.concatenate(places).astype(np.int32)))
    sizes = pa.array(np.full(ROWS, 1000, np.int32))
    return pa.StructArray.from_arrays([pa.array(np.zeros(ROWS, np.int8)), sizes, indices, values], fields=list(VECTOR))


def cases() -> dict[str, Case]:
    holes, numbers = RANDOM.random(ROWS) < 0.1, lists(lambda n: RANDOM.integers(0, 1000, n))
    floats = several(300, lambda: pa.array(RANDOM.normal(size=ROWS).astype(np.float32)))
    images = pa.array([RANDOM.bytes(3072) for _ in range(1024)] * (ROWS // 1024))
    return {
        "words, 5 by hash": (several(5, words), {"hash_buckets": 10_000}),
        "words, 5 by vocabulary of 5,000": (several(5, words), {"vocabulary": WORDS, "num_oov_buckets": 5}),
        "words, 5 as bytes": (several(5, words), {}),
        "numbers, 5 by hash": (several(5, lambda: pa.array(RANDOM.integers(0, 10**9, ROWS))), {"hash_buckets": 10_000}),
        "lists, padded": ({"c": numbers}, {"shape": [20], "pad": -1}),
        "lists, sparse": ({"c": numbers}, {"kind": "sparse", "length": 20}),
        "vectors, sparse": ({"c": sparse_vectors()}, {"kind": "sparse", "shape": [1000], "length": 20}),
        "wide, 300 floats": (floats, {}),
        "wide, 300 floats with nulls": (
            several(300, lambda: pa.array(RANDOM.normal(size=ROWS).astype(np.float32), mask=holes)), {"default": 0.0}
        ),
        "bits, 40": (several(40, lambda: pa.array(RANDOM.random(ROWS) < 0.5)), {}),
        "images, 32 x 32 x 3": ({"c": images}, {"cast": tf.uint8, "shape": [32, 32, 3]}),
    }  # fmt: skip


def main() -> None:
    for name, (table, options) in cases().items():
        if sys.argv[1:] and not any(name.startswith(asked) for asked in sys.argv[1:]):
            continue
        batch = pa.record_batch(table)
        columns = resolve(batch.schema, [Column(c, **options) for c in table], None)
        spent = []
        for _ in range(ROUNDS + 1):
            start = time.perf_counter()
            check_batch(batch, columns, 0)
            arrays(batch, columns)
            spent.append((time.perf_counter() - start) / ROWS)
        each = statistics.median(spent[1:])
        print(f"{name:32s} {1e-6 / each:7.2f} M rows/s {1e9 * each:8.1f} ns", flush=True)


if __name__ == "__main__":
    main()
