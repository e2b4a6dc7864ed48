"""Labels the processes of a job: the main process, ranks, workers, fork servers and resource trackers.

The rank comes from the initial environment of a process, the role from its command and name. Workers are numbered in
start order. Numbers are reused when a process ends, so the workers of each epoch have the same numbers.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from recstore.monitor.processes import Member, Proc, Tree

# The variables where launchers store the rank; the last is the rank within the machine.
_RANKS = (b"RANK", b"SLURM_PROCID", b"OMPI_COMM_WORLD_RANK", b"PMI_RANK", b"PMIX_RANK", b"LOCAL_RANK")
_LOOKS = 3


def refresh(tree: Tree, joined: Iterable[Member]) -> None:
    """Label the members of a Tree that are new, have a new name, or may still call exec."""
    new = set(joined)
    for member in list(tree.members.values()):
        if member in new or member.looks < _LOOKS or member.named_as != member.stat.name:
            _name(tree, member)


def _name(tree: Tree, member: Member) -> None:
    member.named_as = member.stat.name
    try:
        command = tree.proc.command(member.pid)
    except OSError:
        command = []
    if member.command and not command:
        return  # it is about to end: its memory, with the command, is already free
    if member.looks and command == member.command and member.role != "process":
        member.looks += 1
        return
    member.looks += 1
    member.command = command
    member.rank = _rank(tree.proc, member)
    owner = member.owner
    member.forked = owner is not None and bool(command) and command == owner.command
    role = _role(tree, member)
    if role != "worker":
        member.worker = None
    elif member.role != "worker" or member.worker is None:
        member.worker = _free_number(tree, member)
    member.role = role
    member.label = _label(member)


def _rank(proc: Proc, member: Member) -> int | None:
    try:
        environ = proc.environ(member.pid)
    except OSError:
        environ = {}
    for name in _RANKS:
        value = environ.get(name, b"")
        # srun sets SLURM_PROCID for a single task too, which is not a rank.
        if value.isdigit() and not (name == b"SLURM_PROCID" and environ.get(b"SLURM_NTASKS") == b"1"):
            return int(value)
    return member.owner.rank if member.owner is not None else None


def _role(tree: Tree, member: Member) -> str:
    owner = member.owner
    if member.rank is not None and (owner is None or owner.rank != member.rank):
        return "rank"
    if member.pid == tree.root:
        return "main"
    text = b" ".join(member.command[1:])
    if b"resource_tracker" in text or b"semaphore_tracker" in text:
        return "resource tracker"
    if b"multiprocessing.forkserver" in text and not member.forked:
        return "fork server"
    if b"--multiprocessing-fork" in text or b"popen_loky" in text or member.stat.name.startswith(b"pt_data_worker"):
        return "worker"
    return "worker" if member.forked and _is_python(member.command) else "process"


def _is_python(command: Sequence[bytes]) -> bool:
    return os.path.basename(command[0]).startswith((b"python", b"pypy"))


def _master(member: Member) -> Member | None:
    """The owner of a member; for the child of a fork server, the owner of the fork server."""
    owner = member.owner
    while owner is not None and owner.role == "fork server":
        owner = owner.owner
    return owner


def _prefix(member: Member) -> str:
    """The prefix of a label: the label of the rank or worker that the member belongs to."""
    master = _master(member)
    while master is not None and master.role not in ("rank", "worker"):
        master = master.owner
    if master is None:
        return "" if member.rank is None else f"rank {member.rank} "
    return f"{master.label} "


def _free_number(tree: Tree, member: Member) -> int:
    prefix = _prefix(member)
    used = {
        other.worker
        for other in tree.members.values()
        if other is not member and other.role == "worker" and other.worker is not None and _prefix(other) == prefix
    }
    return next(number for number in range(len(used) + 1) if number not in used)


def _label(member: Member) -> str:
    if member.role == "main":
        return "main"
    if member.role == "rank":
        return f"rank {member.rank}"
    if member.role == "worker":
        return f"{_prefix(member)}worker {member.worker}"
    if member.role == "process":
        return _prefix(member) + program(member)
    return _prefix(member) + member.role


def program(member: Member) -> str:
    """The short name of a member's program; for Python, its script or module."""
    command = [os.fsdecode(argument) for argument in member.command]
    if not command:
        return os.fsdecode(member.stat.name) or "process"
    name = os.path.basename(command[0])
    if not _is_python(member.command):
        return _shown(name)
    arguments = iter(command[1:])
    for argument in arguments:
        if argument == "-m":
            return _shown(next(arguments, name))
        if argument == "-c":
            return _shown(f"{name} -c")
        if argument in ("-W", "-X"):
            next(arguments, None)
        elif not argument.startswith("-"):
            return _shown(os.path.basename(argument))
    return _shown(name)


def _shown(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)[:40] or "process"
