"""`python -m recstore` is the command `recstore`."""

import sys

from recstore.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
