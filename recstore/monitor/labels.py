"""Names the processes of a job: the main process, ranks, workers, fork servers and resource trackers.

The rank comes from the environment with which a process began, the role from its command and its name. Workers are
numbered in the order in which they started. A number is given again after its process has ended, so that the workers of
each epoch have the same numbers.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from recstore.monitor.processes import Member, Proc, Tree

# The launchers' names for the number of a process among all of the job; the last one counts within one machine.
_RANKS = (b"RANK", b"SLURM_PROCID", b"OMPI_COMM_WORLD_RANK", b"PMI_RANK", b"PMIX_RANK", b"LOCAL_RANK")
_LOOKS = 3


def refresh(tree: Tree, joined: Iterable[Member]) -> None:
    """Name the members of a Tree that are new, have a new name, or may still be about to exec."""
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
        return  # it is about to end: its memory is gone, and its command with it
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
        # srun sets the number for its only task too, where there are no ranks.
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
    """The member whose worker this is: the one that asked the fork server for it."""
    owner = member.owner
    while owner is not None and owner.role == "fork server":
        owner = owner.owner
    return owner


def _prefix(member: Member) -> str:
    """The label of the rank or worker that a member belongs to, as the start of its own."""
    master = _master(member)
    while master is not None and master.role not in ("rank", "worker"):
        master = master.owner
    if master is None:
        return "" if member.rank is None else f"rank {member.rank} "
    return f"{master.label} "


def _free_number(tree: Tree, member: Member) -> int:
    prefix = _prefix(member)
    used = {
        one.worker
        for one in tree.members.values()
        if one is not member and one.role == "worker" and one.worker is not None and _prefix(one) == prefix
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
    """The program of a member, in a word: of Python, its script or module."""
    command = [os.fsdecode(one) for one in member.command]
    if not command:
        return os.fsdecode(member.stat.name) or "process"
    name = os.path.basename(command[0])
    if not _is_python(member.command):
        return _shown(name)
    rest = iter(command[1:])
    for one in rest:
        if one == "-m":
            return _shown(next(rest, name))
        if one == "-c":
            return _shown(f"{name} -c")
        if one in ("-W", "-X"):
            next(rest, None)
        elif not one.startswith("-"):
            return _shown(os.path.basename(one))
    return _shown(name)


def _shown(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)[:40] or "process"
