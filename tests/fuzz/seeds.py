"""Makes the seeds of the fuzz targets in corpus/, in addition to the golden files: small stores of usual data, random
bytes that targets read as choices, and JSON texts. `python tests/fuzz/seeds.py` writes the missing ones."""

import datetime
import decimal
import random
import sys
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
N_CHOICES, CHOICE_BYTES = 24, 400


def annotations(rng, n):
    """Boxes and polygons of images, sorted by image."""
    for i in range(n):
        ring = [round(rng.uniform(0, 640), 2) for _ in range(2 * rng.randrange(3, 9))]
        yield {
            "id": 900_000 + i,
            "image_id": i // 3,
            "bbox": [round(rng.uniform(0, 640), 2) for _ in range(4)],
            "segmentation": [ring],
            "iscrowd": int(rng.random() < 0.05),
            "category": rng.choice(["person", "cat", "dog", "traffic light"]),
        }


def paths(rng, n):
    for _ in range(n):
        number = rng.randrange(10_000)
        yield f"train/n{rng.randrange(30):08d}/n{rng.randrange(30):08d}_{number}.JPEG"


def captions(rng, n):
    words = "a man riding wave on top of surfboard the zebra standing in grass with two people".split()
    for i in range(n):
        text = " ".join(rng.choice(words) for _ in range(rng.randrange(4, 12)))
        yield {"file": f"{i:012d}.jpg", "caption": text, "lang": rng.choice(["en", None]), "score": i / 7}


def mixed(rng, n):
    """Values of types that need ext nodes, and of several types in one place."""
    for i in range(n):
        record = {
            "when": datetime.datetime(2024, 1, 1) + datetime.timedelta(minutes=7 * i),
            "price": decimal.Decimal(i) / 4,
        }
        record["odd"] = rng.choice([None, i, str(i), [i, i + 1], {"x": i}])
        if i % 3 == 0:
            record["tags"] = {f"key {rng.randrange(50)}": rng.random() for _ in range(rng.randrange(4))}
        yield record


def sentences(rng, n):
    """Text long enough for a symbol table. Words repeat, sentences do not."""
    syllables = "an ter ing the ver lo si tion ra mo el de pre con ly un".split()
    words = ["".join(rng.choices(syllables, k=rng.randrange(1, 4))) for _ in range(120)]
    for _ in range(n):
        yield {"text": " ".join(rng.choices(words, k=rng.randrange(4, 12))), "digest": f"{rng.getrandbits(64):016x}"}


def tokens(rng, n):
    """Sorted rows: groups of many rows, an ascending number, and a value that is sometimes a str."""
    at = 1_700_000_000
    for i in range(n):
        at += rng.randrange(50, 70)
        ids = [rng.randrange(30_000) for _ in range(rng.randrange(12))]
        odd = "late" if rng.random() < 0.02 else rng.randrange(4)
        yield {"group": i // 25, "at": at, "odd": odd, "ids": tuple(ids), "mask": [True, False, i % 3 == 0]}


def arrays(rng, n):
    import numpy as np

    for i in range(n):
        big = np.arange(300 * (i % 9 == 0), dtype="<f8")
        ids = np.arange(20 + 700 * (i % 7 == 0), dtype="<i4") * i * 31 % 50_000
        yield {"box": np.arange(4, dtype="<f4") + i, "big": big, "ids": ids, "id": np.int32(i), "set": {i, -i}}


def wide(rng, n):
    letters = "日本語のテキスト漢字😀"
    for i in range(n):
        yield ("".join(rng.choice(letters) for _ in range(rng.randrange(1, 20))), i % 5 == 0, bytes(rng.randrange(9)))


def fixed(rng, n):
    """Rows of one size, with single numbers and lists of numbers at fixed offsets."""
    for i in range(n):
        box = [rng.uniform(0, 640) for _ in range(4)]
        pair = [rng.randrange(900), i % 7]
        yield {"a": rng.randrange(1 << 40), "b": box, "c": rng.random() < 0.5, "d": pair, "e": box[0]}


def stores():
    """Yields `(name, store, options of save)` of each seed."""
    from recstore import RecordDict, RecordList

    rng = random.Random(15)
    lists = [("annotations", annotations, 150), ("paths", paths, 200), ("captions", captions, 120)]
    lists += [("mixed", mixed, 100), ("wide", wide, 80), ("tokens", tokens, 250), ("arrays", arrays, 40)]
    lists += [("sentences", sentences, 350), ("fixed", fixed, 60)]
    for name, make, n in lists:
        records = list(make(rng, n))
        for level in ("none", "auto"):
            yield f"{name}-{level}", RecordList(records, compression=level), {}
    annotated = RecordList(annotations(rng, 90))
    yield "indexed", annotated, {"index_by": ["id"], "group_by": ["image_id"]}
    yield "dict-str", RecordDict({path: i for i, path in enumerate(paths(rng, 90))}), {}
    keys = [(i % 40, i * 3) for i in range(100)] + [((i, "a"), i) for i in range(9)]
    yield "dict-mixed", RecordDict(keys), {}


def write_stores(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name, store, options in stores():
        if not (folder / f"{name}.rec").exists():
            store.save(folder / f"{name}.rec", **options)


def write_choices(folder, seed):
    """Writes random bytes, which are valid choices for every target."""
    rng = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(N_CHOICES):
        path = folder / f"{i:02d}.bin"
        if not path.exists():
            path.write_bytes(rng.randbytes(rng.randrange(20, CHOICE_BYTES)))


def write_texts(folder):
    """Writes JSON texts without the opening bracket. The first byte selects the bracket and the size of pieces."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = [
        b'0{"a": [1, 2, {"b": "}]"}], "c": null}, "\\\\", "\\"", -1.5e3]',
        b'1"k": [true], "l": {}}',
        b"0[[[[]]], 1]",
    ]
    texts.append(b"0" + b" " * 70 + b'"' + b"\\\\" * 40 + b'", ' + b"9" * 30 + b"]")
    for i, text in enumerate(texts):
        (folder / f"{i:02d}.bin").write_bytes(text)


def main():
    write_stores(CORPUS / "segments")
    for target in ("nodes", "roundtrip", "arrow_in"):
        write_choices(CORPUS / target, target)
    write_texts(CORPUS / "json")


if __name__ == "__main__":
    sys.exit(main())
