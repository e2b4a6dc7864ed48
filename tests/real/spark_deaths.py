"""A data source of Spark whose first writing task is killed after it has written everything. It is a separate module
because Spark's workers import it."""

import os
import pathlib
import signal

from recstore.remote import spark_tasks


class DoomedSource(spark_tasks.ShardSource):
    """The option `notes` is a folder for marker files of killed tasks."""

    @classmethod
    def name(cls):
        return "doomed"

    def writer(self, schema, overwrite):
        notes = self.options.pop("notes")
        made = super().writer(schema, overwrite)
        return DoomedSink(made._writer, made._append, notes)


class DoomedSink(spark_tasks.ShardSink):
    def __init__(self, writer, append, notes):
        super().__init__(writer, append)
        self._notes = notes

    def write(self, iterator):
        written = super().write(iterator)
        notes = pathlib.Path(self._notes)
        try:
            (notes / "killed").touch(exist_ok=False)
        except FileExistsError:
            (notes / f"written by {os.getpid()}").touch()
        else:
            os.kill(os.getpid(), signal.SIGKILL)
        return written
