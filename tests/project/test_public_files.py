"""The table of public files in docs/interoperability.md: their addresses and hashes."""

from __future__ import annotations

import hashlib
import re

import pytest
from support import DATA, ROOT
from tiktoken_ext import openai_public as public  # type: ignore[import-untyped]
from tools.public import public_file

SECTION = (
    (ROOT / "docs" / "interoperability.md")
    .read_text("utf-8")
    .partition("\n### Public files\n")[2]
    .partition("\n## ")[0]
)

ROWS = re.findall(r"^\| \[(.+)\]\((.+)\) \| .+ \| `([0-9a-f]{64})` \|$", SECTION, re.MULTILINE)


def test_table_has_the_files_of_tiktoken(monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, str] = {}

    def load(address: str, expected_hash: str) -> dict[bytes, int]:
        found[address] = expected_hash
        return {}

    def load_both(**files: str) -> dict[bytes, int]:
        for name in ("vocab_bpe", "encoder_json"):
            load(files[f"{name}_file"], files[f"{name}_hash"])
        return {}

    monkeypatch.setattr(public, "load_tiktoken_bpe", load)
    monkeypatch.setattr(public, "data_gym_to_mergeable_bpe_ranks", load_both)
    for encoding in public.ENCODING_CONSTRUCTORS.values():
        encoding()
    assert {address: digest for _, address, digest in ROWS} == found
    assert [name for name, *_ in ROWS] == [address.rpartition("/")[2] for _, address, _ in ROWS]


@pytest.mark.parametrize(("name", "digest"), [(name, digest) for name, _, digest in ROWS])
def test_hash_matches_the_public_file(name: str, digest: str) -> None:
    try:
        content = public_file(name, DATA)
    except FileNotFoundError:
        pytest.skip("needs the public vocabularies, in a folder next to the repository")
    assert hashlib.sha256(content).hexdigest() == digest
