"""The verb `demo`: the main job on text that every Python carries."""

from __future__ import annotations

import os
import re
import subprocess
from ast import literal_eval
from dataclasses import dataclass
from pathlib import Path

import pytest
from cli import environment, example, in_process, posix_only

from bpetite import Tokenizer


@dataclass(frozen=True)
class Demo:
    """What one run of the demo left."""

    folder: Path
    code: int
    out: str
    err: bytes


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """Run the example of the help, once, where an earlier demo has left its file."""
    folder = tmp_path_factory.mktemp("demo")
    (folder / "bpetite-demo.json").write_bytes(b"earlier")
    [line] = example("demo")
    done = subprocess.run(
        line, shell=True, cwd=folder, capture_output=True, env=environment(), timeout=100
    )
    return Demo(folder, done.returncode, done.stdout.decode("utf-8"), done.stderr)


def test_the_demo_works_and_says_where_its_file_is(demo: Demo) -> None:
    assert (demo.code, demo.err, os.listdir(demo.folder)) == (0, b"", ["bpetite-demo.json"])
    assert "Saved to bpetite-demo.json." in demo.out
    tokenizer = Tokenizer.load(demo.folder / "bpetite-demo.json")
    assert (len(tokenizer.merges), tokenizer.special_tokens) == (3840, {"<|endoftext|>": 4096})


def test_the_demo_checks_what_it_shows(demo: Demo) -> None:
    assert "Training 4,096 ids" in demo.out
    assert "Learnt 3,840 merges" in demo.out
    assert "decode(encode(text)) == text: yes" in demo.out
    assert "equals the text: yes" in demo.out


def test_the_demo_streams_beside_the_naive_way(demo: Demo) -> None:
    rows = re.findall(r"^ +(\d+)  ([0-9a-f ]+?) +('.*') +('.*')$", demo.out, re.MULTILINE)
    tokenizer = Tokenizer.load(demo.folder / "bpetite-demo.json")
    ids = [int(id) for id, _, _, _ in rows]
    assert tokenizer.decode(ids) == "Hi 🙂 世界"
    assert bytes.fromhex("".join(data for _, data, _, _ in rows)) == "Hi 🙂 世界".encode()
    assert "".join(literal_eval(streamed) for _, _, _, streamed in rows) == "Hi 🙂 世界"
    alone = [literal_eval(text) for _, _, text, _ in rows]
    assert alone == [tokenizer.decode([id], errors="replace") for id in ids]
    assert "\ufffd" in "".join(alone)


@posix_only
def test_what_the_demo_says_to_try_next_works(demo: Demo) -> None:
    (demo.folder / "README.md").write_text("Some text to train on.\n" * 9, encoding="utf-8")
    script = demo.out.partition("Try next:\n")[2].replace("YOUR_FILE", "README.md")
    assert script.count("bpetite ") == 4
    done = subprocess.run(
        ["sh", "-e", "-c", script],
        cwd=demo.folder,
        capture_output=True,
        env=environment(),
        timeout=60,
    )
    assert done.returncode == 0
    assert "\nHello{" in done.stdout.decode("utf-8")
    assert (demo.folder / "my-model.json").exists()


def test_a_demo_that_cannot_write_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bpetite._cli._demo._SOURCE_BYTES", 0)
    monkeypatch.setattr("bpetite._cli._demo._VOCAB_SIZE", 300)
    result = in_process("demo", "--output", str(tmp_path / "none" / "demo.json"))
    assert (result.code, len(result.err)) == (1, 1)
    assert "none" in result.err[0]
