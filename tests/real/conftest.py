"""Every test here is slow: it uses large packages, which `nox -s real` installs."""

import pathlib

import pytest

HERE = pathlib.Path(__file__).parent
# What Ray and Spark warn of in their own code, and leave to the garbage collection.
ENGINES = ("test_ray.py", "test_spark.py", "test_past_one_machine.py")
THEIRS = ("FutureWarning", "DeprecationWarning", "ResourceWarning", "pytest.PytestUnraisableExceptionWarning")


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.slow)
            for kind in THEIRS if item.path.name in ENGINES else ():
                item.add_marker(pytest.mark.filterwarnings(f"ignore::{kind}"))
