"""Mocks of the large packages that adapters import, which cannot be installed everywhere: empty classes, enough to
import a module and read its docstrings. autodoc's own mocks are not classes, so `recstore.register` refuses them."""

import importlib.abc
import importlib.machinery
import sys
import types


class _MockType(type):
    """The metaclass of mocks: any attribute of a mock is another mock."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _mock(name)


def _mock(name):
    def call(self, *args, **options):
        return args[0] if args else self

    members = {"__init__": lambda self, *args, **options: None, "__call__": call}
    return _MockType(name, (), {**members, "__class_getitem__": classmethod(lambda cls, item: cls)})


class _Module(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        mock = _mock(name)
        mock.__module__ = self.__name__
        setattr(self, name, mock)
        return mock


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, packages):
        self.packages = packages

    def find_spec(self, fullname, path=None, target=None):
        if fullname.partition(".")[0] in self.packages:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec):
        return _Module(spec.name)

    def exec_module(self, module):
        pass


def install(*packages):
    """Mocks the packages, even if they are installed, so the site is the same in every environment."""
    sys.meta_path.insert(0, _Finder(packages))
