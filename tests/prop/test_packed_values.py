"""The package reads what the reference writer makes of packed nodes, tables and texts, whole and by paths; of damaged segments, their
checksums right, it reads what the reference reads, or refuses."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prop import packed
from prop import test_packed_ref as literals
from prop.strategies import same
from prop.test_fields import check_all
from prop.test_packed import NOT_MADE, reference, resealed, spans_of
from prop.test_roundtrip import REFUSALS, flip, new_path, opened, places
from ref import reader

recstore = pytest.importorskip("recstore", exc_type=ImportError)

in_folder = settings(deadline=None, max_examples=150, suppress_health_check=[
    HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture])  # fmt: skip


@pytest.mark.parametrize(("root", "raw", "value"), literals.LITERALS, ids=range(len(literals.LITERALS)))
def test_literal(root, raw, value, tmp_path):
    assert same(opened(tmp_path, literals.one(root, raw), "full"), [value])


@pytest.mark.parametrize(("root", "raw", "code"), literals.BAD, ids=range(len(literals.BAD)))
def test_bad_record(root, raw, code, tmp_path):
    with pytest.raises(REFUSALS, match=f"RS_E_FMT_{code}"):
        opened(tmp_path, literals.one(root, raw), "header")


@given(packed.segments())
@in_folder
def test_reads(tmp_path, case):
    assert same(opened(tmp_path, case[0], "full"), case[1])


@given(packed.segments())
@in_folder
def test_fields(tmp_path, case):
    path = new_path(tmp_path)
    path.write_bytes(case[0])
    with recstore.open(path) as x:
        check_all(x, case[1])
    path.unlink()


@given(packed.segments(), places, st.data())
@in_folder
def test_damage(tmp_path, case, flips, draw):
    spans = spans_of(case[0])
    if not spans:
        return
    damaged = resealed(flip(case[0], flips, [draw.draw(st.sampled_from(spans))]), case[0])
    wanted, text = reference(damaged)
    if wanted is None:
        assert same(opened(tmp_path, damaged, "full"), reader.check(damaged))
    elif not any(part in text for part in NOT_MADE):
        with pytest.raises(REFUSALS):
            opened(tmp_path, damaged, "full")
