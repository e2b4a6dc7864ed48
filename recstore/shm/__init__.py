"""Handles, named segments, leases, identities of processes, and the registry of the segments that this process has
attached."""
