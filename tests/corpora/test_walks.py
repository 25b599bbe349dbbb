"""The commands of docs/corpora.md and docs/clusters.md run as they are written."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from pydoc_data.topics import topics

import pytest
from support import ROOT
from support.engines import once

import bpetite
from bpetite import Tokenizer

pytestmark = [once, pytest.mark.slow]  # the commands start many processes


def run_blocks(page: str, folder: Path) -> None:
    """Run the blocks of shell commands of a page in a folder."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 2
    environment = {
        **os.environ,
        "BPETITE_ENGINE": bpetite.engine,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    result = subprocess.run(
        ["sh", "-e", "-c", "\n".join(blocks).replace("bpetite train ", "bpetite train --force ")],
        cwd=folder,
        env=environment,
        capture_output=True,
        timeout=240,
        check=False,
    )
    assert (result.returncode, b"problem" in result.stderr) == (0, False), result.stderr.decode()


@pytest.mark.skipif(os.name == "nt", reason="the commands are written for a POSIX shell")
def test_commands_for_several_machines_run(tmp_path: Path) -> None:
    lines = json.dumps({"text": "the hen met the ten men"}) + "\n"
    (tmp_path / "texts.jsonl").write_text(lines * 100)
    run_blocks("clusters.md", tmp_path)


@pytest.mark.skipif(os.name == "nt", reason="the commands are written for a POSIX shell")
def test_commands_of_the_page_run(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    texts = [*topics.values()]
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()
    (tmp_path / "english.jsonl.zst").write_bytes(zstandard.compress(lines))
    parquet.write_table(arrow.table({"text": texts}), tmp_path / "stories.parquet")
    others = {"german": "Käse und Brot", "russian": "сыр и хлеб", "chinese": "奶酪和面包"}
    lines_of = {name: json.dumps({"text": text}) + "\n" for name, text in others.items()}
    (tmp_path / "german.jsonl").write_text(lines_of["german"] * 30)
    (tmp_path / "russian.jsonl.gz").write_bytes(gzip.compress(lines_of["russian"].encode() * 30))
    (tmp_path / "chinese.txt").write_text((others["chinese"] + "\n") * 30, "utf-8")
    Tokenizer.train(texts, 400).save(tmp_path / "model.json")
    run_blocks("corpora.md", tmp_path)
    weighted = [*texts, *[others["german"]] * 60, *[others["russian"]] * 60]
    weighted += [others["chinese"]] * 90
    assert Tokenizer.load(tmp_path / "mixture.json") == Tokenizer.train(weighted, 1000)
