"""Check that the files agree with the tag of a release: `check_release.py v0.1.0`."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def faults(tag: str, read: Callable[[str], str]) -> list[str]:
    """Return the faults, each with its file. `read` returns the text of a file of the project."""
    version = tag.removeprefix("v")
    expected = re.escape(version)
    checks = [
        (
            "src/bpetite/__init__.py",
            rf'^__version__ = "{expected}"$',
            f"the version is not {version}",
        ),
        ("rust/Cargo.toml", rf'^version = "{expected}"$', f"the version is not {version}"),
        ("CHANGELOG.md", rf"^## {expected} - \d{{4}}-\d\d-\d\d$", f"{version} has no date"),
        ("README.md", r"\A(?![\s\S]*not on PyPI)", "it says that bpetite is not on PyPI"),
    ]
    return [
        f"{file}: {fault}"
        for file, pattern, fault in checks
        if not re.search(pattern, read(file), re.MULTILINE)
    ]


def main() -> None:
    """Exit with a line for each fault."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    found = faults(sys.argv[1], lambda file: (ROOT / file).read_text("utf-8"))
    if found:
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
