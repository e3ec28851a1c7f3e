"""`python -m sparkflow`."""

import sys

from sparkflow.cli import main

if __name__ == "__main__":
    sys.exit(main())
