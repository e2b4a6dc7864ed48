"""The ways in and out: files and tables of other libraries become stores, and stores become tables."""
