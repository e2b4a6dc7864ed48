"""The compiled core. Only the core makes Python values from bytes and owns memory mappings."""
