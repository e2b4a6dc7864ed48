"""The package without further imports, from a shell, and with wrong arguments."""

import pytest
import waiting

from recstore import RecordDict, RecordList, foreign_names

LAZY_MODULES = {
    "recstore.remote": "ShardWriter", "recstore.monitor": "__doc__", "recstore.integrations": "__doc__",
    "recstore.remote.ray": "__doc__", "recstore.remote.dask": "__doc__", "recstore.monitor.log": "Log",
    "recstore.monitor.post_mortem": "read", "recstore.integrations.pycocotools": "__doc__"
}  # fmt: skip


def run(*arguments):
    return waiting.python(*arguments)


@pytest.mark.parametrize("module", LAZY_MODULES)
def test_packages_are_imported_on_first_use(module):
    code = (
        f"import recstore, sys; assert {module!r} not in sys.modules; "
        f"print({module}.__name__, hasattr({module}, {LAZY_MODULES[module]!r}))"
    )
    done = run("-c", code)
    if "needs" in done.stderr:
        pytest.skip(done.stderr.splitlines()[-1])
    assert (done.stdout, done.stderr) == (f"{module} True\n", "")


def test_star_hides_nothing():
    done = run("-c", "torch = remote = monitor = 1\nfrom recstore import *\nprint(torch, remote, monitor)")
    assert (done.stdout, done.stderr) == ("1 1 1\n", "")


@pytest.mark.parametrize("package", ["", ".monitor", ".remote", ".integrations"])
def test_other_names_are_not_found(package):
    done = run("-c", f"import recstore\ntry: recstore{package}.colour\nexcept AttributeError as error: print(error)")
    assert done.stdout == f"module 'recstore{package}' has no attribute 'colour'\n"


@pytest.mark.parametrize("arguments", [["--version"], ["rm", "missing"], ["info", "missing"], ["--wrong"], []])
def test_the_command_as_a_module(arguments):
    one, two = run("-m", "recstore", *arguments), run("-m", "recstore.cli.main", *arguments)
    assert (one.returncode, one.stdout, one.stderr) == (two.returncode, two.stdout, two.stderr)


@pytest.mark.parametrize("make", [RecordList, RecordDict])
@pytest.mark.parametrize("option", foreign_names._CONSTRUCTOR)
def test_arguments_that_the_constructors_lack(make, option):
    caught = pytest.raises(TypeError, lambda: make([], **{option: "train"}))
    assert str(caught.value).endswith(foreign_names.of_argument(make.__name__, option))


@pytest.mark.parametrize("make", [RecordList, RecordDict])
def test_any_other_argument(make):
    with pytest.raises(TypeError, match=f"^{make.__name__}\\(\\) got an unexpected keyword argument 'colour'$"):
        make([], colour=1)
