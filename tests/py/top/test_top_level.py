"""The package without further imports, from a shell, and with wrong arguments."""

import pytest
import waiting

import recstore

LAZY_MODULES = {
    "recstore.remote": "ShardWriter", "recstore.monitor": "__doc__", "recstore.integrations": "__doc__",
    "recstore.remote.ray": "__doc__", "recstore.remote.dask": "__doc__", "recstore.monitor.log": "Log",
    "recstore.monitor.post_mortem": "read", "recstore.integrations.pycocotools": "__doc__"
}  # fmt: skip


@pytest.mark.parametrize("module", LAZY_MODULES)
def test_packages_are_imported_on_first_use(module):
    code = (
        f"import recstore, sys; assert {module!r} not in sys.modules; "
        f"print({module}.__name__, hasattr({module}, {LAZY_MODULES[module]!r}))"
    )
    done = waiting.python("-c", code)
    if "needs" in done.stderr:
        pytest.skip(done.stderr.splitlines()[-1])
    assert (done.stdout, done.stderr) == (f"{module} True\n", "")


def test_star_hides_nothing():
    done = waiting.python("-c", "torch = remote = monitor = 1\nfrom recstore import *\nprint(torch, remote, monitor)")
    assert (done.stdout, done.stderr) == ("1 1 1\n", "")


@pytest.mark.parametrize("package", ["", ".monitor", ".remote", ".integrations"])
def test_other_names_are_not_found(package):
    module = getattr(recstore, package[1:]) if package else recstore
    with pytest.raises(AttributeError, match=f"^module 'recstore{package}' has no attribute 'colour'$"):
        module.colour


@pytest.mark.parametrize("arguments", [["--version"], ["info", "missing"]])
def test_the_command_as_a_module(arguments):
    one, two = (waiting.python("-m", module, *arguments) for module in ("recstore", "recstore.cli.main"))
    assert (one.returncode, one.stdout, one.stderr) == (two.returncode, two.stdout, two.stderr)
