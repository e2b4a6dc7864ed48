"""Datasets of Hugging Face for tests, and the functions that ranks and workers run on them. `datasets` is the package,
or None if it is missing."""

import importlib.util
import json

from real import ranks

datasets = None
if importlib.util.find_spec("datasets") is not None:
    import datasets

    datasets.disable_progress_bars()
    from recstore.integrations.datasets import SharedDataset


def rows(count):
    return [
        {
            "id": i,
            "text": f"the text number {i} has words " * (1 + i % 4),
            "label": i % 3,
            "scores": [i / 8, 0.5] if i % 7 else [],
            "meta": {"lang": ["en", "de", None][i % 3], "page": i // 2},
            "note": None if i % 5 else f"note {i}",
        }
        for i in range(count)
    ]


def write(path, count):
    with open(path, "w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows(count))
    return str(path)


def dataset(count=60):
    made = datasets.Dataset.from_list(rows(count))
    features = made.features.copy()
    features["label"] = datasets.ClassLabel(names=["no", "yes", "so"])
    features["id"] = datasets.Value("int32")
    return made.cast(features)


class Loader:
    """A callable that loads a file, for SharedDataset."""

    def __init__(self, path):
        self.path = path

    def __call__(self):
        with open(self.path) as file:
            return datasets.Dataset.from_list([json.loads(line) for line in file])


def sizes(batch):
    return {
        "size": [len(text) for text in batch["text"]],
        "id": batch["id"],
        "batch": [len(batch["id"])] * len(batch["id"]),
    }


# ---- Run by ranks ----


def load_plain(path):
    made = Loader(path)()
    return made, ranks.checksum(made)


def load_shared(path, name):
    made = SharedDataset(Loader(path), shared=name)
    return made, ranks.checksum(made)
