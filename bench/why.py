"""Prints the forms that a build considers for a field, with their sizes: `python bench/why.py FILE FIELD`.

It plans the records of the store again and discards the result.
"""

import dataclasses
import sys

import recstore
from recstore._core import native, trust
from recstore.shm import file_backing
from recstore.text import an, counted, table


@dataclasses.dataclass(frozen=True)
class Weighed:
    """One form that the planner considered for one kind of value of a field, summed over blocks. Blocks in
    which all values fit the form are summed apart from the others.

    Attributes:
        part: "value" for the field itself, "element" for the elements of its lists, tuples and objects.
        values: the kind of the values, named after the node that stores them plainly.
        form: the node, and for a list also the node of its elements, as in "list of decimal".
        bits: the size of all these values in this form, including values that do not fit it. For symbols this is an
            estimate from typical text: the symbol table is trained after the choice, and dropped if it saves nothing.
        count: the number of values.
        fits: the number of values that fit the node. The others use a second node in a union.
        blocks: the number of blocks that considered the form.
        chosen: the number of blocks that chose it.
    """

    part: str
    values: str
    form: str
    bits: int
    count: int
    fits: int
    blocks: int
    chosen: int


@dataclasses.dataclass(frozen=True)
class Why:
    """All forms that the planner considered for a field.

    Attributes:
        field: the field. If the store keeps it inside a repeated or constant value, the enclosing field.
        asked: the requested field.
        records, blocks: the number of records and blocks.
        forms: a tuple of Weighed, by part and kind of value, the smallest form first.
    """

    field: str
    asked: str
    records: int
    blocks: int
    forms: tuple

    def __str__(self):
        lines = [
            f"{self.field or 'the records'}: forms considered in {counted(self.blocks, 'block')} of "
            f"{counted(self.records, 'record')}"
        ]
        if self.field != self.asked:
            around = self.field or "the whole record"
            lines.append(f"{self.asked} is stored as a part of {around}, without a choice of its own")
        rows = [("part", "values", "form", "bits", "a value", "fit", "blocks", "chosen")]
        for weighed in self.forms:
            bits_per_value = weighed.bits / weighed.count if weighed.count else 0.0
            fit = f"{weighed.fits / weighed.count:.1%}" if weighed.count else ""
            chosen = (
                "" if not weighed.chosen else "chosen" if weighed.chosen == weighed.blocks else f"in {weighed.chosen:,}"
            )
            form = weighed.form + (" (estimate)" if weighed.form == "symbols" else "")
            rows.append(
                (
                    weighed.part,
                    weighed.values,
                    form,
                    f"{weighed.bits:,}",
                    f"{bits_per_value:.2f}",
                    fit,
                    f"{weighed.blocks:,}",
                    chosen,
                )
            )
        lines.append(table(rows, "<<<>>>><"))
        return "\n".join(lines)


def why(records, field, compression="auto"):
    """Plans `records` again and returns the Why of a field. Raises KeyError if no record has the field."""
    keys = _keys(field)
    log = native.PlanLog(keys)
    seen = _Seen(keys)
    builder = file_backing.new_builder(native.Builder, compression=(compression, (), log), writer=trust.Writer(True))
    try:
        builder.extend(seen.watched(records))
        builder.finish().close()  # the last blocks are planned here
    finally:
        builder.abort()
    if not seen.found:
        raise KeyError(f"none of {counted(seen.count, 'record')} has the field {field!r}{_hint(seen)}")
    entries = log.entries()
    reached = max((entry[1] for entry in entries), default=0)
    return Why(
        field=_name(keys[:reached]),
        asked=_name(keys),
        records=seen.count,
        blocks=len({entry[0] for entry in entries}),
        forms=_joined([entry for entry in entries if entry[1] == reached]),
    )


def _joined(entries):
    """The log entries as Weighed, summed over blocks."""
    groups = {}
    for block, _, depth, _, kind, form, chosen, values, fits, bits in entries:
        sums_by_form = groups.setdefault((min(depth, 1), kind), {})
        sums = sums_by_form.setdefault((form, fits < values), [0, 0, 0, set(), set()])
        for position, amount in enumerate((bits, values, fits)):
            sums[position] += amount
        sums[3].add(block)
        if chosen:
            sums[4].add(block)
    return tuple(
        Weighed("element" if depth else "value", kind, form, *figures, len(blocks), len(chosen_blocks))
        for (depth, kind), forms in sorted(groups.items(), key=lambda group: group[0][0])
        for (form, _), (*figures, blocks, chosen_blocks) in sorted(forms.items(), key=lambda sums: sums[1][0])
    )


class _Seen:
    """Counts the records of a stream, checks whether any has the field, and collects keys for the error."""

    def __init__(self, keys):
        self.keys, self.found, self.count, self.names = keys, not keys, 0, {}

    def watched(self, records):
        for record in records:
            self.count += 1
            if not self.found:
                self.found = _has(record, self.keys)
                if not self.found and isinstance(record, dict) and len(self.names) < 20:
                    self.names.update(dict.fromkeys(record))
            yield record


def _has(value, keys):
    if not keys:
        return True
    if isinstance(value, dict):
        return keys[0] in value and _has(value[keys[0]], keys[1:])
    return isinstance(value, (list, tuple)) and any(_has(item, keys) for item in value)


def _keys(field):
    """The keys of a field, from a tuple of keys or a str with dots; ``[]`` after the name of a list is optional."""
    if isinstance(field, str):
        return tuple(part.removesuffix("[]") for part in field.split(".")) if field else ()
    if isinstance(field, tuple):
        return field
    raise TypeError(f"a field is a str or a tuple of keys, not {an(type(field).__name__)}")


def _name(keys):
    return ".".join(str(key) for key in keys)


def _hint(seen):
    names = ", ".join(str(name) for name in list(seen.names)[:20])
    return f"; they have {names}" if names else "; they have no keys"


if __name__ == "__main__":
    with recstore.open(sys.argv[1]) as store:
        print(why(store.values() if isinstance(store, recstore.RecordDict) else store, sys.argv[2]))
