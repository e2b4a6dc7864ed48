"""`recstore doctor`: whether stores can be shared on this machine or in this container or job, and the remedies.

The checks are in doctor_checks (memory) and doctor_process (processes, logins, files left behind). Each gives a
Finding. They ask a System, so that tests can describe any machine.
"""

from __future__ import annotations

import dataclasses
import os
import platform
import shutil
import textwrap

from recstore.cli import doctor_checks, doctor_process
from recstore.cli.doctor_findings import VERDICTS
from recstore.cli.files import Refused
from recstore.cli.text import show
from recstore.text import counted, safe_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from recstore.cli.doctor_findings import Finding
    from recstore.cli.system import System
    from recstore.monitor.log import Run


def examine(system: System, folder: str | None = None) -> dict[str, Finding]:
    """{check: Finding} about a System; `folder` is that of the named segments, RECSTORE_DIR or /dev/shm unless told."""
    found = {name: check(system) for name, check in (doctor_checks.CHECKS | doctor_process.CHECKS).items()}
    found["named stores"] = doctor_process.named_folder(system, folder)
    found["orphans"] = doctor_process.orphans(folder)
    return found


def run(system: System, folder: str | None = None, as_json: bool = False) -> int:
    """Examine and print; 1 when there is a problem."""
    found = examine(system, folder)
    worst = max((one.verdict for one in found.values()), key=VERDICTS.index)
    checks = [{"check": name, **dataclasses.asdict(one)} for name, one in found.items()]
    width = max(80, min(shutil.get_terminal_size((120, 24)).columns, 140))
    lines = [line for name, one in found.items() for line in _lines(name, one, width)]
    show(as_json, {"verdict": worst, "checks": checks}, "\n".join([*lines, "", _summary(found)]))
    return 1 if worst == "problem" else 0


def post_mortem(system: System, path: str, as_json: bool = False) -> int:
    """Print what the log of a monitored run says about its end; 0. Raises OSError, or Refused for a file that is
    no log."""
    from recstore.monitor import post_mortem

    try:
        run = post_mortem.read(path)
    except ValueError as error:
        raise Refused(str(error)) from None
    report = post_mortem.examine(run, _events_now(system, run))
    return show(as_json, report, post_mortem.text(report))


def _events_now(system: System, run: Run) -> dict[str, int]:
    """{name: count} of the memory events of the run's cgroup as they are now; empty where it is gone or on another
    host."""
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


def _lines(check: str, finding: Finding, width: int) -> list[str]:
    """A Finding as text; the command to copy is never broken."""
    head = f"{finding.verdict:<8} {check:<15} "
    indent = " " * len(head)
    why = textwrap.wrap(
        safe_text(finding.why), width, initial_indent=head, subsequent_indent=indent, break_on_hyphens=False
    )
    return why + ([f"{indent}{safe_text(finding.mend)}"] if finding.mend else [])


def _summary(found: dict[str, Finding]) -> str:
    """One line at the end."""
    verdicts = [one.verdict for one in found.values()]
    counts = {verdict: verdicts.count(verdict) for verdict in ("problem", "warning")}
    said = [counted(n, verdict) for verdict, n in counts.items() if n]
    return ", ".join(said) or f"all {len(found)} checks ok"
