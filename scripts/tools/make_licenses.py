"""Write THIRD-PARTY-LICENSES.txt: the licences of the crates in the native engine.

Run it with `.venv/bin/python scripts/tools/make_licenses.py` after a change of the crates. Wheels
have the file, which is the same for all systems. Versions are left out: a new version of a crate
seldom has another licence.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.crates import ROOT, Crate, linked_crates

FILE = ROOT / "THIRD-PARTY-LICENSES.txt"

BEGINNING = """\
The native engine of bpetite, bpetite._engine._native, contains these crates, some of them only on
some systems. Each may be used under the MIT licence, whose text follows as the crate has it.

The engine also contains the standard library of Rust, Copyright (c) The Rust Project Contributors,
under the MIT licence too. Each toolchain has their names, in COPYRIGHT-library.html.
"""

RULE = "-" * 80


def third_party_licenses() -> str:
    """Return the text of the file. Exits if a crate is not under the MIT licence."""
    _, *crates = linked_crates(None)
    sections = [f"{RULE}\n{crate.name}: {crate.license}\n\n{mit_text(crate)}" for crate in crates]
    return "\n".join([BEGINNING, *sections])


def mit_text(crate: Crate) -> str:
    """Return the text of the MIT licence in a crate's folder."""
    files = [path for path in sorted(crate.folder.iterdir()) if path.name == "LICENSE-MIT"]
    if "MIT" not in crate.license.replace("(", " ").replace(")", " ").split() or not files:
        sys.exit(f"bpetite: {crate.name} is under {crate.license}; add its licence by hand")
    lines = files[0].read_text("utf-8").strip().splitlines()
    return "".join(f"{line.rstrip()}\n" for line in lines)


if __name__ == "__main__":
    FILE.write_text(third_party_licenses(), encoding="utf-8", newline="\n")
