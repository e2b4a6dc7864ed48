"""Every test here is slow: it uses large packages, which `nox -s real` installs."""

import pathlib

import pytest

HERE = pathlib.Path(__file__).parent
# Warnings about the code of Ray and Spark.
ENGINES = ("test_ray.py", "test_spark.py", "test_past_one_machine.py")
THEIRS = ("FutureWarning", "DeprecationWarning", "ResourceWarning", "pytest.PytestUnraisableExceptionWarning")


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.slow)
            for kind in THEIRS if item.path.name in ENGINES else ():
                item.add_marker(pytest.mark.filterwarnings(f"ignore::{kind}"))
