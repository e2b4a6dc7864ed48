"""Reads several hundred damaged stores through the public API in every test run; `nox -s surface -- N` reads more.
Hypothesis makes some of them, so that it finds the smallest damage that fails. Also checks the damage itself: checksums
are repaired, and many stores open."""

import contextlib
import datetime
import random
import re
import tempfile
import zoneinfo
from pathlib import Path

import numpy as np
import pytest
from fuzz import damage, surface
from hypothesis import given, settings
from hypothesis import strategies as st
from ref import reader

import recstore

SLICES, STORES = 4, 80


@pytest.mark.parametrize("part", range(SLICES))
def test_every_read_gives_a_value_or_a_documented_error(part, tmp_path):
    surface.run(tmp_path / "damaged.rec", "suite", part * STORES, (part + 1) * STORES)


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(surface.seed_files()), st.randoms(use_true_random=False), st.integers(0, 2**32 - 1))
def test_damage_that_hypothesis_draws(original, damage_rng, reading_seed):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "damaged.rec"
        surface.write_damaged(path, original.read_bytes(), damage_rng)
        surface.read_all(path, random.Random(reading_seed))


def test_a_zone_that_no_system_knows_is_said_as_for_a_sound_store(tmp_path):
    path = tmp_path / "zone.rec"
    moment = datetime.datetime(2024, 5, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"))
    with recstore.RecordList([moment], compression="none") as x:
        x.save(path)
    data = bytearray(path.read_bytes().replace(b"Europe/Berlin", b"Europe/Beslin"))
    damage.mend(data)
    path.write_bytes(data)
    with (
        recstore.open(path) as x,
        pytest.raises(recstore.Error, match="this system does not know the time zone 'Europe/Beslin'"),
    ):
        x[0]
    surface.read_all(path, random.Random(1))


@pytest.mark.parametrize("compression", ["none", "auto"])
def test_a_key_whose_hash_overflows(compression, tmp_path):
    """numpy 2.5 cannot hash it, so reading raises CorruptError. With earlier versions, reading returns the record."""
    path, near, far = tmp_path / "far.rec", 0x1122334455, 2**62 + 5
    with recstore.RecordList([{np.datetime64(near, "7D"): 1}], compression=compression) as x:
        x.save(path)
    data = path.read_bytes()
    assert data.count(near.to_bytes(8, "little")) == 1
    changed = bytearray(data.replace(near.to_bytes(8, "little"), far.to_bytes(8, "little")))
    damage.mend(changed)
    path.write_bytes(changed)
    key = np.array([far], "i8").view("M8[7D]")[0]
    with contextlib.suppress(recstore.errors.CorruptError), recstore.open(path) as x:
        try:
            expected = {key: 1}
        except OverflowError:
            with pytest.raises(recstore.errors.CorruptError, match="a dict key that cannot be hashed"):
                x[0]
        else:
            assert x[0] == expected
    surface.read_all(path, random.Random(1))


def test_mending_leaves_a_sound_store_as_it_is():
    for data in surface.seeds():
        mended = bytearray(data)
        damage.mend(mended)
        assert mended == data


def test_mending_hides_a_changed_byte_of_a_heap():
    original = (surface.TESTS / "golden/v1-strings.rec").read_bytes()
    data = bytearray(original)
    data[original.index("éé".encode("latin-1"), 4096)] ^= 1
    with pytest.raises(reader.FormatError, match="CHECKSUM"):
        reader.check(data)
    damage.mend(data)
    assert reader.check(data) != reader.check(original)


def test_many_damaged_stores_open_and_differ_from_their_originals(tmp_path):
    originals, n_opened = surface.seeds(), 0
    for number in range(100):
        rng = random.Random(number)
        original = rng.choice(originals)
        data = damage.damaged(rng, original)
        path = tmp_path / "x.rec"
        path.write_bytes(data)
        try:
            recstore.open(path).close()
        except surface.DAMAGE:
            continue
        n_opened += data != original
    assert n_opened >= 30


def test_every_target_is_built_and_run():
    root = surface.TESTS.parent
    files = {path.stem.removeprefix("fuzz_") for path in (surface.TESTS / "fuzz").glob("fuzz_*.c")}
    built = re.search(r"foreach\(target ([^)]*)\)", (root / "CMakeLists.txt").read_text())[1].split()
    lists = re.findall(r"^\w+_TARGETS = \(([^)]*)\)", (root / "noxfile.py").read_text(), re.MULTILINE)
    run = re.findall(r'"(\w+)"', " ".join(lists))
    assert sorted(built) == sorted(run) == sorted(files)
