"""Fingerprints of many strings: the loop and the plain function say the same, which is what FarmHash says."""

from __future__ import annotations

import numpy as np
import pytest

from sparkflow_runtime.records.fingerprints import fingerprints, fingerprints_of, fingerprints_of_numbers
from sparkflow_runtime.records.hashes import fingerprint64, hash64, sip_hash
from sparkflow_runtime.records.murmur_hashes import murmur_hashes_of
from sparkflow_runtime.records.sip_hashes import sip_hashes_of
from sparkflow_runtime.wire.errors import InvalidArgumentError

TEXTS = [bytes((7 * n + k) % 256 for k in range(n)) for n in [*range(140), 191, 192, 193, 256, 1000]]


def test_strings_of_every_length(version: str) -> None:
    offsets = np.cumsum([0, *map(len, TEXTS)])
    found = fingerprints(np.frombuffer(b"".join(TEXTS), np.uint8), offsets)
    assert found.tolist() == [fingerprint64(t) for t in TEXTS]


def test_numbers_of_every_length(version: str) -> None:
    tens = [10**n for n in range(19)]
    numbers = [0, *tens, *(n - 1 for n in tens), 2**63 - 1]
    values = np.array([*numbers, *(-n for n in numbers), -(2**63)], np.int64)
    assert fingerprints_of_numbers(values).tolist() == [fingerprint64(str(v).encode()) for v in values.tolist()]
    assert fingerprints_of_numbers(values[:0]).tolist() == []


def test_what_tensorflow_documents() -> None:
    """tf.strings.to_hash_bucket_fast(["Hello", "TensorFlow", "2.x"], 3)"""
    assert [fingerprint64(t) % 3 for t in (b"Hello", b"TensorFlow", b"2.x")] == [0, 2, 2]


def held(*texts: object) -> np.ndarray:
    return np.fromiter(texts, object, len(texts))


def test_arrays_of_strings(version: str) -> None:
    assert fingerprints_of(held(*TEXTS)).tolist() == [fingerprint64(t) for t in TEXTS]
    assert fingerprints_of(held()).tolist() == [] and fingerprints_of(held(b"")).tolist() == [fingerprint64(b"")]
    turned = held(*TEXTS[:12]).reshape(3, 4).T
    assert fingerprints_of(turned).tolist() == [[fingerprint64(t) for t in row] for row in turned.tolist()]
    assert fingerprints_of(turned[1, 1:2].reshape(())).tolist() == fingerprint64(turned[1, 1])


def test_strong_hashes_of_every_length(version: str) -> None:
    for key in ((0, 0), (0x0706050403020100, 0x0F0E0D0C0B0A0908), (-1, 1 << 63)):
        assert sip_hashes_of(held(*TEXTS), *key).tolist() == [sip_hash(t, *key) for t in TEXTS]
    assert sip_hashes_of(held(), 1, 2).tolist() == []


def test_legacy_hashes_of_every_length(version: str) -> None:
    assert murmur_hashes_of(held(*TEXTS)).tolist() == [hash64(t) for t in TEXTS]


def test_strings_of_numpys_own_type_are_strings(version: str) -> None:
    mixed = held(b"abc", np.bytes_(b"defg"), np.bytes_(b""))
    for hashes in (fingerprints_of, murmur_hashes_of):
        assert hashes(mixed).tolist() == hashes(held(b"abc", b"defg", b"")).tolist()


def test_what_is_no_string_is_refused(version: str) -> None:
    for wrong in ("text", None, 3):
        with pytest.raises(InvalidArgumentError, match="A string tensor holds bytes, got"):
            fingerprints_of(held(b"abc", wrong))
    with pytest.raises(InvalidArgumentError, match="got None"):
        fingerprints_of(np.empty(2, object))


def test_a_strong_hash_of_its_paper() -> None:
    """Aumasson and Bernstein 2012, appendix A."""
    key = 0x0706050403020100, 0x0F0E0D0C0B0A0908
    assert sip_hashes_of(held(bytes(range(15))), *key).tolist() == [0xA129CA6149BE45E5]
