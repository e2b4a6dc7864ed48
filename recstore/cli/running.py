"""Trials in processes of their own, and what is shown meanwhile: what `recstore demo` and `recstore bench` share."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile

from recstore.cli import trial
from recstore.text import safe_text


class TrialError(Exception):
    """What the user is told in one line."""


def run_trial(shown, label, task):
    """Run one task in a process of its own, draw its progress, give its result."""
    process = subprocess.Popen(trial.launch(task), stdout=subprocess.PIPE, text=True)
    result = None
    shown.begin(label)
    try:
        for line in process.stdout:
            message = json.loads(line)
            if "stage" in message:
                shown.stage(f"{label}: {message['stage']}", message["of"])
            elif "done" in message:
                shown.advance(message["done"])
            elif "error" in message:
                raise TrialError(message["error"])
            else:
                result = message["result"]
        process.wait()
    finally:
        _end(process)
        shown.end()
    if result is None:
        raise TrialError(f"{label}: the process that measures ended with exit code {process.returncode}")
    return result


def _end(process):
    """Leave no process behind: the trial ends its own workers when it is terminated."""
    process.stdout.close()
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class _PlainBars:
    """What is shown without rich: a line for each stage."""

    def __enter__(self):
        print("(progress bars: pip install 'recstore[cli]')", file=sys.stderr)
        return self

    def __exit__(self, *_):
        pass

    def begin(self, label):
        pass

    def stage(self, label, of):
        print(f"{label} ...", file=sys.stderr)

    def advance(self, count):
        pass

    def end(self):
        pass


class _RichBars(_PlainBars):
    """One bar for the stage that runs, gone when it ends."""

    def __enter__(self):
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._progress.start()
        self._task = None
        return self

    def __exit__(self, *_):
        self._progress.stop()

    def begin(self, label):
        self._task = self._progress.add_task(label, total=None)

    def stage(self, label, of):
        self._progress.remove_task(self._task)
        self._task = self._progress.add_task(label, total=of)

    def advance(self, count):
        self._progress.advance(self._task, count)

    def end(self):
        self._progress.remove_task(self._task)


def measured(command, measure):
    """Run `measure(shown, pool)`, with what shows the progress of its trials and a path for their records. Its result
    and 0, or None and the exit status after what went wrong was printed."""
    # So that a terminated command, like an interrupted one, ends its trials first.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        shown = _RichBars() if importlib.util.find_spec("rich") else _PlainBars()
        with tempfile.TemporaryDirectory(prefix=f"recstore-{command}-") as folder, shown:
            return measure(shown, os.path.join(folder, "pool")), 0
    except TrialError as error:
        print(f"recstore {command}: {safe_text(str(error))}", file=sys.stderr)
        return None, 1
    except KeyboardInterrupt:
        print(f"recstore {command}: interrupted, all workers ended", file=sys.stderr)
        return None, 130
