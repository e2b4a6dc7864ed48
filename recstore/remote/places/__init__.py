"""Folders, object stores and other places where a set of shards can be."""
