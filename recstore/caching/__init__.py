"""Caches that the processes of a machine fill and read together."""
