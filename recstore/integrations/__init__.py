"""Adapters for the libraries in which people load their datasets. Importing one of its modules patches nothing."""
