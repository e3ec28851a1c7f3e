"""Arrow batches to TFRecord bytes and back, records a second of one core (CPU time, the best of many).

    python tests/benchmarks/bench_records.py

keys40: a label, 13 floats and 26 integers, each a feature of its own; packed: three features; half missing: of the 40;
floats, ints: 200 a record; strings: five of 300 bytes; words: 20 a record; sequences: SequenceExample of two feature
lists of 5 x 8. Sums are checked.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("SPARKFLOW_NUMBA", "wait")

import numpy as np
import pyarrow as pa

import sparkflow as tf
from sparkflow_connectors.record_batches import Decoder, encoded
from sparkflow_runtime.records.files import Block
from sparkflow_runtime.records.framing import frame, frames

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
    some = rng.random((40, ROWS)) < 0.5
    texts = np.array(["x" * n for n in range(600)], object)
    return {
        "keys40": pa.record_batch({k: pa.array(v) for k, v in columns.items()}),
        "half missing": pa.record_batch({k: pa.array(v, mask=m) for (k, v), m in zip(columns.items(), some)}),
        "packed": pa.record_batch(packed),
        "floats": pa.record_batch({"f": _lists(rng.standard_normal(200 * ROWS).astype(np.float32), 200)}),
        "ints": pa.record_batch({"i": _lists(rng.integers(0, 1 << 20, 200 * ROWS), 200)}),
        "strings": pa.record_batch({f"s{k}": pa.array(texts[rng.integers(0, 600, ROWS)]) for k in range(5)}),
        "words": pa.record_batch(
            {"w": _lists(np.array(["word", "of", "some"], object)[rng.integers(0, 3, 20 * ROWS)], 20)}
        ),
        "sequences": pa.record_batch(
            {
                "f": _lists(_lists(rng.standard_normal(40 * ROWS).astype(np.float32), 8), 5),
                "i": _lists(_lists(rng.integers(0, 1 << 20, 40 * ROWS), 8), 5),
            }
        ),
    }


def _lists(values: np.ndarray | pa.Array, size: int) -> pa.Array:
    flat = values if isinstance(values, pa.Array) else pa.array(values)
    return pa.FixedSizeListArray.from_arrays(flat, size).cast(pa.list_(flat.type))


def in_other_order(data: np.ndarray) -> np.ndarray:
    """The records with their features in an order of each record's own, as writers do that go by a hash."""
    rng, out = np.random.default_rng(1), list[bytes]()
    found = frames(data)
    for start, end in zip(found.starts.tolist(), found.ends.tolist()):
        example = tf.train.Example.FromString(data[start:end].tobytes())
        names = rng.permutation(list(example.features.feature))
        parts = [tf.train.Features(feature={n: example.features.feature[n]}).SerializeToString() for n in names]
        features = b"".join(parts)  # messages one after the other are one message
        size = bytes([len(features) & 127 | 128, len(features) >> 7])
        out.append(frame(b"\x0a" + size + features))
    return np.frombuffer(bytearray(b"".join(out)), np.uint8)


def best_s(work: Callable[[], Any]) -> float:
    taken = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        work()
        taken.append(time.process_time() - begun)
    return min(taken)


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    for name, batch in batches().items():
        kind = "SequenceExample" if name == "sequences" else "Example"
        data = encoded(batch, kind)
        write = best_s(lambda batch=batch, kind=kind: encoded(batch, kind))
        rates = f"write {ROWS / write / 1e6:.2f}, read {ROWS / reading_s(batch, data, kind) / 1e6:.2f} M/s"
        print(f"{name}: {len(data) / ROWS:.0f} bytes a record, {rates}", flush=True)
        if name == "keys40":
            reading = ROWS / reading_s(batch, in_other_order(data)) / 1e6
            print(f"{name}, each record in an order of its own: read {reading:.2f} M/s", flush=True)


def reading_s(batch: pa.RecordBatch, data: np.ndarray, kind: str = "Example") -> float:
    decoder, buffer = Decoder(batch.schema, kind), np.frombuffer(bytearray(data), np.uint8)

    def decode() -> pa.RecordBatch:
        found = frames(buffer)
        return decoder.batch(Block(buffer, found.starts, found.ends, 0))

    if not decode().equals(batch):
        raise SystemExit("what was read is not what was written")
    return best_s(decode)


if __name__ == "__main__":
    main()
