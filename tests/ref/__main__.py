"""Prints the records of a segment, a line each; of a mapping its pairs. See `ref`."""

import argparse
import pathlib
import struct
import sys

from . import mapping, reader

CONTENT = 64  # the offset of this field of the header


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m ref", description=__doc__)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--check", action="store_true", help="make the deep check before anything is printed")
    given = parser.parse_args(arguments)
    data = given.file.read_bytes()
    is_mapping = struct.unpack_from("<I", data.ljust(CONTENT + 4, b"\0"), CONTENT)[0] == reader.MAPPING
    module = mapping if is_mapping else reader
    try:
        records = module.check(data) if given.check else module.read(data)
    except reader.FormatError as error:
        return f"{given.file}: {error}"
    for record in records:
        print(ascii(record))
    return 0


if __name__ == "__main__":
    sys.exit(main())
