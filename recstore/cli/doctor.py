"""`recstore doctor`: whether stores can be shared on this machine or in this container or job, and the remedies.

The checks are in doctor_checks (memory) and doctor_process (processes, logins, files left behind). Each gives a
Finding. They ask a System, so that tests can describe any machine.
"""

import dataclasses
import shutil
import textwrap

from recstore.cli import doctor_checks, doctor_process
from recstore.cli.doctor_findings import VERDICTS
from recstore.cli.stores import Refused
from recstore.cli.text import to_json
from recstore.text import safe_text


def examine(system, folder=None):
    """The Findings about a System; `folder` is that of the named segments, RECSTORE_DIR or /dev/shm unless told."""
    checks = [*doctor_checks.CHECKS, *doctor_process.CHECKS]
    return [check(system) for check in checks] + [
        doctor_process.named_folder(system, folder),
        doctor_process.orphans(folder),
    ]


def worst(findings):
    """The gravest verdict of all."""
    return max((one.verdict for one in findings), key=VERDICTS.index, default="ok")


def run(system, folder=None, as_json=False):
    """Examine and print; 1 when there is a problem."""
    findings = examine(system, folder)
    if as_json:
        print(to_json({"verdict": worst(findings), "checks": [dataclasses.asdict(one) for one in findings]}))
    else:
        width = max(80, min(shutil.get_terminal_size((120, 24)).columns, 140))
        print("\n".join(line for one in findings for line in lines(one, width)))
        print()
        print(summary(findings))
    return 1 if worst(findings) == "problem" else 0


def post_mortem(system, path, as_json=False):
    """Print what the log of a monitored run says about its end; 0. Raises OSError, or Refused for a file that is
    no log."""
    from recstore.monitor import post_mortem

    try:
        run = post_mortem.read(path)
    except ValueError as error:
        raise Refused(str(error)) from None
    report = post_mortem.examine(run, _events_now(system, run))
    print(to_json(report) if as_json else post_mortem.text(report))
    return 0


def _events_now(system, run):
    """{name: count} of the memory events of the run's cgroup as they are now; empty where it is gone or on another
    host."""
    import os
    import platform

    from recstore.monitor import cgroup

    start = run.start or {}
    source = start.get("limit_from")
    if not source or start.get("host") != platform.node():
        return {}
    folder = os.path.normpath(os.path.dirname(source))
    mount = system.mount_of(folder)
    if mount is None or not mount.kind.startswith("cgroup"):
        return {}  # the log names the folder, and any file may lie elsewhere
    files = (f"{folder}/{name}" for name in ("memory.events", "memory.oom_control"))
    return next(filter(None, (cgroup.fields(system.read, path) for path in files)), {})


def lines(finding, width):
    """A Finding as text; the command to copy is never broken."""
    head = f"{finding.verdict:<8} {finding.check:<15} "
    indent = " " * len(head)
    why = textwrap.wrap(
        safe_text(finding.why), width, initial_indent=head, subsequent_indent=indent, break_on_hyphens=False
    )
    return why + ([f"{indent}{safe_text(finding.mend)}"] if finding.mend else [])


def summary(findings):
    """One line at the end."""
    counts = {verdict: sum(one.verdict == verdict for one in findings) for verdict in VERDICTS}
    said = [f"{n} {verdict}{'s' if n > 1 else ''}" for verdict, n in reversed(counts.items()) if n and verdict != "ok"]
    return ", ".join(said) if said else f"all {len(findings)} checks ok"
