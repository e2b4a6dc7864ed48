"""The command `recstore`. Nothing here is loaded by `import recstore`."""
