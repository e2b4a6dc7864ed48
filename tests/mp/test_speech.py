"""The speech Dataset of docs/tour.md, with a mapping and the list of its keys.

With two changed lines, a DataLoader's workers give the same batches and take hardly any memory. The tests derive the
version with dict and list from the page's code. They use real utterances if LibriMix's file exists.
"""

import importlib
import lzma
import os
import pathlib
import re

import interpreters
import pytest

import recstore
from recstore.shm import process_memory

data = pytest.importorskip("torch.utils.data", reason="needs PyTorch (pip install recstore[torch])")

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = pathlib.Path(os.environ.get("RECSTORE_DATA") or ROOT.parent / "shared" / "data")
LIBRIMIX = FOLDER / "speech" / "LibriMix" / "libri2mix_train-clean-100.csv.xz"


def wav_scp(count):
    """Yields `count` lines "utterance path": LibriMix's sources, repeated with numbers, or artificial ones."""
    if LIBRIMIX.exists():
        with lzma.open(LIBRIMIX, "rt", encoding="utf-8") as file:
            next(file)
            paths = list(dict.fromkeys(path for line in file for path in line.split(",")[1:4:2]))
    else:
        paths = [f"train-clean-100/{n % 251}/{n % 585}/{n % 251}-{n % 585}-{n:05d}.flac" for n in range(20_000)]
    for number in range(count):
        again, which = divmod(number, len(paths))
        stem = paths[which].removesuffix(".flac")
        yield f"{stem.rpartition('/')[2]}-{again:02d} /data/LibriSpeech/{stem}-{again:02d}.flac\n"


@pytest.fixture
def versions(tmp_path, monkeypatch):
    """The page's Dataset and its version before recstore, in modules that a spawned worker can import."""
    page = ROOT / "docs/tour.md"
    if not page.exists():
        pytest.skip("docs/tour.md is missing")
    text = page.read_text(encoding="utf-8")
    block = next(code for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "utt2fpath" in code)
    before, changed = re.subn(r"= Record(Dict|List)\(", lambda match: f"= {match[1].lower()}(", block)
    assert changed == 2
    (tmp_path / "speech_stored.py").write_text(block)
    (tmp_path / "speech_plain.py").write_text(before)
    monkeypatch.syspath_prepend(tmp_path)
    return [importlib.import_module(f"speech_{name}").Utterances for name in ("stored", "plain")]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_the_same_batches(versions, method):
    stored, plain = (version(wav_scp(30_000)) for version in versions)
    assert type(plain.utt2fpath) is dict and type(plain.utts) is list
    assert type(stored.utt2fpath) is recstore.RecordDict and len(stored.utts.segments) == 1
    assert stored.utts.segments == stored.utt2fpath.segments, "the list of keys is not a separate store"
    options = {"batch_size": 500, "num_workers": 2, "multiprocessing_context": method}
    batches = list(data.DataLoader(stored, **options))
    assert batches == list(data.DataLoader(plain, batch_size=500))
    assert len(batches) == 60 and batches[3][0][7] in stored.utt2fpath


def own_memory(dataset):
    """Returns the larger USS of two living forked workers that together have read everything."""
    loader = data.DataLoader(
        dataset, 1000, num_workers=2, persistent_workers=True, collate_fn=len, multiprocessing_context="fork"
    )
    batches = iter(loader)
    assert sum(batches) == len(dataset)
    return max(process_memory.usage(worker.pid).uss for worker in batches._workers)


@interpreters.measures_memory
def test_memory_of_the_workers(versions):
    if process_memory.usage() is None:
        pytest.skip("this system does not report USS")
    stored, plain = (version(wav_scp(300_000)) for version in versions)
    baseline = own_memory(versions[1](wav_scp(2000)))
    before, after = own_memory(plain) - baseline, own_memory(stored) - baseline
    assert before > 10_000_000, "each worker reads half of the records and so copies their pages"
    assert after < before / 4, f"a worker grew by {after:,} bytes with the store, by {before:,} with dict and list"
