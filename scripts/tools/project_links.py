"""The links of the project for its metadata, by the address of its repository.

setup.py calls this: pyproject.toml cannot take an address from the environment.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def links(address: str) -> dict[str, str]:
    """Return the links of the project by the address of its repository; "" gives none."""
    address = address.rstrip("/")
    if not address:
        return {}
    if not re.match(r"https?://\S+$", address):
        sys.exit(f"BPETITE_URL must be the https address of the repository, got {address!r}")
    return {
        "Source": address,
        "Documentation": f"{address}/blob/HEAD/docs/README.md",
        "Changelog": f"{address}/blob/HEAD/CHANGELOG.md",
        "Issues": f"{address}/issues",
    }


def description(address: str) -> str:
    """Return README.md, with links that lead into the repository from any page."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    if not address:
        return text
    address = f"{address.rstrip('/')}/%s/HEAD/"
    text = re.sub(r"(!\[[^\]]*\]\()(?!https?:|#)", rf"\g<1>{address % 'raw'}", text)
    return re.sub(r"(?<!!)(\[[^\[\]]*\]\()(?!https?:|#)", rf"\g<1>{address % 'blob'}", text)
