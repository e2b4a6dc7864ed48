import itertools
import os

import pytest

_numbers = itertools.count()


@pytest.fixture
def name():
    """The name of a cache that no other test uses."""
    return f"cache {os.getpid()} {next(_numbers)}"
