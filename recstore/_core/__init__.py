"""The compiled core. It alone makes Python values from bytes, and owns memory mappings."""
