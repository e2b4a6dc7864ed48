"""The modules of this room have stubs of their own where users meet their types."""
