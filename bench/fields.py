"""One field of a record: what reading it lazily takes, against rivals that decode the whole record for it.

`measure` gives rows for a table, as the suites of measures.py do; the protocol is theirs. Views are made once, outside the loop.
"""

import gc
import statistics

import measures
import rivals

FIELD = "bbox"


def _spin_item(container, order):
    for index in order:
        container[index][FIELD]


def _spin_view(container, order):
    for index in order:
        container[index]


def ways(resident):
    """{name: (spin, container)}: each gives the same field; Missing rivals are left out."""
    import recstore

    store = recstore.RecordList(resident)
    found = {
        "list": (_spin_item, resident),
        "recstore": (_spin_item, store),
        "recstore lazy": (_spin_item, store.lazy()),
        "recstore field": (_spin_view, store.field(FIELD)),
    }
    for rival in (rivals.Msgspec, rivals.Marshal, rivals.NumpyPickle):
        try:
            found[rival.name] = _spin_item, rival.build(resident)
        except rivals.Absent:
            continue
    return found


def check(found, resident):
    """The same answers, before anything is timed."""
    for index in range(0, len(resident), max(1, len(resident) // 2000)):
        for name, (spin, container) in found.items():
            value = container[index][FIELD] if spin is _spin_item else container[index]
            if value != resident[index][FIELD] or repr(value) != repr(resident[index][FIELD]):
                raise measures.WrongAnswer(f"{name} gives another {FIELD} at {index}")


def measure(dataset, quick, log):
    """ns a field, and the share of it in what msgspec takes for the whole record, in the same run."""
    resident = list(dataset.fresh())
    log(f"{dataset.name}: building for fields")
    found = ways(resident)
    check(found, resident)
    rows = []
    for kind, order in measures.orders(len(dataset), 5_000 if quick else 50_000).items():
        log(f"{dataset.name}: timing {kind} reads of {FIELD}")
        taken = {name: [] for name in found}
        gc.collect()
        for _ in range(3 if quick else 15):
            empty = measures._clock(measures._spin_empty, order)
            for name, (spin, container) in found.items():
                taken[name].append((measures._clock(spin, container, order) - empty) / len(order))
        base = taken.get("msgspec")
        for name, times in taken.items():
            rows.append(
                {
                    "data": dataset.name,
                    "reads": kind,
                    "rival": name,
                    "min_ns": min(times),
                    "median_ns": statistics.median(times),
                    "of_msgspec": min(times) / min(base) if base else None,
                    "of_msgspec_by_round": statistics.median(a / b for a, b in zip(times, base, strict=True)) if base else None,
                }
            )
    return rows
