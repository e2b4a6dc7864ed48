"""Some hundred damaged stores through the public surface, in every test run; `bash .ci/fuzz surface N` reads more. Also that
the damage is of use: checksums are mended, and many stores open."""

import random
import re

import pytest
from fuzz import damage, surface
from ref import reader

import recstore

SLICES, STORES = 6, 80


@pytest.mark.parametrize("part", range(SLICES))
def test_every_read_gives_a_value_or_a_documented_error(part, tmp_path):
    surface.run(tmp_path / "damaged.rec", "suite", part * STORES, (part + 1) * STORES)


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


def test_many_damaged_stores_open_and_are_no_copies(tmp_path):
    originals, opened = surface.seeds(), 0
    for number in range(200):
        rng = random.Random(number)
        original = rng.choice(originals)
        data = damage.damaged(rng, original)
        path = tmp_path / "x.rec"
        path.write_bytes(data)
        try:
            recstore.open(path).close()
        except surface.DAMAGE:
            continue
        opened += data != original
    assert opened >= 60


def test_every_target_is_built_and_run():
    root = surface.TESTS.parent
    files = {path.stem.removeprefix("fuzz_") for path in (surface.TESTS / "fuzz").glob("fuzz_*.c")}
    built = re.search(r"foreach\(target ([^)]*)\)", (root / "CMakeLists.txt").read_text())[1].split()
    script = dict(re.findall(r'^(made_of_choices|targets)="([^"]*)"', (root / ".ci/fuzz").read_text(), re.MULTILINE))
    run = script["targets"].replace("$made_of_choices", script["made_of_choices"]).split()
    assert files == set(built) == set(run)
    assert sorted(built) == sorted(run) == sorted(files)
