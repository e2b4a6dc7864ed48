"""Draws from several sources in plain Python, from the essay at the head of csrc/base/rs_mixing.h alone."""

from ref.alias import word

__all__ = ["WHOLE", "draws"]

WHOLE = 1 << 30


def threshold(key, number, length, is_constant):
    random = length if is_constant else min(length, 512)
    return WHOLE // 2 * (length - random) + (word(key, number) >> 34) * random


def draws(shares_at, keys, lengths, sizes, constant=False):
    """Yields `(source, number of the item in it)`. `shares_at(position, ended)` has the share of each source in units
    of 1 / WHOLE, `lengths[source](number)` the length of an item, `sizes` the number of items, or None for no end,
    `constant` whether all items of a source have one length."""
    drawn, behind = [0] * len(keys), [0] * len(keys)
    position = 0
    while True:
        ended = [count == size for count, size in zip(drawn, sizes)]
        shares = shares_at(position, ended)
        able = [source for source, share in enumerate(shares) if share]
        if not able:
            return
        source = max(able, key=lambda k: behind[k] - threshold(keys[k], drawn[k], lengths[k](drawn[k]), constant))
        length = lengths[source](drawn[source])
        yield source, drawn[source]
        for other in able:
            behind[other] += shares[other] * length
        behind[source] -= WHOLE * length
        drawn[source] += 1
        position += 1
