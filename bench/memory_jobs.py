"""The measurements that need a fresh process.

`start` runs `python memory_jobs.py JOB JSON`, which prints its result in the last line, as JSON.
"""

import gc
import json
import os
import statistics
import subprocess
import sys
import time

# At the top, because spawned workers import this main module; rivals then costs the same in every job.
import rivals

HERE = os.path.dirname(os.path.abspath(__file__))


def start(job, **arguments):
    """Runs a job in a fresh interpreter and returns its result. Raises RuntimeError if it fails."""
    command = [sys.executable, os.path.join(HERE, "memory_jobs.py"), job, json.dumps(arguments)]
    process = subprocess.run(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "RECSTORE_PICKLE": "allow"})
    if process.returncode:
        raise RuntimeError(f"{job} ended with exit code {process.returncode}")
    return json.loads(process.stdout.splitlines()[-1])


def job_build(name, quick, most, source, way):
    """Peak memory of a build, above the memory before it, from a list or from a stream."""
    import itertools

    import builds
    import data

    from recstore.shm import process_memory

    call = builds.ways(None)[way]
    call([{"a": 1}])  # for its imports
    records = itertools.islice(data.load(name, quick).fresh(), most)
    if source == "list":
        records = list(records)
    gc.collect()
    known = process_memory.segments()
    exact = process_memory.reset_peak_rss()
    before = process_memory.usage()
    store = call(records)
    peak = process_memory.peak_rss()
    own_segments = {key: size for key, size in process_memory.segments().items() if key not in known}
    size = getattr(store, "nbytes", len(store))
    # The builder writes without mapping, so RSS has only pages of the segment that were read.
    hidden = (
        process_memory.unmapped(own_segments, [os.getpid()])
        if own_segments
        else size
        if way.startswith("recstore")
        else 0
    )
    return {
        "data": name,
        "from": source,
        "way": way,
        "store": size,
        "peak_over_before": peak - before.rss + hidden if exact and before else None,
        "peak_beyond_store": peak - before.rss + hidden - size if exact and before else None,
        "kept_after": process_memory.usage().uss - before.uss if before else None,
    }


def job_handle(count, starts):
    """Bytes of a handle, and the time to unpickle it in this process and in fresh ones."""
    import names

    import recstore

    store = recstore.RecordList(f"/data/imagenet/train/n{n % 1000:08d}/n{n % 1000:08d}_{n}.JPEG" for n in range(count))
    return {"records": count, **names.by_handle(store, starts)}


def job_billion(count):
    """The row of the suite `billion`."""
    import billion

    return billion.job(count)


def job_scale(**arguments):
    """A row of the suite `scale`."""
    import scale

    return scale.job(**arguments)


def job_import(starts):
    """The USS that `import recstore` adds, in several fresh interpreters."""
    # process_memory is loaded by path, because importing it from recstore would import recstore before the measurement.
    code = (
        "import importlib.util, sys\n"
        "spec = importlib.util.spec_from_file_location('memory', sys.argv[1])\n"
        "memory = importlib.util.module_from_spec(spec); spec.loader.exec_module(memory)\n"
        "memory.usage(); before = memory.usage().uss\n"
        "import recstore\n"
        "print(memory.usage().uss - before)\n"
    )
    from importlib.util import find_spec

    path = find_spec("recstore.shm.process_memory").origin
    added = []
    for _ in range(starts):
        process = subprocess.run([sys.executable, "-c", code, path], cwd=HERE, stdout=subprocess.PIPE, check=True)
        added.append(int(process.stdout))
    return {"starts": starts, "uss_added_median": statistics.median(added), "uss_added_max": max(added)}


def job_workers(name, quick, method, container, workers):
    """A full pass in every worker over one of CONTAINERS."""
    import data

    from recstore.cli.workers import full_pass
    from recstore.shm import process_memory

    dataset = data.load(name, quick)
    known = process_memory.segments()
    gc.collect()
    before = process_memory.usage()
    records = _container(container, dataset)
    del dataset
    gc.collect()
    after = process_memory.usage()
    own_segments = {key: size for key, size in process_memory.segments().items() if key not in known}
    result = full_pass(records, method, workers, own_segments)
    result.update(
        container=container,
        method=method,
        records=len(records),
        store=getattr(records, "nbytes", 0),
        parent_kept=after.uss - before.uss if before else None,
    )
    return result


def _container(container, dataset):
    import recstore

    if container == "stub":
        return rivals.Stub(dataset)
    if container == "list":
        return list(dataset.fresh())
    if container == "numpy+pickle":
        return rivals.NumpyPickle.build(dataset.fresh())
    if container == "recstore from a list":
        records = list(dataset.fresh())
        store = recstore.RecordList(records)
        # Memory of these records that the interpreter keeps is part of the result.
        del records
        return store
    return recstore.RecordList(dataset.fresh())


def job_arrow_in(**arguments):
    """Peak memory of a build from a stream of Arrow batches."""
    import arrow_in

    return arrow_in.job(**arguments)


def job_readers(**arguments):
    """Reads a file in one of the ways of the suite `readers`."""
    import readers

    return readers.job(**arguments)


def job_ranks(**arguments):
    """A row of the suite `ranks`."""
    import ranks

    return ranks.job(**arguments)


def job_rank(**arguments):
    """One rank of the suite `ranks`."""
    import ranks

    return ranks.rank(**arguments)


def job_speech(**arguments):
    """Like job_workers, over a speech Dataset."""
    import speech

    return speech.job(**arguments)


CONTAINERS = ("stub", "recstore from a generator", "recstore from a list", "numpy+pickle", "list")


def compare_workers(rows):
    """Adds the largest USS above the stub's to each row, and its total relative to the stub's total plus the store."""
    for row in rows:
        stub = next(other for other in rows if other["container"] == "stub" and other["method"] == row["method"])
        if None in row["uss"] or row["total"] is None:
            continue
        measured, baseline = sorted(row["uss"]), sorted(stub["uss"])
        row["uss_over_stub_max"] = max(size - of_stub for size, of_stub in zip(measured, baseline, strict=True))
        row["total_ratio"] = row["total"] / (stub["total"] + row["store"])
    return rows


def job_views(name, quick):
    """Build times and sizes of index_by("id") and group_by("image_id"): the bytes of blobs, and process growth."""
    import data

    import recstore
    from recstore.shm import process_memory

    x = recstore.RecordList(data.load(name, quick).fresh())
    # Imports and free lists must not count toward the measured indexes.
    with recstore.RecordList([{"id": 1, "image_id": 2}]) as warmup:
        len(warmup.index_by("id")), len(warmup.group_by("image_id"))
    gc.collect()
    mapped = set(process_memory.segments())
    before = _anonymous()
    begin = time.perf_counter()
    by_id = x.index_by("id")
    middle = time.perf_counter()
    by_image = x.group_by("image_id")
    end = time.perf_counter()
    gc.collect()
    after = _anonymous()
    if set(process_memory.segments()) != mapped or by_id.segments != x.segments or by_image.segments != x.segments:
        raise AssertionError("an index has made another segment")
    for i in range(0, len(x), max(1, len(x) // 500)):
        record = x[i]
        if by_id[record["id"]] != record or record not in by_image[record["image_id"]]:
            raise AssertionError(f"an index returns a different record than {i}")
    sizes = {id(blob): blob.size for index in (by_id, by_image) for blob in index.blobs}
    added = sum(sizes.values())
    return {
        "data": name,
        "records": len(x),
        "groups": len(by_image),
        "store": x.nbytes,
        "index_by_bytes_per_record": sum(blob.size for blob in by_id.blobs) / len(x),
        "group_by_bytes_per_record": sum(blob.size for blob in by_image.blobs) / len(x),
        "of_list": (x.nbytes + added) / x.nbytes,
        "of_list_by_process": (x.nbytes + after - before) / x.nbytes if before else None,
        "index_by_s": middle - begin,
        "group_by_s": end - middle,
    }


def _anonymous():
    """Anonymous memory of this process in bytes, which excludes the pages of a store. None outside Linux."""
    try:
        with open("/proc/self/smaps_rollup", encoding="ascii") as file:
            return next(1024 * int(line.split()[1]) for line in file if line.startswith("Anonymous:"))
    except (OSError, StopIteration):
        return None


def job_first_batch(**arguments):
    # A spawned worker imports the collate function from torch_first_batch.
    import torch_first_batch

    return torch_first_batch.job(**arguments)


JOBS = {
    "views": job_views,
    "build": job_build,
    "first_batch": job_first_batch,
    "handle": job_handle,
    "import": job_import,
    "rank": job_rank,
    "ranks": job_ranks,
    "scale": job_scale,
    "billion": job_billion,
    "arrow_in": job_arrow_in,
    "readers": job_readers,
    "speech": job_speech,
    "workers": job_workers,
}

if __name__ == "__main__":
    print(json.dumps(JOBS[sys.argv[1]](**json.loads(sys.argv[2]))))
