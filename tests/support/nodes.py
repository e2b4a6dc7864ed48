"""Simulates the machines of a cluster: each node is a network namespace and a mount namespace, with its own /dev/shm
and its own content of a folder.

A node needs root, Linux and the commands ip, unshare, nsenter and mount. `missing()` names a missing requirement.
"""

import contextlib
import os
import shutil
import subprocess
import sys

COMMANDS = ("ip", "unshare", "nsenter", "mount")


def missing():
    """The reason why nodes cannot be made here; None if they can."""
    if not sys.platform.startswith("linux"):
        return "nodes are namespaces of Linux"
    if os.geteuid() != 0:
        return "making a namespace needs root"
    lacking = [name for name in COMMANDS if shutil.which(name, path=_PATH) is None]
    if lacking:
        return f"nodes need {', '.join(lacking)}: apt-get install iproute2 util-linux"
    trial = subprocess.run(["unshare", "--mount", "--net", "true"], env=_environment(), capture_output=True, text=True)
    return f"no namespaces: {trial.stderr.strip()}" if trial.returncode else None


_PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def _environment(**more):
    return {**os.environ, "PATH": _PATH, **more}


def _run(*command):
    subprocess.run(command, check=True, env=_environment(), capture_output=True, text=True)


class Node:
    """One node; a context manager. `gateway` is the address at which it reaches this machine and its servers.

    `local` is a folder on this machine; inside the node it has its own content. `close` ends the node and kills its
    processes.
    """

    def __init__(self, number, local):
        self.name = f"rs{os.getpid() % 100000}n{number}"
        self.outer, self.inner = f"rsh{os.getpid() % 10000}x{number}", f"rsn{os.getpid() % 10000}x{number}"
        self.gateway = f"10.199.{number}.1"
        self.local, self.own = str(local), f"{local}.node{number}"
        self.processes, self.holder = [], None
        os.makedirs(self.own, exist_ok=True)
        self.made = contextlib.ExitStack()
        try:
            self._connect(number)
            self._mount()
        except BaseException:
            self.close()
            raise

    def _connect(self, number):
        _run("ip", "netns", "add", self.name)
        self.made.callback(_run, "ip", "netns", "del", self.name)
        _run("ip", "link", "add", self.outer, "type", "veth", "peer", "name", self.inner, "netns", self.name)
        # The namespace and its link outlive its last process for a moment, and a later test may use the name.
        self.made.callback(subprocess.run, ["ip", "link", "del", self.outer], env=_environment(), capture_output=True)
        _run("ip", "addr", "add", f"{self.gateway}/24", "dev", self.outer)
        _run("ip", "link", "set", self.outer, "up")
        _run("ip", "-n", self.name, "addr", "add", f"10.199.{number}.2/24", "dev", self.inner)
        _run("ip", "-n", self.name, "link", "set", self.inner, "up")
        _run("ip", "-n", self.name, "link", "set", "lo", "up")

    def _mount(self):
        """Starts the process that holds the mount namespace. It ends when its standard input closes, at the
        latest when this process ends."""
        mounts = 'mount -t tmpfs -o size=256m tmpfs /dev/shm && mount --bind "$1" "$2" && echo ready && exec cat'
        command = ["ip", "netns", "exec", self.name, "unshare", "--mount", "--propagation", "private"]
        self.holder = subprocess.Popen(
            [*command, "sh", "-c", mounts, "sh", self.own, self.local],
            env=_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.made.callback(self._end_holder)
        assert self.holder.stdout.readline() == "ready\n", "the folders of a node could not be mounted"

    def _end_holder(self):
        self.holder.kill()
        self.holder.communicate()

    def start(self, *arguments, **environment):
        """Starts this Python with `arguments` in the node. The returned Popen has text pipes."""
        enter = ["nsenter", "--target", str(self.holder.pid), "--mount", "--net", "--wd=/"]
        process = subprocess.Popen(
            [*enter, sys.executable, *arguments],
            env=_environment(**environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        return process

    def close(self):
        for process in self.processes:
            process.kill()
            process.communicate()
        self.made.close()
        shutil.rmtree(self.own, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()
