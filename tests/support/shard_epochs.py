"""The order of a ShardSampler in plain Python, from the docstring of recstore/torch/shard_order.py, and sets of shards
that record which shards are opened and announced."""

from ref import permute

import recstore
from recstore._core import native


def share(items, parts, part):
    """The elements of part `part` when a list is cut into `parts` parts of about equal length."""
    each, more = divmod(len(items), parts)
    begin = part * each + min(part, more)
    return items[begin : begin + each + (part < more)]


def windows_of(lane, window):
    """The records of a lane, given as pairs `(shard, record)`, in lists by window."""
    shards = list(dict.fromkeys(shard for shard, _ in lane))
    count = -(-len(shards) // window)
    cuts = [i * len(shards) // count for i in range(count + 1)] if count else [0]
    windows = [set(shards[low:high]) for low, high in zip(cuts, cuts[1:])]
    return [[record for shard, record in lane if shard in window_shards] for window_shards in windows]


def seats(ends, window, key, lanes):
    """The records of an epoch, lane by lane."""
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
    """The remaining records in the order of a leg with `lanes` lanes: `(lane, record)`."""
    parts = [share(left, lanes, lane) for lane in range(lanes)]
    return [(p % lanes, parts[p % lanes][p // lanes]) for p in range(len(left))]


def epoch(ends, window, seed, legs, number=0, shuffle=True):
    """The items of an epoch with these legs: `(lane, record)`."""
    key = (seed + permute.mix(number)) & permute.MASK if shuffle else None
    left = seats(ends, window, key, legs[0][1])
    items = []
    for i, (begin, lanes) in enumerate(legs):
        end = legs[i + 1][0] if i + 1 < len(legs) else begin + len(left)
        leg = dealt(left, lanes)[: end - begin]
        items += leg
        used = {record for _, record in leg}
        left = [record for record in sum((share(left, lanes, lane) for lane in range(lanes)), []) if record not in used]
    return items


def shared_out(items, first, leg, world_size, drop_last):
    """For each rank, its records from item `first` of an epoch on; `leg` is the last leg of the epoch."""
    n, (begin, lanes) = len(items), leg
    turns = (n - first) // world_size if drop_last else -(-(n - first) // world_size)
    ranks = [[] for _ in range(world_size)]
    for turn in range(turns):
        start = first + turn * world_size
        # Items after the end continue through the lanes; they repeat the items of the previous turn.
        order = sorted(range(start, start + world_size), key=lambda p: ((p - begin) % lanes, p))
        for rank, p in enumerate(order):
            if p >= n:
                p = p - world_size if p - world_size >= begin else begin + (p - begin) % (n - begin)
            ranks[rank].append(items[p][1])
    return ranks


class Opener:
    """Opens the shards of a set. Records the shards that it opens, and the shards announced by `fetch_ahead`."""

    lazy, token, nbytes, attributes = True, b"", 0, {}

    def __init__(self, parts):
        self.parts, self.announced, self.opened_shards = parts, [], []

    def __call__(self, shard):
        self.opened_shards.append(shard)
        return self.parts[shard].segments[0]

    def check_window(self, shards):
        """Accepts windows of any size."""

    def fetch_ahead(self, shards):
        self.announced.append(shards)


def set_of(counts):
    """`(records, opener)` of a set of shards with these numbers of records; the records are 0, 1, 2 and so on."""
    starts = [sum(counts[:i]) for i in range(len(counts))]
    opener = Opener([recstore.RecordList(range(start, start + count)) for start, count in zip(starts, counts)])
    shards = native.Shards(counts, native.MappedShards(len(counts), opener))
    return recstore.RecordList._blank()._set(native.Selection.of_shards(shards)), opener
