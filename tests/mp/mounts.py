"""A file system of a test's own, which other programs do not see."""

import sys

import pytest
import waiting


def mounted(options, folder, *arguments, **how):
    """The lines that Python prints where a tmpfs of these options is on `folder`."""
    mount = f"mount -t tmpfs -o {options} none {folder}"
    if waiting.run(["unshare", "-m", "sh", "-c", mount]).returncode != 0:
        pytest.skip("no private mount namespace here")
    command = f'{mount} && exec "$0" "$@"'
    done = waiting.run(["unshare", "-m", "sh", "-c", command, sys.executable, *arguments], **how)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
