"""Caches that the processes on a machine fill and read together."""
