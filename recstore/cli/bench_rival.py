"""The base class of the rivals of `recstore bench`, and the exception of a rival that cannot run here. bench_rivals.py
and bench_columns.py have the rivals themselves."""

import importlib.util


class Absent(Exception):
    """A rival that cannot run here, or not on these records; the message is the reason."""


def need(*names):
    """Raises Absent unless these modules are installed."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise Absent(f"{name} is not installed")


class Rival:
    """Base of all rivals."""

    name = ""
    # Whether it gives records back; otherwise it is measured by its bytes alone.
    reads = True
    # Whether types and missing keys survive; Arrow's rows have 2.0 for 2 and None for a missing key.
    exact = True
    # The change that its users make to records that it cannot hold as they are.
    note = ""
