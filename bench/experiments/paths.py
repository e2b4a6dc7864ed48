"""A job as large as one in a public report: 7.65 million paths, 12 ranks with 16 workers each.

The report is https://github.com/mlcommons/storage/issues/449: in a storage benchmark, each rank lists the files and
sends the list to its workers. The job is the same as in the suite `ranks` (../ranks.py). With a list, the job
does not fit a small machine, so one rank with two workers is measured and extrapolated.
"""

import memory_jobs
import ranks

RANKS, WORKERS = 12, 16
METHODS = ("spawn", "fork")


def measure(method, quick):
    """The rows of a start method: the stub and recstore with all workers; with spawn also the list, extrapolated."""
    rank_count, worker_count = (2, 2) if quick else (RANKS, WORKERS)
    path, count = ranks.ready("listing", quick)
    arguments = {"source": "listing", "path": path, "count": count, "method": method}
    rows = []
    jobs = [("stub", rank_count, worker_count), ("recstore", rank_count, worker_count)]
    if method == "spawn":  # under fork, a worker copies only the pages that it reads
        jobs.append(("list", 1, 2))
    for container, ranks_run, workers_run in jobs:
        row = memory_jobs.start("ranks", container=container, ranks=ranks_run, workers=workers_run, **arguments)
        rows.append({"experiment": "paths", "method": method, **row})
    for row in rows:
        if row["container"] == "list":
            row["all_ranks"] = extrapolated(row, rank_count, worker_count)
        elif row["total"] is not None:
            row["over_stub"] = row["total"] - rows[0]["total"]
    return rows


def extrapolated(row, rank_count, worker_count):
    """The memory of all ranks and workers with a list, extrapolated from one rank and its workers."""
    if row["rank_uss_max"] is None or row["worker_uss_max"] is None:
        return None
    return rank_count * (row["rank_uss_max"] + worker_count * row["worker_uss_max"])
