"""Run tiktoken's own test suite against `bpetite.tiktoken`, under tiktoken's name.

SOURCE is tiktoken's source distribution, packed or unpacked; without it, pip downloads the version
whose names the door has. The tests download nothing: their cache is filled from the folder that
`--vocabularies` names, with cl100k_base.tiktoken, o200k_base.tiktoken, gpt2_vocab.json and
gpt2_merges.txt. The other public files follow from GPT-2's, and all are checked by their hashes.
The exit code is pytest's.

PYTHONPATH=src:scripts python -m tools.check_tiktoken [SOURCE] [--vocabularies FOLDER]
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

import bpetite.tiktoken as door
from bpetite import Tokenizer
from bpetite.formats._tiktoken import KNOWN
from tools.venv import ROOT

ADDRESS = "https://openaipublic.blob.core.windows.net/encodings/"

SHIM = """
import sys

import bpetite.tiktoken

sys.modules["tiktoken"] = bpetite.tiktoken
"""
"""A module `tiktoken` that puts the door in its place, also in programs that the tests start."""


def main() -> None:
    """Run the tests in a temporary folder without any other part of tiktoken."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("source", type=Path, nargs="?", metavar="SOURCE")
    parser.add_argument("--vocabularies", type=Path, default=ROOT.parent / "shared" / "data")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tests = tests_of(arguments.source or download(folder), folder)
        folder.joinpath("tests").symlink_to(tests)
        folder.joinpath("tiktoken.py").write_text(SHIM, "utf-8")
        cache = folder / "cache"
        cache.mkdir()
        fill(cache, arguments.vocabularies)
        program = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
        paths = os.pathsep.join([name, str(ROOT / "src")])
        environment = {**os.environ, "PYTHONPATH": paths, "TIKTOKEN_CACHE_DIR": str(cache)}
        sys.exit(subprocess.run(program, cwd=folder, env=environment).returncode)


def download(folder: Path) -> Path:
    """Return the source distribution, which pip downloads."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary=:all:"]
    subprocess.run([*pip, f"tiktoken=={door.__version__}", "-d", str(folder)], check=True)
    return next(folder.glob("tiktoken-*.tar.gz"))


def tests_of(source: Path, folder: Path) -> Path:
    """Return the folder of tests in a source distribution."""
    if source.is_file():
        with tarfile.open(source) as archive:
            archive.extractall(folder, filter="data")
        source = next(folder.glob("tiktoken-*/"))
    return source.resolve() / "tests"


def fill(cache: Path, vocabularies: Path) -> None:
    """Put all public files that can be made into a cache of tiktoken."""
    files = {path.name: path.read_bytes() for path in vocabularies.glob("*_base.tiktoken")}
    if (pair := vocabularies / "gpt2_vocab.json").exists():
        gpt2 = Tokenizer.load(pair)
        ranks = {gpt2.token_bytes(id): id for id in range(gpt2.vocab_size)}
        files["r50k_base.tiktoken"] = lines(ranks)
        spaces = {b" " * (id - 50255): id for id in range(50257, 50281)}
        files["p50k_base.tiktoken"] = lines({**ranks, **spaces})
    for name, data in files.items():
        known = KNOWN.get(hashlib.sha256(data).hexdigest())
        if known is None or name != f"{known.name}.tiktoken":
            print(f"{name} is not the public file", file=sys.stderr)
            continue
        cache.joinpath(hashlib.sha1(f"{ADDRESS}{name}".encode()).hexdigest()).write_bytes(data)


def lines(ranks: Mapping[bytes, int]) -> bytes:
    """Return a .tiktoken file."""
    return b"".join(b"%s %d\n" % (base64.b64encode(token), id) for token, id in ranks.items())


if __name__ == "__main__":
    main()
