"""Weighted draws in plain Python, written from the comment at the head of csrc/base/rs_alias.h alone. The tables are
exact fractions, so draws agree with the core unless a word is within 2^-50 of a boundary."""

from fractions import Fraction
from math import log

from ref.permute import MASK, G, mix

__all__ = ["draws", "keys", "word"]


def word(key, i):
    return mix(key + (i + 1) * G & MASK)


def table(weights):
    """`(share of the slot's own number, other number)` for each slot."""
    n, total = len(weights), sum(map(Fraction, weights))
    shares = [Fraction(weight) / total * n for weight in weights]
    small = [i for i in range(n) if shares[i] < 1]
    large = [i for i in range(n) if shares[i] >= 1]
    slots = [(Fraction(1), i) for i in range(n)]
    while small and large:
        less, more = small.pop(), large[-1]
        slots[less] = shares[less], more
        shares[more] -= 1 - shares[less]
        if shares[more] < 1:
            small.append(large.pop())
    return slots


def draws(weights, key, count):
    slots, n, out = table(weights), len(weights), []
    for i in range(count):
        slot, fraction = divmod(word(key, 2 * i) * n, 1 << 64)
        share, other = slots[slot]
        out.append(slot if fraction < share * (1 << 64) else other)
    return out


def keys(weights, key):
    units = [((word(key, i) >> 11) + 0.5) / 2**53 for i in range(len(weights))]
    return [-log(u) / weight if weight else float("inf") for u, weight in zip(units, weights)]
