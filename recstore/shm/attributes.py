"""The attributes of a store: facts about all its records, such as the names of classes. They are a JSON object under
the key "attributes" in the LABEL section (csrc/FORMAT.md)."""

from __future__ import annotations

from recstore.shm.named_segments import Label

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from recstore._core.native import Segment

_MOST = 512 << 10  # bytes; a label of more than 1 MiB is not read
_MISSING = object()


def pack(attributes: Mapping[str, Any]) -> tuple[int, bytes]:
    """`(number of pairs, bytes)` for Builder.annotate. Raises ValueError for more than 512 KiB and for a NaN or
    infinity, TypeError for other values that JSON cannot hold."""
    import json

    text = json.dumps(attributes, allow_nan=False, separators=(",", ":"))
    if len(text) > _MOST:
        raise ValueError(
            f"the attributes {', '.join(attributes)} take {len(text):,} bytes, more than {_MOST:,}: keep a long list "
            "in its own store"
        )
    return Label(attributes=text).pack()


def of(segments: Iterable[Segment], more: Iterable[dict[str, Any]] = ()) -> dict[str, Any]:
    """The attributes that all these open segments and the dicts `more` have in common, as a new dict."""
    first, *others = [*(_of_segment(segment) for segment in dict.fromkeys(segments)), *more] or [{}]
    return {name: value for name, value in first.items() if all(other.get(name, _MISSING) == value for other in others)}


def _of_segment(segment: Segment) -> dict[str, Any]:
    label = Label.of(segment)
    text = None if label is None else dict.get(label, "attributes")
    if not text:
        return {}
    import json

    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if type(value) is dict else {}
