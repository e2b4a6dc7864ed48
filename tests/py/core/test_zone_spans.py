"""The spans of time zones against `datetime.astimezone`, around every transition of some of the system's zones."""

import datetime
import zoneinfo

import pytest

from recstore.errors import InputError
from recstore.values.zone_spans import zone_spans

UTC = datetime.timezone.utc
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=UTC)
SECOND = datetime.timedelta(seconds=1)
ZONES = sorted(zoneinfo.available_timezones())


def state(zone, utc_s):
    local = (EPOCH + utc_s * SECOND).astimezone(zone)
    return local.utcoffset() // SECOND, local.fold


def assert_right(name, utc_s):
    spans = zone_spans(name, utc_s)
    assert all(a[1] == b[0] for a, b in zip(spans, spans[1:])) and spans[0][0] <= utc_s < spans[-1][1]
    zone = zoneinfo.ZoneInfo(name)
    for begin, end, offset, fold in spans:
        for at in (begin, end - 1, (begin + end) // 2):
            assert (offset, fold) == state(zone, at), (name, at)


def test_each_change_of_many_zones():
    from zoneinfo import _zoneinfo  # the pure Python form, which has the list of changes

    name_of = {tuple(_zoneinfo.ZoneInfo(name)._trans_utc): name for name in ZONES}  # many zones have several names
    assert len(name_of) > 100
    for times, name in list(name_of.items())[::16]:  # all zones would take 20 seconds
        zone, spans = zoneinfo.ZoneInfo(name), []
        for at in times:
            if at < -62135596800 + 2 * 86400:
                continue
            if not spans or not spans[0][0] < at - 3600 < at + 7200 < spans[-1][1]:
                spans = zone_spans(name, at)
            for near in (at - 3600, at - 1, at, at + 1799, at + 1800, at + 3599, at + 3600, at + 7200):
                containing = [span[2:] for span in spans if span[0] <= near < span[1]]
                assert containing in ([], [state(zone, near)]), (name, near)


@pytest.mark.parametrize(
    "name", ["Europe/Paris", "Australia/Lord_Howe", "America/St_Johns", "Africa/Casablanca", "UTC"]
)
def test_every_hour_of_some_years(name):
    zone = zoneinfo.ZoneInfo(name)
    for year in (1911, 2020, 2050):
        begin = int((datetime.datetime(year, 1, 1, tzinfo=UTC) - EPOCH).total_seconds())
        at, spans = begin, []
        while at < begin + 366 * 86400:
            if not spans or at >= spans[-1][1]:
                spans = zone_spans(name, at)
            assert [span[2:] for span in spans if span[0] <= at < span[1]] == [state(zone, at)], at
            at += 1800


def test_spans_have_no_gap():
    for at in (-62135596800, -1, 0, 10**9, 253402300799):
        assert_right("Europe/Paris", min(max(at, -62135596800 + 70 * 86400), 253402300799 - 70 * 86400))
        spans = zone_spans("Europe/Paris", at)
        assert spans[0][0] <= at < spans[-1][1]


@pytest.mark.parametrize("name", ["nonsense", "", "../UTC", "/usr/share/zoneinfo/UTC", "Europe", "a\0b"])
def test_a_zone_that_is_not_there(name):
    pytest.raises(InputError, lambda: zone_spans(name, 0)).match("this system does not know the time zone")


def test_the_spans_of_a_time_are_found_once():
    """Each batch of a file asks for spans again, and its times may lie in any year."""
    assert zone_spans("Europe/Paris", 10**9) is zone_spans("Europe/Paris", 10**9 + 1)
    assert zone_spans("Europe/Paris", 10**9) is not zone_spans("UTC", 10**9)
