"""What Ray, Spark and Dask run to write and read sets of shards."""
