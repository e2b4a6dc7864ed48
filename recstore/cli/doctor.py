"""`recstore doctor`: checks whether this machine, container or job can share stores, and gives remedies.

The checks are in doctor_checks (memory) and doctor_process (processes, logins, files left behind). Each returns a
Finding. They read facts about the machine from a System, so that tests can describe any machine.
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
    """Runs all checks: {check: Finding}. `folder` holds the named segments (default: RECSTORE_DIR or /dev/shm)."""
    findings = {name: check(system) for name, check in (doctor_checks.CHECKS | doctor_process.CHECKS).items()}
    findings["named stores"] = doctor_process.named_folder(system, folder)
    findings["caches"] = doctor_process.caches(folder)
    findings["orphans"] = doctor_process.orphans(folder)
    return findings


def run(system: System, folder: str | None = None, as_json: bool = False) -> int:
    """Runs all checks and prints their findings. The exit status is 1 if a check finds a problem."""
    findings = examine(system, folder)
    worst = max((finding.verdict for finding in findings.values()), key=VERDICTS.index)
    checks = [{"check": name, **dataclasses.asdict(finding)} for name, finding in findings.items()]
    width = max(80, min(shutil.get_terminal_size((120, 24)).columns, 140))
    lines = [line for name, finding in findings.items() for line in _lines(name, finding, width)]
    show(as_json, {"verdict": worst, "checks": checks}, "\n".join([*lines, "", _summary(findings)]))
    return 1 if worst == "problem" else 0


def post_mortem(system: System, path: str, as_json: bool = False) -> int:
    """Prints how a monitored run ended, from its log; returns 0. Raises OSError, or Refused if `path` is not a log."""
    from recstore.monitor import post_mortem

    try:
        run = post_mortem.read(path)
    except ValueError as error:
        raise Refused(str(error)) from None
    report = post_mortem.examine(run, _events_now(system, run))
    return show(as_json, report, post_mortem.text(report))


def _events_now(system: System, run: Run) -> dict[str, int]:
    """{name: count}: the memory events of the run's cgroup now; empty if the cgroup is gone or on another host."""
    from recstore.monitor import cgroup

    start = run.start or {}
    source = start.get("limit_from")
    if not source or start.get("host") != platform.node():
        return {}
    folder = os.path.normpath(os.path.dirname(source))
    mount = system.mount_of(folder)
    if mount is None or not mount.kind.startswith("cgroup"):
        return {}  # the log may name any folder
    files = (f"{folder}/{name}" for name in ("memory.events", "memory.oom_control"))
    return next(filter(None, (cgroup.fields(system.read, path) for path in files)), {})


def _lines(check: str, finding: Finding, width: int) -> list[str]:
    """A Finding as lines of text; does not wrap the remedy, so that a command can be copied."""
    head = f"{finding.verdict:<8} {check:<15} "
    indent = " " * len(head)
    lines = textwrap.wrap(
        safe_text(finding.why), width, initial_indent=head, subsequent_indent=indent, break_on_hyphens=False
    )
    return lines + ([f"{indent}{safe_text(finding.mend)}"] if finding.mend else [])


def _summary(findings: dict[str, Finding]) -> str:
    """The last line."""
    verdicts = [finding.verdict for finding in findings.values()]
    counts = {verdict: verdicts.count(verdict) for verdict in ("problem", "warning")}
    parts = [counted(n, verdict) for verdict, n in counts.items() if n]
    return ", ".join(parts) or f"all {len(findings)} checks ok"
