"""Spark 4: DataFrames to sets of shards and back, as the data source "recstore".

    recstore.remote.spark.register(spark)
    df.write.format("recstore").mode("overwrite").save(url)
    df = spark.read.format("recstore").load(url)

Rows travel as Arrow batches in both directions. Spark is imported when `register` is called.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["register"]


def register(spark: Any) -> None:
    """Makes the format "recstore" known to a SparkSession. Every executor needs recstore and pyarrow installed.

    Writing: ``df.write.format("recstore").mode("overwrite").save(url)``, or ``mode("append")``; Spark writes data
    sources in Python in these two modes alone, and has another default. Each task writes shard files, and the driver
    commits once what the attempts that won have written. A failed job changes nothing. ``.option(name, value)`` takes
    ``shard_bytes`` and ``compression`` as :class:`recstore.remote.ShardWriter` has them.

    Reading: ``spark.read.format("recstore").load(url)``, a partition for each shard file. ``url@12`` is the manifest of
    that number, else it is the newest when ``load`` is called. The columns are those of the first shard file, and a
    field that only later files have is an error: give all of them with ``spark.read.schema(...)``, where a field that
    no record has is null. Values that are no records are the column ``item``; a mapping has the columns ``key`` and
    ``value``. ``.option("cache", folder)`` is the cache folder of each node, without which a task fetches a temporary
    copy.

    Both: ``.option("storage.NAME", value)`` is the argument ``name`` of the object store, such as
    ``storage.endpoint``. Prefer the environment for secrets: Spark shows options in its plans.

    Raises ImportError without Spark 4. What a job raises is in the message of Spark's exception.
    """
    try:
        import pyspark.sql.datasource  # noqa: F401
    except ImportError:
        raise ImportError('recstore.remote.spark needs Spark 4: pip install "pyspark>=4"') from None
    from recstore.remote import spark_tasks

    spark.dataSource.register(spark_tasks.ShardSource)
