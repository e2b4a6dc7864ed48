"""The peak memory of a build beyond its store: tables and blocks in flight are bounded, whatever the
records are and however many threads compress."""

import os

import interpreters
import pytest
import waiting

pytestmark = [pytest.mark.slow, interpreters.measures_memory]

LIMIT_BYTES = 64_000_000

# Records whose build takes much memory for their size: they have many fields of text whose values partly repeat,
# so each field has a dictionary or a symbol table.
PROGRAM = """
import gc, random, sys
from recstore import RecordList
from recstore.shm import process_memory

rng = random.Random(7)
WORDS = ["".join(rng.choices("etaoinshrdlucmfw", k=rng.randint(2, 11))) for _ in range(4000)]
SENTENCES = [" ".join(rng.choices(WORDS, k=rng.randint(4, 14))) for _ in range(60_000)]
PLACES = ["/".join(rng.choices(WORDS, k=3)) for _ in range(20_000)]

def dialogue(i):
    turns = []
    for k in range(16):
        slots = {f"slot_{rng.randrange(40)}": [rng.choice(WORDS)] for _ in range(3)}
        frame = {"service": f"Service_{i % 30}", "state": {"intent": rng.choice(WORDS[:90]), "values": slots}}
        turns.append({"speaker": "USER" if k % 2 else "SYSTEM", "utterance": rng.choice(SENTENCES), "frames": [frame]})
    return {"id": f"{i // 99}_{i:05d}", "services": [f"Service_{i % 30}"], "turns": turns}

def artwork(i):
    record = {"id": i, "artist": rng.choice(PLACES), "all": [rng.choice(WORDS) for _ in range(5)]}
    for k in range(40):
        record[f"text{k}"] = rng.choice(SENTENCES if k % 2 else PLACES) + (f" {i}" if k % 8 == 0 else "")
        record[f"number{k}"] = rng.randrange(10 << k % 20)
    record["subjects"] = {"id": i % 977, "children": [{"name": rng.choice(PLACES), "id": k} for k in range(6)]}
    return record

make, count, threads = {"dialogue": dialogue, "artwork": artwork}[sys.argv[1]], int(sys.argv[2]), int(sys.argv[3])
RecordList([make(i) for i in range(200)], threads=threads).close()  # imports, threads, interned words
gc.collect()
if not process_memory.reset_peak_rss():
    sys.exit(77)
before = process_memory.usage().rss
store = RecordList((make(i) for i in range(count)), threads=threads)
print(process_memory.peak_rss() - before, store.nbytes)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/smaps_rollup"), reason="reads /proc/self/smaps_rollup")
@pytest.mark.parametrize("threads", [2, 8])
@pytest.mark.parametrize("kind, count", [("dialogue", 11_000), ("artwork", 14_000)])
def test_a_build_of_large_records_takes_at_most_64_mb_beyond_the_store(kind, count, threads):
    done = waiting.python("-c", PROGRAM, kind, str(count), str(threads), cwd="/")
    if done.returncode == 77:
        pytest.skip("the system cannot reset the peak RSS")
    assert done.returncode == 0, done.stderr
    # The builder writes its segment without mapping it, so the RSS does not include the store.
    peak, store = map(int, done.stdout.split())
    assert store > 1_000_000
    assert peak <= LIMIT_BYTES, f"{peak / 1e6:.1f} MB"
