"""Every test here is slow: it uses large packages, which `nox -s real` installs."""

import pathlib

import pytest

HERE = pathlib.Path(__file__).parent
# Ray and Spark cause warnings.
ENGINE_TESTS = ("test_ray.py", "test_spark.py", "test_past_one_machine.py")
ENGINE_WARNINGS = ("FutureWarning", "DeprecationWarning", "ResourceWarning", "pytest.PytestUnraisableExceptionWarning")


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.slow)
            for kind in ENGINE_WARNINGS if item.path.name in ENGINE_TESTS else ():
                item.add_marker(pytest.mark.filterwarnings(f"ignore::{kind}"))
