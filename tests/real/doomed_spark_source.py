"""A data source of Spark whose first writing task is killed after it has written everything. It is a separate module
because Spark's workers import it."""

import os
import pathlib
import signal

from recstore.remote.engines import spark_tasks


class DoomedSource(spark_tasks.ShardSource):
    """The option `markers` is a folder in which each task creates a file."""

    @classmethod
    def name(cls):
        return "doomed"

    def writer(self, schema, overwrite):
        markers = self.options.pop("markers")
        sink = super().writer(schema, overwrite)
        return DoomedSink(sink._writer, sink._append, markers)


class DoomedSink(spark_tasks.ShardSink):
    def __init__(self, writer, append, markers):
        super().__init__(writer, append)
        self._markers = markers

    def write(self, iterator):
        written = super().write(iterator)
        markers = pathlib.Path(self._markers)
        try:
            (markers / "killed").touch(exist_ok=False)
        except FileExistsError:
            (markers / f"written by {os.getpid()}").touch()
        else:
            os.kill(os.getpid(), signal.SIGKILL)
        return written
