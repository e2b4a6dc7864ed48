"""A file whose writes fail."""

import io


class FullDisk(io.BytesIO):
    """Each write raises OSError with this errno."""

    name = "copy"

    def __init__(self, number):
        super().__init__()
        self.number = number

    def write(self, data):
        raise OSError(self.number, "no")
