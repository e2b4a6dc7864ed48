"""The permutation "feistel-1" in plain Python, from the essay at the head of csrc/base/rs_permute.h alone."""

from math import isqrt

__all__ = ["at", "order"]

MASK = (1 << 64) - 1
G = 0x9E3779B97F4A7C15


def mix(z):
    z &= MASK
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


def amount(key, half, modulus):
    return mix(key + half * G) * modulus >> 64


def at(n, seed, i):
    """The element at position i of n."""
    if not 0 <= i < n:
        raise IndexError(f"position {i} of {n}")
    if n == 1:
        return i
    keys = [mix(seed + (j + 1) * G) for j in range(8)]
    a = isqrt(n - 1) + 1
    a += a % 2
    b = -(-n // a)
    x = i
    while True:
        r, low = divmod(x, a)
        for p in range(4 if n < 4096 else 1):
            for j, key in enumerate(keys):
                if j % 2 == 0:
                    low = (low + amount(key, r + (p << 32), a)) % a
                else:
                    r = (r + amount(key, low + (p << 32), b)) % b
        x = low + a * r
        if x < n:
            return x


def order(n, seed):
    """All n elements in permuted order."""
    return [at(n, seed, i) for i in range(n)]
