"""The files of a set of shards, their manifests, and how they are written."""
