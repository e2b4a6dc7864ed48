"""A private file system for a test."""

import sys

import pytest
import waiting


def run_with_tmpfs(options, folder, *arguments, **run_options):
    """Runs Python with a private tmpfs with these options at `folder`. Returns the printed lines."""
    mount = f"mount -t tmpfs -o {options} none {folder}"
    if waiting.run(["unshare", "-m", "sh", "-c", mount]).returncode != 0:
        pytest.skip("needs a private mount namespace")
    command = f'{mount} && exec "$0" "$@"'
    done = waiting.run(["unshare", "-m", "sh", "-c", command, sys.executable, *arguments], **run_options)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
