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
    """Registers the format "recstore" in a SparkSession. Every executor needs recstore and pyarrow installed.

    Writing: ``df.write.format("recstore").mode("overwrite").save(url)``, or ``mode("append")``. A mode is required:
    Spark supports only these two for data sources in Python, and neither is its default. Each task writes shard files,
    and the driver commits the results of all tasks at once. A failed job changes nothing. ``.option(name, value)``
    accepts ``shard_bytes`` and ``compression`` as in :class:`recstore.remote.ShardWriter`.

    Reading: ``spark.read.format("recstore").load(url)``, with a partition for each shard file. ``url@12`` selects
    manifest 12, ``url@best`` the manifest with this tag when Spark plans a query; the default is the newest then. The
    columns are the fields of the first shard file.
    If later files have more fields, or a field has no Arrow type, give the fields with ``spark.read.schema(...)``.
    Other fields are not decoded, and missing values are null. Spark does not tell a source in Python which columns a
    query uses: to decode only some, name them in a schema, or as ``.option("columns", "id,name")``, with the types of
    the first shard file. Values that are not records form the column ``item``; a mapping has the columns ``key`` and
    ``value``. ``.option("cache", folder)`` is the cache folder of each node, and ``.option("limit", "500GiB")`` the
    most bytes in it. Without a cache a task fetches a temporary copy.

    Both: ``.option("storage.NAME", value)`` is the argument ``name`` of the object store, such as
    ``storage.endpoint``. Prefer the environment for secrets: Spark shows options in its plans.

    Raises ImportError without Spark 4. Spark's exceptions include the text of errors in tasks.
    """
    try:
        import pyspark.sql.datasource  # noqa: F401
    except ImportError:
        raise ImportError('recstore.remote.spark needs Spark 4: pip install "pyspark>=4"') from None
    from recstore.remote.engines import spark_tasks

    spark.dataSource.register(spark_tasks.ShardSource)
