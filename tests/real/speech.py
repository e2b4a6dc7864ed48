"""Manifests of lhotse for tests, and the functions that ranks and workers run on them. `lhotse` is the package, or None
if it or torch is missing."""

import importlib.util
import random

from real import ranks

lhotse = None
if importlib.util.find_spec("lhotse") is not None and importlib.util.find_spec("torch") is not None:
    import lhotse
    import torch.utils.data
    from lhotse.testing.dummies import dummy_cut, dummy_supervision

    from recstore.integrations import lhotse as ours

    class Ids(torch.utils.data.Dataset):
        """A dataset of the ids, durations and texts of a batch's cuts."""

        def __getitem__(self, cuts):
            return [f"{cut.id} {cut.duration} {[supervision.text for supervision in cut.supervisions]}" for cut in cuts]


def cuts(count):
    """Cuts of different durations, with supervisions and custom fields; some are mixed."""
    draw = random.Random(7)
    for i in range(count):
        duration = draw.randrange(100, 2000) / 100
        supervision = dummy_supervision(i, duration=duration, text=f"words of {i} " * draw.randrange(1, 6))
        cut = dummy_cut(i, duration=duration, supervisions=[supervision])
        cut.recording.duration, cut.recording.num_samples = 30.0, 480_000
        cut.custom = {"speaker": {"age": i % 50}, "scores": [i / 8, 2.5]}
        yield cut.append(dummy_cut(count + i, duration=1.0)) if i % 10 == 4 else cut


def write(path, items, kind="CutSet"):
    made = getattr(lhotse, kind).from_items(items)
    made.to_file(path)
    return str(path)


def renamed(cut):
    return cut.with_id("x" + cut.id)


# ---- Run by ranks ----


def load_plain(path):
    made = lhotse.CutSet.from_jsonl(path)
    return made, ranks.checksum(cut.to_dict() for cut in made)


def load_shared(path, name):
    made = ours.CutSet.from_file(path, shared=name)
    return made, ranks.checksum(cut.to_dict() for cut in made)
