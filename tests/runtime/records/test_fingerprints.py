"""Fingerprints of many strings: the loop and the plain function say the same, which is what FarmHash says."""

from __future__ import annotations

import numpy as np

from sparkflow_runtime.records.fingerprints import fingerprints, fingerprints_of
from sparkflow_runtime.records.hashes import fingerprint64

TEXTS = [bytes((7 * n + k) % 256 for k in range(n)) for n in [*range(140), 191, 192, 193, 256, 1000]]


def test_strings_of_every_length(version: str) -> None:
    offsets = np.cumsum([0, *map(len, TEXTS)])
    found = fingerprints(np.frombuffer(b"".join(TEXTS), np.uint8), offsets)
    assert found.tolist() == [fingerprint64(t) for t in TEXTS]


def test_what_tensorflow_documents() -> None:
    """tf.strings.to_hash_bucket_fast(["Hello", "TensorFlow", "2.x"], 3)"""
    assert [fingerprint64(t) % 3 for t in (b"Hello", b"TensorFlow", b"2.x")] == [0, 2, 2]


def test_lists_of_strings() -> None:
    assert fingerprints_of(TEXTS).tolist() == [fingerprint64(t) for t in TEXTS]
    assert fingerprints_of([]).tolist() == [] and fingerprints_of([b""]).tolist() == [fingerprint64(b"")]
