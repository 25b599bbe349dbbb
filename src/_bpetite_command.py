"""The command `bpetite`, outside the package: an import of the package may fail."""

import sys


def main() -> int:
    """Run the command, or print in one line why the package cannot be imported."""
    try:
        from bpetite._cli import main as run
    except ImportError as error:
        sys.exit(f"bpetite: {error}")
    except KeyboardInterrupt:
        print("bpetite: interrupted", file=sys.stderr)
        sys.exit(130)
    return run()
