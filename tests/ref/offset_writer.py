"""Makes the offset groups of a block, for `writer`."""

import struct


def offset_groups(records, width):
    out, at = b"", 0
    for g in range(0, len(records), 64):
        ends, end = [], 0
        for record in records[g : g + 64]:
            end += len(record)
            ends.append(end)
        ends += [end] * (64 - len(ends))
        out += struct.pack("<Q", at) + b"".join(e.to_bytes(width, "little") for e in ends)
        at += end
    return out


def line_groups(records, bits):
    """Offset groups whose ends are distances of `bits` bits from a line. The slope of the line is the average size of a
    record of the group."""
    out, at = b"", 0
    for g in range(0, len(records), 64):
        sizes = [len(record) for record in records[g : g + 64]]
        slope, fields, end = (sum(sizes) << 16) // len(sizes), 0, 0
        for k, size in enumerate(sizes):
            end += size
            field = end - ((k + 1) * slope >> 16) + (1 << bits - 1)
            assert 0 <= field < 1 << bits, "the line needs more bits"
            fields |= field << bits * k
        out += struct.pack("<II", at, slope) + fields.to_bytes(8 * bits, "little")
        at += end
    return out
