"""One rank on a node, as a program: trains on a set of shards until it is to stop, and writes what it has seen.

It gets its settings as JSON on its standard input: `url`, `options`, `cache`, `rank`, `ranks`, `nodes`, `batches` (None for
the rest of the epoch), `state` (of a sampler, or None) and `out`, the path for its results.
"""

import json
import sys


def main():
    import recstore
    from recstore.torch import BatchSampler, Fields, ShardSampler

    wanted = json.load(sys.stdin)
    x = recstore.open(wanted["url"], cache=wanted["cache"], options=wanted["options"], lazy=True)
    sampler = ShardSampler(x, window=2, seed=7, rank=wanted["rank"], world_size=wanted["ranks"], nodes=wanted["nodes"])
    batches = BatchSampler(sampler, wanted["batch"])
    if wanted["state"] is not None:
        batches.load_state_dict(wanted["state"])
    fields = Fields(x, "file", "line")
    seen, taken = [], 0
    for positions in batches:
        batch = fields.batch(positions)
        seen += zip(batch["file"], batch["line"].tolist())
        taken += 1
        if taken == wanted["batches"]:
            break
    state = batches.state_dict(batches=taken)
    with open(wanted["out"], "w") as file:
        json.dump({"seen": seen, "state": state, "shards": x.selection.shards.n_mapped}, file)
    x.close()


if __name__ == "__main__":
    main()
