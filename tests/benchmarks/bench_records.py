"""Arrow batches to TFRecord bytes and back, records a second of one core (CPU time, the best of many).

    python tests/benchmarks/bench_records.py

keys40: a label, 13 floats and 26 integers, each a feature of its own; packed: three features. Sums are checked.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("SPARKFLOW_NUMBA", "wait")

import numpy as np
import pyarrow as pa

from sparkflow_connectors.record_batches import Decoder, encoded
from sparkflow_runtime.records.files import Block
from sparkflow_runtime.records.framing import frames

ROWS, ROUNDS = 10_000, 30


def batches() -> dict[str, pa.RecordBatch]:
    rng = np.random.default_rng(0)
    label, ids = rng.integers(0, 2, ROWS), rng.zipf(1.3, (26, ROWS)) % 100_000
    dense = rng.standard_normal((13, ROWS)).astype(np.float32)
    columns = {"label": label} | {f"I{k}": c for k, c in enumerate(dense)} | {f"C{k}": c for k, c in enumerate(ids)}
    packed = {
        "label": pa.array(label),
        "I": pa.FixedSizeListArray.from_arrays(dense.T.ravel(), 13).cast(pa.list_(pa.float32())),
        "C": pa.FixedSizeListArray.from_arrays(ids.T.ravel(), 26).cast(pa.list_(pa.int64())),
    }
    return {"keys40": pa.record_batch({k: pa.array(v) for k, v in columns.items()}), "packed": pa.record_batch(packed)}


def best_s(work: Callable[[], Any]) -> float:
    taken = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        work()
        taken.append(time.process_time() - begun)
    return min(taken)


def main() -> None:
    for name, batch in batches().items():
        decoder, data = Decoder(batch.schema), encoded(batch)
        buffer = np.frombuffer(bytearray(data), np.uint8)

        def decode(buffer: np.ndarray = buffer, decoder: Decoder = decoder) -> pa.RecordBatch:
            found = frames(buffer)
            return decoder.batch(Block(buffer, found.starts, found.ends, 0))

        if not decode().equals(batch):
            raise SystemExit(f"{name}: what was read is not what was written")
        write, read = best_s(lambda batch=batch: encoded(batch)), best_s(decode)
        rates = f"write {ROWS / write / 1e6:.2f}, read {ROWS / read / 1e6:.2f} M/s"
        print(f"{name}: {len(data) / ROWS:.0f} bytes a record, {rates}")


if __name__ == "__main__":
    main()
