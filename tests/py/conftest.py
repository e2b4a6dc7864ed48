"""Fixtures that several files of tests share."""

from s3_sets import bucket, made, running, server  # noqa: F401
