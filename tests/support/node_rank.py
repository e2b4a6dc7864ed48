"""A program: a rank on a node that reads batches of a set of shards, and writes the records that it read and its state.

It reads settings as JSON from standard input: `url`, `options`, `cache`, `rank`, `ranks`, `nodes`, `batch` (its size),
`batches` (their number, or None for the rest of the epoch), `state` (of a BatchSampler, or None) and `out`, the path
for its results.
"""

import json
import sys


def main():
    import recstore
    from recstore.torch import BatchSampler, Fields, ShardSampler

    settings = json.load(sys.stdin)
    x = recstore.open(settings["url"], cache=settings["cache"], options=settings["options"], lazy=True)
    sampler = ShardSampler(
        x, window=2, seed=7, rank=settings["rank"], world_size=settings["ranks"], nodes=settings["nodes"]
    )
    batches = BatchSampler(sampler, settings["batch"])
    if settings["state"] is not None:
        batches.load_state_dict(settings["state"])
    fields = Fields(x, "file", "line")
    seen, count = [], 0
    for positions in batches:
        batch = fields.batch(positions)
        seen += zip(batch["file"], batch["line"].tolist())
        count += 1
        if count == settings["batches"]:
            break
    state = batches.state_dict(batches=count)
    with open(settings["out"], "w") as file:
        json.dump({"seen": seen, "state": state, "shards": x.selection.shards.n_mapped}, file)
    x.close()


if __name__ == "__main__":
    main()
