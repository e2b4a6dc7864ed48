"""The public names of this room; each class is in the stub beside its module."""

__all__: list[str]
