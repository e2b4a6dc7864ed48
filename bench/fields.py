"""The suite `fields`: reads of one field, against rivals that decode the whole record, and a field of all records to
numpy. Views are made once, outside the loop.
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
    """{name: (loop, container)}, without rivals that raise Absent."""
    import recstore

    store = recstore.RecordList(resident)
    containers = {
        "list": (_spin_item, resident),
        "recstore": (_spin_item, store),
        "recstore lazy": (_spin_item, store.lazy()),
        "recstore field": (_spin_view, store.field(FIELD)),
    }
    for rival in (rivals.Msgspec, rivals.Marshal, rivals.NumpyPickle):
        try:
            containers[rival.name] = _spin_item, rival.build(resident)
        except rivals.Absent:
            continue
    return containers


def check(containers, resident):
    """Raises WrongAnswer unless all containers return the same field of a sample of records."""
    for index in range(0, len(resident), max(1, len(resident) // 2000)):
        for name, (spin, container) in containers.items():
            value = container[index][FIELD] if spin is _spin_item else container[index]
            if value != resident[index][FIELD] or repr(value) != repr(resident[index][FIELD]):
                raise measures.WrongAnswer(f"{name} returns a different {FIELD} at {index}")


def measure(dataset, quick, log):
    """Rows of ns per field, and the ratio to msgspec's time for the whole record in the same run."""
    resident = list(dataset.fresh())
    log(f"{dataset.name}: building for fields")
    containers = ways(resident)
    check(containers, resident)
    rows = []
    for kind, order in measures.orders(len(dataset), 5_000 if quick else 50_000).items():
        log(f"{dataset.name}: timing {kind} reads of {FIELD}")
        timings = {name: [] for name in containers}
        gc.collect()
        for _ in range(3 if quick else 15):
            empty = measures.clock(measures.spin_empty, order)
            for name, (spin, container) in containers.items():
                timings[name].append((measures.clock(spin, container, order) - empty) / len(order))
        base = timings.get("msgspec")
        for name, times in timings.items():
            rows.append(
                {
                    "data": dataset.name,
                    "reads": kind,
                    "rival": name,
                    "min_ns": min(times),
                    "median_ns": statistics.median(times),
                    "of_msgspec": min(times) / min(base) if base else None,
                    "of_msgspec_by_round": statistics.median(a / b for a, b in zip(times, base, strict=True))
                    if base
                    else None,
                }
            )
    return rows


# ---- A field of all records to numpy ----

COLUMNS = (("coco", "category_id"), ("coco", "area"), ("coco", "bbox"), ("commonvoice", "sentence"))


def arrays(dataset, names, quick, log):
    """Rows of ns per record for `to_numpy`, comprehensions over store and list, and a memcpy as long as the heap."""
    import numpy

    import recstore

    resident = list(dataset.fresh())
    log(f"{dataset.name}: building for arrays")
    store = recstore.RecordList(resident)
    heap = store.info().sections["heap"]
    source, target = numpy.ones(heap, numpy.uint8), numpy.zeros(heap, numpy.uint8)
    rows = []
    for name in names:
        log(f"{dataset.name}: field {name} to numpy")
        field = store.field(name)
        column, dtype = field.to_numpy(), field.to_numpy([0]).dtype
        if column.tolist() != [record[name] for record in resident]:
            raise measures.WrongAnswer(f"to_numpy returns a different {name}")
        calls = {
            "to_numpy": field.to_numpy,
            "comprehension": lambda name=name, dtype=dtype: numpy.array([record[name] for record in store], dtype),
            "comprehension over list": lambda name=name, dtype=dtype: numpy.array(
                [record[name] for record in resident], dtype
            ),
            "memcpy of the heap": lambda: numpy.copyto(target, source),
        }
        timings = {way: [] for way in calls}
        gc.collect()
        for _ in range(3 if quick else 7):
            for way, call in calls.items():
                timings[way].append(measures.clock(call) / len(resident))
        for way, times in timings.items():
            rows.append(
                {
                    "data": dataset.name,
                    "field": name,
                    "rival": way,
                    "median_ns": statistics.median(times),
                    "of_memcpy": measures.ratio(times, timings["memcpy of the heap"]),
                    "times_comprehension": measures.ratio(timings["comprehension"], times),
                    "heap_bytes_per_record": heap / len(resident),
                }
            )
    return rows
