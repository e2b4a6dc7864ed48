"""Fixtures that several test files share."""

import pytest
from s3_sets import bucket, made, running, server  # noqa: F401


@pytest.fixture(scope="session", autouse=True)
def _own_names(tmp_path_factory):
    """Each process has its own folder of names, because another process may run a test with the same names."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RECSTORE_DIR", str(tmp_path_factory.mktemp("named")))
        yield
