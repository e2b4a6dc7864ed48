"""The compiled core: every .pyx and .pxd, and decode.c. It alone makes Python values of bytes and owns mappings."""
