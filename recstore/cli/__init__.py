"""The command `recstore`. `import recstore` loads none of these modules."""
