"""`python -m bpetite` runs the command `bpetite`."""

import sys

from bpetite._cli import main

if __name__ == "__main__":
    sys.exit(main())
