"""Hashes of strings that give in every process, and in TensorFlow, the same numbers.

Sources: FarmHash's farmhashna::Hash64 (Pike and Alakuijala 2014); SipHash-2-4 (Aumasson and Bernstein 2012);
MurmurHash64A (Appleby), which is TensorFlow's Hash64.
"""

from __future__ import annotations

_MASK = (1 << 64) - 1
_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F


def _word(s: bytes, at: int, size: int = 8) -> int:
    return int.from_bytes(s[at : at + size], "little")


def _rotated(value: int, by: int) -> int:
    return ((value >> by) | (value << (64 - by))) & _MASK if by else value


def _shifted(value: int) -> int:
    return value ^ (value >> 47)


def _mixed(u: int, v: int, mul: int) -> int:
    a = _shifted((u ^ v) * mul & _MASK)
    b = _shifted((v ^ a) * mul & _MASK)
    return b * mul & _MASK


def fingerprint64(s: bytes) -> int:
    """FarmHash's Fingerprint64."""
    n = len(s)
    if n <= 16:
        return _up_to_16(s, n)
    if n <= 32:
        return _up_to_32(s, n)
    return _up_to_64(s, n) if n <= 64 else _longer(s, n)


def _up_to_16(s: bytes, n: int) -> int:
    mul = (_K2 + n * 2) & _MASK
    if n >= 8:
        a, b = (_word(s, 0) + _K2) & _MASK, _word(s, n - 8)
        c = (_rotated(b, 37) * mul + a) & _MASK
        d = ((_rotated(a, 25) + b) * mul) & _MASK
        return _mixed(c, d, mul)
    if n >= 4:
        return _mixed((n + (_word(s, 0, 4) << 3)) & _MASK, _word(s, n - 4, 4), mul)
    if n:
        y, z = s[0] + (s[n >> 1] << 8), n + (s[n - 1] << 2)
        return _shifted((y * _K2 ^ z * _K0) & _MASK) * _K2 & _MASK
    return _K2


def _up_to_32(s: bytes, n: int) -> int:
    mul = (_K2 + n * 2) & _MASK
    a, b = _word(s, 0) * _K1 & _MASK, _word(s, 8)
    c, d = _word(s, n - 8) * mul & _MASK, _word(s, n - 16) * _K2 & _MASK
    first = (_rotated((a + b) & _MASK, 43) + _rotated(c, 30) + d) & _MASK
    return _mixed(first, (a + _rotated((b + _K2) & _MASK, 18) + c) & _MASK, mul)


def _up_to_64(s: bytes, n: int) -> int:
    mul = (_K2 + n * 2) & _MASK
    a, b = _word(s, 0) * _K2 & _MASK, _word(s, 8)
    c, d = _word(s, n - 8) * mul & _MASK, _word(s, n - 16) * _K2 & _MASK
    y = (_rotated((a + b) & _MASK, 43) + _rotated(c, 30) + d) & _MASK
    z = _mixed(y, (a + _rotated((b + _K2) & _MASK, 18) + c) & _MASK, mul)
    e, f = _word(s, 16) * mul & _MASK, _word(s, 24)
    g, h = (y + _word(s, n - 32)) * mul & _MASK, (z + _word(s, n - 24)) * mul & _MASK
    first = (_rotated((e + f) & _MASK, 43) + _rotated(g, 30) + h) & _MASK
    return _mixed(first, (e + _rotated((f + a) & _MASK, 18) + g) & _MASK, mul)


def _weak(s: bytes, at: int, a: int, b: int) -> tuple[int, int]:
    w, x, y, z = (_word(s, at + 8 * i) for i in range(4))
    a = (a + w) & _MASK
    b = _rotated((b + a + z) & _MASK, 21)
    c = a
    a = (a + x + y) & _MASK
    return (a + z) & _MASK, (b + _rotated(a, 44) + c) & _MASK


def _longer(s: bytes, n: int) -> int:
    seed = 81
    x, y = seed, (seed * _K1 + 113) & _MASK
    z = _shifted((y * _K2 + 113) & _MASK) * _K2 & _MASK
    v = w = (0, 0)
    x = (x * _K2 + _word(s, 0)) & _MASK
    end, at = ((n - 1) // 64) * 64, 0
    last = end + ((n - 1) & 63) - 63
    while True:
        x = _rotated((x + y + v[0] + _word(s, at + 8)) & _MASK, 37) * _K1 & _MASK
        y = _rotated((y + v[1] + _word(s, at + 48)) & _MASK, 42) * _K1 & _MASK
        x ^= w[1]
        y = (y + v[0] + _word(s, at + 40)) & _MASK
        z = _rotated((z + w[0]) & _MASK, 33) * _K1 & _MASK
        v = _weak(s, at, v[1] * _K1 & _MASK, (x + w[0]) & _MASK)
        w = _weak(s, at + 32, (z + w[1]) & _MASK, (y + _word(s, at + 16)) & _MASK)
        z, x = x, z
        at += 64
        if at == end:
            break
    mul = (_K1 + ((z & 0xFF) << 1)) & _MASK
    at = last
    w = ((w[0] + ((n - 1) & 63)) & _MASK, w[1])
    v = ((v[0] + w[0]) & _MASK, v[1])
    w = ((w[0] + v[0]) & _MASK, w[1])
    x = _rotated((x + y + v[0] + _word(s, at + 8)) & _MASK, 37) * mul & _MASK
    y = _rotated((y + v[1] + _word(s, at + 48)) & _MASK, 42) * mul & _MASK
    x ^= w[1] * 9 & _MASK
    y = (y + v[0] * 9 + _word(s, at + 40)) & _MASK
    z = _rotated((z + w[0]) & _MASK, 33) * mul & _MASK
    v = _weak(s, at, v[1] * mul & _MASK, (x + w[0]) & _MASK)
    w = _weak(s, at + 32, (z + w[1]) & _MASK, (y + _word(s, at + 16)) & _MASK)
    z, x = x, z
    first = (_mixed(v[0], w[0], mul) + _shifted(y) * _K0 + z) & _MASK
    return _mixed(first, (_mixed(v[1], w[1], mul) + x) & _MASK, mul)


def hash64(s: bytes, seed: int = 0xDECAFCAFFE) -> int:
    """TensorFlow's Hash64."""
    m = 0xC6A4A7935BD1E995
    h, n = (seed ^ (len(s) * m & _MASK)), len(s)
    for at in range(0, n - n % 8, 8):
        k = _word(s, at) * m & _MASK
        k = (k ^ (k >> 47)) * m & _MASK
        h = (h ^ k) * m & _MASK
    if n % 8:
        h = (h ^ _word(s, n - n % 8)) * m & _MASK
    h = (h ^ (h >> 47)) * m & _MASK
    return h ^ (h >> 47)


def sip_hash(s: bytes, key0: int, key1: int) -> int:
    """SipHash-2-4 under a key of two words."""
    k0, k1 = key0 & _MASK, key1 & _MASK
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]
    whole = len(s) - len(s) % 8
    words = [_word(s, at) for at in range(0, whole, 8)]
    words.append(_word(s, whole) | (len(s) & 0xFF) << 56)
    for word in words:
        v[3] ^= word
        _sip_rounds(v, 2)
        v[0] ^= word
    v[2] ^= 0xFF
    _sip_rounds(v, 4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def _sip_rounds(v: list[int], count: int) -> None:
    for _ in range(count):
        for a, b, turn in ((0, 1, 13), (2, 3, 16)):
            v[a] = (v[a] + v[b]) & _MASK
            v[b] = _rotated(v[b], 64 - turn) ^ v[a]
        v[0] = _rotated(v[0], 32)
        for a, b, turn in ((2, 1, 17), (0, 3, 21)):
            v[a] = (v[a] + v[b]) & _MASK
            v[b] = _rotated(v[b], 64 - turn) ^ v[a]
        v[2] = _rotated(v[2], 32)
