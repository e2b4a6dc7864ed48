"""The cache of shard files on a machine, and the process that fetches them."""
