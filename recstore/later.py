"""Packages whose public names and modules are imported when they are first asked for. Imports nothing."""


def later(package, names, modules=()):
    """The functions `__getattr__` and `__dir__` of a package. `package` is its ``globals()``; `names` has for each
    public name the module within the package that defines it; `modules` are public modules of the package."""

    def __getattr__(name):
        if name in modules:
            return __import__(f"{package['__name__']}.{name}", fromlist=[name])
        module = names.get(name)
        if module is None:
            raise AttributeError(f"module {package['__name__']!r} has no attribute {name!r}")
        found = package[name] = getattr(__import__(f"{package['__name__']}.{module}", fromlist=[name]), name)
        return found

    # Without the modules: some need libraries, and tools take each name that is listed.
    return __getattr__, lambda: sorted({*package, *names})
