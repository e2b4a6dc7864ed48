"""The offsets of time zones around a time, for the core's conversion of Arrow timestamps to datetimes."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from functools import lru_cache

from recstore.errors import InputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import tzinfo
    from typing import Any, TypeAlias

    Span: TypeAlias = tuple[int, int, int, int]  # begin, end, offset, fold

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_FIRST, _LAST = -62_135_596_800, 253_402_300_799  # the range of datetime, in seconds from 1970, UTC
_DAY = 86_400
_DAYS = 64  # in one result, so that a few results cover most timestamps


def zone_spans(name: str, utc_s: int) -> tuple[Span, ...]:
    """The spans of the days around a time: a tuple of `(begin, end, offset, fold)`, in seconds; `end` is exclusive.
    `utc_s` counts from 1970, in UTC.

    Raises InputError for a zone that this system does not know.
    """
    return _spans(name, utc_s - utc_s % (_DAYS * _DAY))


@lru_cache(maxsize=1 << 12)
def _spans(name: str, begin: int) -> tuple[Span, ...]:
    spans: list[tuple[int, int, tuple[int, int]]]
    zone, spans = _zone(name), []
    for day in range(begin, begin + _DAYS * _DAY, _DAY):
        _add_day(spans, zone, day)
    return tuple((start, end, *state) for start, end, state in spans)


def _zone(name: str) -> tzinfo:
    import zoneinfo

    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise InputError(
            f"this system does not know the time zone {name!r:.80}: pip install tzdata, or cast the column to another "
            "zone"
        ) from None


def _add_day(spans: list[tuple[int, int, tuple[int, int]]], zone: tzinfo, begin: int) -> None:
    """Appends the spans of one day. Offsets change at whole seconds, and not back within a day. So a day that begins
    and ends with the same offset is one span, and bisection finds each change in the other days."""
    end = begin + _DAY
    while begin < end:
        state, low, high = _state(zone, begin), begin, end
        if _state(zone, end) != state:
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if _state(zone, middle) == state else (low, middle)
        if spans and spans[-1][2] == state:
            spans[-1] = (spans[-1][0], high, state)
        else:
            spans.append((begin, high, state))
        begin = high


def _state(zone: tzinfo, utc_s: int) -> tuple[int, int]:
    """`(offset, fold)` at a time. The first and last day of datetime have the offset of the day beside them, because
    their local times may be out of range."""
    utc_s = min(max(utc_s, _FIRST + _DAY), _LAST - _DAY)
    local = (_EPOCH + timedelta(seconds=utc_s)).astimezone(zone)
    offset: Any = local.utcoffset()
    return offset // timedelta(seconds=1), local.fold
