"""`scripts/demo`: training, encoding, decoding and streaming on Python's own text."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from ast import literal_eval
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.cli import environment
from support.engines import quick_once
from support.programs import posix_only
from tools import demo as program
from tools.venv import ROOT

from bpetite import Tokenizer

pytestmark = quick_once


@dataclass(frozen=True)
class Demo:
    """The results of one run of the demo."""

    folder: Path
    code: int
    out: str
    err: bytes


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """Run the demo once, in a folder with the file of an earlier one."""
    folder = tmp_path_factory.mktemp("demo")
    (folder / "bpetite-demo.json").write_bytes(b"earlier")
    path = os.pathsep.join([str(ROOT / "scripts"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "tools.demo"],
        cwd=folder,
        capture_output=True,
        env=environment({"PYTHONPATH": path}),
        timeout=100,
    )
    return Demo(folder, done.returncode, done.stdout.decode("utf-8"), done.stderr)


def test_demo_saves_its_vocabulary(demo: Demo) -> None:
    assert (demo.code, demo.err, os.listdir(demo.folder)) == (0, b"", ["bpetite-demo.json"])
    assert "Saved to bpetite-demo.json." in demo.out
    tokenizer = Tokenizer.load(demo.folder / "bpetite-demo.json")
    assert (len(tokenizer.merges), tokenizer.special_tokens) == (3840, {"<|endoftext|>": 4096})


def test_demo_checks_its_results(demo: Demo) -> None:
    assert "Training 4,096 ids" in demo.out
    training = r"Learnt 3,840 merges in ([\d,]+) ms: (\d+\.\d) MB of text per second\.$"
    found = re.search(training, demo.out, re.MULTILINE)
    assert found
    assert int(found[1].replace(",", "")) > 0
    assert float(found[2]) > 0
    assert "decode(encode(text)) == text: yes" in demo.out
    assert "equals the text: yes" in demo.out


def test_demo_compares_a_stream_with_decoding_each_id(demo: Demo) -> None:
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
def test_suggested_commands_of_the_demo_work(demo: Demo) -> None:
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


def test_demo_names_an_unwritable_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "python_documents", lambda: pytest.fail("it has trained"))
    with pytest.raises(OSError, match=r"the folder .*none does not exist"):
        program.main(["--output", str(tmp_path / "none" / "demo.json")])
