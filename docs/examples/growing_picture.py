"""Draws the memory of growing.py with a list and with a RecordList, from the log of `recstore monitor`. It takes about
three minutes and 2 GB of memory, and needs torch and matplotlib:

    python growing_picture.py growing.png
"""

import os
import subprocess
import sys
import tempfile

from recstore.monitor import log, series

KINDS = {"list": "samples = list(...)", "recordlist": "samples = RecordList(...)"}
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "growing.py")


def monitor_log(kind, folder, arguments):
    """Run the program under the monitor, and return the monitor's log."""
    path = os.path.join(folder, f"{kind}.jsonl")
    monitor = [sys.executable, "-m", "recstore.cli.main", "monitor", "--interval", "0.5", "--log", path, "--"]
    subprocess.run([*monitor, sys.executable, PROGRAM, kind, *arguments], check=True, stderr=subprocess.DEVNULL)
    return log.read(path)


def sizes(process, times):
    """The PSS of a process in MB at each time, 0 outside its lifetime. The monitor does not measure every process at
    every sample, so values between two measurements are interpolated."""
    import numpy

    alive = [process.times[0] <= t <= process.times[-1] for t in times]
    return numpy.interp(times, *process.series("pss")) / 1e6 * alive


def draw(runs, path):
    """A panel for each run, with the PSS of its processes stacked, so that the height is the memory of the job."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt
    import numpy

    figure, panels = plt.subplots(1, len(runs), figsize=(10, 4), sharey=True, layout="constrained")
    for panel, (kind, run) in zip(panels, runs.items()):
        processes = [process for process in series.processes(run.samples) if process.series("pss")[0]]
        times = [sample["t"] for sample in run.samples]
        layers = [sizes(process, times) for process in processes]
        colours = ["#9a9a9a", *plt.colormaps["YlOrBr"](numpy.linspace(0.35, 0.75, max(1, len(processes) - 1)))]
        labels = [process.label for process in processes]
        panel.stackplot([t - times[0] for t in times], *layers, labels=labels, colors=colours)
        panel.set_title(KINDS[kind], family="monospace", fontsize=11)
        panel.set_xlabel("seconds")
        panel.grid(axis="y", alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("PSS, MB")
    panels[1].legend(loc="upper right", fontsize=9, reverse=True, frameon=False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(path="growing.png", *arguments):
    with tempfile.TemporaryDirectory() as folder:
        runs = {kind: monitor_log(kind, folder, arguments) for kind in KINDS}
    draw(runs, path)
    for kind, run in runs.items():
        print(f"{kind}: at most {max(filter(None, map(series.level, run.samples))) / 1e6:,.0f} MB")


if __name__ == "__main__":
    main(*sys.argv[1:])
