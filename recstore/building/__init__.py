"""Building a store: options, streaming, parallel building, building in another process, saving to a file."""
