"""A program: kinds of records made by rules, built and measured beside pickling, Parquet and Vortex.

    .venv/bin/python bench/kinds.py [KIND ...] [--records 100000] [--rounds 3] [--sizes] [--json OUT]

For each kind: the time to build from a list, over the time of the leanest pickling and over the time of pyarrow's
`Table.from_pylist` and `write_table(compression="zstd")`, as medians of the ratios of alternating rounds; the bytes of
a record, over Vortex's. `--sizes` measures only bytes; `--json` also writes the rows, with the machine. Text is drawn
from the sentences of Common Voice in RECSTORE_DATA (without them from lines of the standard library), code from the
standard library.
"""

import argparse
import base64
import functools
import hashlib
import io
import json
import keyword
import pathlib
import random
import statistics
import time
import tokenize
import uuid

import builds
import columns
import data
import output

import recstore
from recstore.cli.bench_rivals import Absent

_SITES = ("example.com", "static.example.org", "img.photos.example", "cdn.media.example.net")
_AGENTS = (
    "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36",
    "curl/8.5.0",
    "Googlebot/2.1 (+http://www.google.com/bot.html)",
)


@functools.cache
def sentences():
    """English sentences."""
    try:
        lines = (line.partition("\t") for line in data._lines("commonvoice/sentences.tsv.xz"))
        return [text for language, _, text in lines if language == "en"]
    except data.Missing:
        sources = (path.read_text(errors="replace") for path in sorted(_library().glob("*.py")))
        return [line.strip() for source in sources for line in source.splitlines() if line.count(" ") > 5]


def _library():
    return pathlib.Path(tokenize.__file__).parent


@functools.cache
def code_tokens():
    """The tokens of modules of the standard library."""
    texts = []
    for path in sorted(_library().glob("*.py"))[:60]:
        with open(path, "rb") as file:
            texts += [token.string for token in tokenize.tokenize(file.readline) if token.string.strip()]
    return texts


def _prose(draw, low, high):
    return " ".join(draw.choice(sentences()) for _ in range(draw.randint(low, high)))


def manifest(draw, i):
    """A line of a file manifest with two hashes."""
    blob = draw.randbytes(16)
    path = f"data/{draw.choice('abcdef')}{i // 500:04}/{draw.randrange(16**8):08x}.bin"
    size = int(draw.lognormvariate(11, 1.5))
    return {
        "path": path,
        "size": size,
        "md5": hashlib.md5(blob).hexdigest(),
        "sha256": hashlib.sha256(blob).hexdigest(),
    }


def maths(draw, i):
    """A worked problem."""
    a, b, c = draw.randint(2, 900), draw.randint(2, 90), draw.randint(2, 12)
    steps = [
        f"First, {a} * {b} = <<{a}*{b}={a * b}>>{a * b}.",
        f"{draw.choice(sentences())} Then {a * b} + {c} = <<{a * b}+{c}={a * b + c}>>{a * b + c}.",
    ]
    question = f"{_prose(draw, 1, 3)} There are {a} boxes of {b} pens, and {c} more. How many pens are there?"
    return {"question": question, "answer": "\n".join(steps) + f"\n#### {a * b + c}"}


def log_line(draw, i):
    """A line of a web server's log, as text."""
    ip = ".".join(str(draw.randrange(256)) for _ in range(4))
    page = f"/{draw.choice(('blog', 'static', 'api/v1', 'images'))}/{draw.choice(code_tokens())[:12].strip()}"
    clock = f"{i // 3600 % 24:02}:{i // 60 % 60:02}:{i % 60:02}"
    return (
        f'{ip} - - [12/Mar/2024:{clock} +0000] "GET {page}?id={draw.randrange(10**6)} HTTP/1.1" '
        f'{draw.choice((200, 200, 200, 304, 404))} {draw.randrange(50_000)} "https://{draw.choice(_SITES)}/" '
        f'"{draw.choice(_AGENTS)}"'
    )


def instruction(draw, i):
    """An instruction with its answer."""
    extra = _prose(draw, 1, 2) if draw.random() < 0.4 else ""
    return {"instruction": _prose(draw, 1, 2), "input": extra, "output": _prose(draw, 2, 9)}


def caption(draw, i):
    """A caption with the URL of its image."""
    tail = f"{draw.randrange(16**10):010x}_{draw.choice(('b', 'z', 'o'))}.jpg"
    url = f"https://{draw.choice(_SITES)}/{draw.randrange(10**4)}/{draw.choice('0123456789abcdef')}/{tail}"
    return {
        "url": url,
        "caption": draw.choice(sentences()),
        "similarity": draw.random(),
        "width": draw.randint(200, 4000),
    }


def chat(draw, i):
    """A message, often with an emoji."""
    text = draw.choice(sentences()) + draw.choice(("", " 😀", " 🎉🎉", "…", " 👍🏽"))
    return {"user": f"user{draw.randrange(5000)}", "text": text, "time": 1_700_000_000 + 7 * i}


def choices(draw, i):
    """A question of multiple choice."""
    options = [draw.choice(sentences())[:40] for _ in range(4)]
    return {"question": draw.choice(sentences()), "choices": options, "answer": draw.randrange(4), "id": f"q-{i:06}"}


def transcript(draw, i):
    """A path of audio with its transcript and duration."""
    speaker, chapter = draw.randrange(2500), draw.randrange(10**5)
    path = f"/data/speech/train/{speaker}/{chapter}/{speaker}-{chapter}-{i % 100:04}.flac"
    return {"audio": path, "text": draw.choice(sentences()).upper(), "duration": round(draw.uniform(1, 17), 3)}


def pair(draw, i):
    """Two sentences."""
    return [draw.choice(sentences()), draw.choice(sentences())]


def tokens_of_code(draw, i):
    """Two long lists of a record: tokens of code, and their kinds."""
    begin = draw.randrange(len(code_tokens()) - 200)
    texts = code_tokens()[begin : begin + draw.randint(20, 200)]
    kinds = ["KEY" if keyword.iskeyword(t) else "NAME" if t.isidentifier() else "OP" for t in texts]
    return {"tokens": texts, "kinds": kinds}


def tracker(draw, i):
    """A row of a tracker: numbers of several types in a list."""
    x, y = draw.uniform(0, 1900), draw.uniform(0, 1000)
    return [i // 20, i % 20, round(x, 2), round(y, 2), round(x / 10 + 20, 2), round(y / 10 + 40, 2), 1, -1]


def mixed_row(draw, i):
    """A list of str, int and float."""
    return [
        f"frame_{i // 8:06}.png",
        draw.choice(("car", "person", "bicycle")),
        draw.randrange(30),
        draw.random(),
        i % 8,
    ]


def rating(draw, i):
    """Four ints: user, item, rating, time."""
    user = int(draw.paretovariate(1.2) * 7) % 6040 + 1
    return [
        user,
        int(draw.paretovariate(1.1) * 9) % 3952 + 1,
        draw.randint(1, 5),
        956_703_932 + i * 600 + draw.randrange(600),
    ]


def action(draw, i):
    """Nested dicts of few shapes."""
    kind = draw.choice(("move", "attack", "craft"))
    act = {"camera": [draw.randint(-180, 180) / 2, draw.randint(-90, 90) / 2], "jump": draw.randrange(2), "forward": 1}
    if kind == "craft":
        act["craft"] = {"item": draw.choice(("plank", "stick", "torch")), "count": draw.randint(1, 8)}
    return {"kind": kind, "action": act, "reward": draw.choice((0.0, 0.0, 0.0, 1.0, -1.0)), "done": i % 400 == 399}


def sparse(draw, i):
    """A record with many None."""
    names = ("name", "phone", "email", "score", "age", "city", "note", "rank")
    values = (
        draw.choice(sentences())[:20],
        f"+1-{draw.randrange(10**10):010}",
        f"user{i}@{draw.choice(_SITES)}",
        draw.random(),
        draw.randint(18, 90),
        draw.choice(("Paris", "Lima", "Oslo")),
        draw.choice(sentences()),
        draw.randrange(10**5),
    )
    return {name: value if draw.random() < 0.25 else None for name, value in zip(names, values)} | {"id": i}


def relation(draw, i):
    """Words of a sentence with two entities and their relation."""
    words = draw.choice(sentences()).split()
    head, tail = draw.randrange(len(words)), draw.randrange(len(words))
    entities = [{"pos": [at, at + 1], "id": f"Q{draw.randrange(10**6)}"} for at in (head, tail)]
    return {"tokens": words, "h": entities[0], "t": entities[1], "relation": f"P{draw.randrange(80)}"}


def ragged(draw, i):
    """A list of ints of any length."""
    return [int(draw.expovariate(0.001)) for _ in range(int(draw.expovariate(0.05)))]


def ids(draw, i):
    """Ids as text: a UUID, base64 and upper-case hex."""
    return {
        "uuid": str(uuid.UUID(bytes=draw.randbytes(16), version=4)),
        "digest": base64.b64encode(draw.randbytes(24)).decode(),
        "etag": f'"{draw.randbytes(16).hex().upper()}"',
    }


def clip(draw, i):
    """A clip of a video."""
    begin = round(draw.uniform(0, 500), 2)
    video = base64.urlsafe_b64encode(draw.randbytes(8)).decode()[:11]
    return {
        "video": video,
        "start": begin,
        "end": round(begin + draw.uniform(2, 12), 2),
        "text": draw.choice(sentences()),
    }


def event(draw, i):
    """A record of which each key may be missing."""
    return {f"field {k:02}": draw.randrange(1000) for k in range(30) if draw.random() < 0.9}


KINDS = (
    manifest, maths, log_line, instruction, caption, chat, choices, transcript, pair, tokens_of_code, tracker,
    mixed_row, rating, action, sparse, event, relation, ragged, ids, clip,
)  # fmt: skip


def parquet(records):
    """Writes records as pyarrow users do; records that are not dicts become a column."""
    import pyarrow
    from pyarrow import parquet

    rows = records if isinstance(records[0], dict) else [{"value": record} for record in records]
    try:
        parquet.write_table(pyarrow.Table.from_pylist(rows), io.BytesIO(), compression="zstd")
    except (pyarrow.ArrowException, OverflowError) as error:
        raise Absent(f"Arrow rejects the records: {error}") from None


def speed(records, rounds):
    """(ns a record, ratio to the leanest pickling, ratio to Parquet or None, MB/s of pickles)."""
    calls = [recstore.RecordList, builds.pickles_joined, parquet]
    times = [[], [], []]
    for _ in range(rounds):
        for call, seen in zip(calls, times):
            begin = time.perf_counter()
            try:
                call(records)
            except Absent:
                continue
            seen.append(time.perf_counter() - begin)
    of = [statistics.median(a / b for a, b in zip(times[0], seen)) if seen else None for seen in times[1:]]
    best = min(times[0])
    return best / len(records) * 1e9, *of, len(builds.pickles_joined(records)) / best / 1e6


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kinds", nargs="*", choices=[[], *(kind.__name__ for kind in KINDS)])
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", action="store_true")
    parser.add_argument("--json")
    args = parser.parse_args()
    rows = []
    print("kind            bytes  of Vortex   ns a record  of pickling  of Parquet  MB/s of pickles")
    for kind in KINDS:
        if args.kinds and kind.__name__ not in args.kinds:
            continue
        draw = random.Random(1)
        records = [kind(draw, i) for i in range(args.records)]
        size = recstore.RecordList(records).nbytes
        try:
            of_vortex = size / columns.Vortex.build(records).nbytes
        except Absent:
            of_vortex = None
        row = {"kind": kind.__name__, "records": args.records, "bytes": size / len(records), "of_vortex": of_vortex}
        line = f"{kind.__name__:14} {row['bytes']:6.1f}  {'-' if of_vortex is None else f'{of_vortex:.3f}':>9}"
        if not args.sizes:
            ns, of_pickling, of_parquet, rate = speed(records, args.rounds)
            row |= {"ns": ns, "of_pickling": of_pickling, "of_parquet": of_parquet, "mb_per_second": rate}
            beside = "-" if of_parquet is None else f"{of_parquet:.2f}"
            line += f"   {ns:11,.0f}  {of_pickling:11.2f}  {beside:>10}  {rate:15.0f}"
        rows.append(row)
        print(line, flush=True)
    if args.json:
        text = json.dumps({"machine": output.machine(), "rows": rows}, indent=1)
        pathlib.Path(args.json).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
