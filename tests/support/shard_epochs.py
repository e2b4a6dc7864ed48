"""The order of a ShardSampler in plain Python, from the essay at the head of recstore/torch/shard_order.py, and sets of
shards that note which shards they are told of."""

from ref import permute

import recstore
from recstore._core import native


def share(items, parts, part):
    """The elements of a list that one of so many parts of about equal length has."""
    each, more = divmod(len(items), parts)
    begin = part * each + min(part, more)
    return items[begin : begin + each + (part < more)]


def windows_of(lane, window):
    """The records of a lane, pairs `(shard, record)`, as lists of the records of each window."""
    shards = list(dict.fromkeys(shard for shard, _ in lane))
    count = -(-len(shards) // window)
    cuts = [i * len(shards) // count for i in range(count + 1)] if count else [0]
    chosen = [set(shards[low:high]) for low, high in zip(cuts, cuts[1:])]
    return [[record for shard, record in lane if shard in some] for some in chosen]


def seats(ends, window, key, lanes):
    """The records of an epoch, lane after lane."""
    starts = [0, *ends[:-1]]
    shards = [i for i, (start, end) in enumerate(zip(starts, ends)) if start < end]
    if key is not None:
        shards = [shards[i] for i in permute.order(len(shards), key)]
    placed = [(shard, record) for shard in shards for record in range(starts[shard], ends[shard])]
    windows = [records for lane in range(lanes) for records in windows_of(share(placed, lanes, lane), window)]
    if key is None:
        return sum(windows, [])
    seeds = [permute.mix(key) + permute.mix(number + 1) & permute.MASK for number in range(len(windows))]
    return [w[i] for w, seed in zip(windows, seeds) for i in permute.order(len(w), seed)]


def dealt(left, lanes):
    """The records of the seats that are left, as a leg with so many lanes takes them: `(lane, record)`."""
    parts = [share(left, lanes, lane) for lane in range(lanes)]
    return [(p % lanes, parts[p % lanes][p // lanes]) for p in range(len(left))]


def epoch(ends, window, seed, legs, number=0, shuffle=True):
    """The items of an epoch with these legs: for each its lane and its record."""
    key = (seed + permute.mix(number)) & permute.MASK if shuffle else None
    left = seats(ends, window, key, legs[0][1])
    items = []
    for i, (begin, lanes) in enumerate(legs):
        end = legs[i + 1][0] if i + 1 < len(legs) else begin + len(left)
        leg = dealt(left, lanes)[: end - begin]
        items += leg
        taken = {record for _, record in leg}
        left = [
            record for record in sum((share(left, lanes, lane) for lane in range(lanes)), []) if record not in taken
        ]
    return items


def shared_out(items, first, leg, world_size, drop_last):
    """For each rank the records that it takes from item `first` on of an epoch, of which `leg` is the last one."""
    n, (begin, lanes) = len(items), leg
    turns = (n - first) // world_size if drop_last else -(-(n - first) // world_size)
    ranks = [[] for _ in range(world_size)]
    for turn in range(turns):
        start = first + turn * world_size
        # Items behind the end count on through the lanes; they repeat what was taken a turn before.
        order = sorted(range(start, start + world_size), key=lambda p: ((p - begin) % lanes, p))
        for rank, p in enumerate(order):
            if p >= n:
                p = p - world_size if p - world_size >= begin else begin + (p - begin) % (n - begin)
            ranks[rank].append(items[p][1])
    return ranks


class Opener:
    """Opens the shards of a set, and notes the shards that it is told of and those that it opens."""

    lazy, token, nbytes, attributes = True, b"", 0, {}

    def __init__(self, parts):
        self.parts, self.told, self.opened = parts, [], []

    def __call__(self, shard):
        self.opened.append(shard)
        return self.parts[shard].segments[0]

    def wanted(self, shards):
        self.told.append(shards)


def set_of(counts):
    """`(records, opener)` of a set of shards with so many records each, which are counted through."""
    starts = [sum(counts[:i]) for i in range(len(counts))]
    opener = Opener([recstore.RecordList(range(start, start + count)) for start, count in zip(starts, counts)])
    shards = native.Shards(counts, native.MappedShards(len(counts), opener))
    return recstore.RecordList._blank()._set(native.Selection.of_shards(shards)), opener
