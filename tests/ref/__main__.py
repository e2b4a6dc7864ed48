"""Prints the records of a segment, or the pairs of a mapping, one per line. See `ref`. It needs numpy but not the
package, so it recovers data where the package cannot be installed.
"""

import argparse
import pathlib
import struct
import sys

if not __package__:  # run as a folder: `python tests/ref FILE`
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from ref import mapping, reader

CONTENT = 64  # the offset of the header's field `content`


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python tests/ref", description=__doc__)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--check", action="store_true", help="make the deep check before anything is printed")
    options = parser.parse_args(arguments)
    try:
        data = reader.segment_in(options.file.read_bytes())
        is_mapping = struct.unpack_from("<I", data.ljust(CONTENT + 4, b"\0"), CONTENT)[0] == reader.MAPPING
        module = mapping if is_mapping else reader
        records = module.check(data) if options.check else module.read(data)
    except reader.FormatError as error:
        return f"{options.file}: {error}"
    for record in records:
        print(ascii(record))
    return 0


if __name__ == "__main__":
    sys.exit(main())
