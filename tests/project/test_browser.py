"""The Python engine in a browser: CPython without what WebAssembly lacks.

The child process below lacks the modules and functions that Pyodide lacks: threads and processes
cannot start, and there are neither hard links nor locks of files.
"""

from __future__ import annotations

import pytest
from support.engines import once
from support.programs import output_of

pytestmark = once

WITHOUT = r"""
import _thread, os, subprocess, sys, threading

def no_threads(*arguments, **options):
    raise RuntimeError("can't start new thread")

def no_processes(*arguments, **options):
    raise OSError(138, "emscripten does not support processes.")

for module in (_thread, threading):
    for name in ("start_new_thread", "start_joinable_thread", "start_new"):
        for each in (name, f"_{name}"):
            if hasattr(module, each):
                setattr(module, each, no_threads)
subprocess.Popen.__init__ = no_processes
for name in ("fork", "forkpty", "posix_spawn", "system"):
    if hasattr(os, name):
        setattr(os, name, no_processes)
for name in ("link", "sched_getaffinity"):
    if hasattr(os, name):
        delattr(os, name)
for name in (
    *("_multiprocessing", "_posixshmem", "_posixsubprocess", "fcntl", "grp", "lzma", "_lzma"),
    *("pwd", "readline", "resource", "ssl", "_ssl", "termios", "sqlite3", "pydoc_data"),
):
    sys.modules[name] = None
os.cpu_count = lambda: CPUS
os.environ["BPETITE_ENGINE"] = ""
sys.modules["bpetite._engine._native"] = None
real_platform, sys.platform = sys.platform, "emscripten"
"""

# `None` in sys.modules raises ModuleNotFoundError without the name of the module in Python 3.11.
NATIVE_MISSING = r"""
import importlib.abc

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "bpetite._engine._native":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

del sys.modules["bpetite._engine._native"]
sys.meta_path.insert(0, Missing())
import pathlib, tempfile, warnings
warnings.simplefilter("ignore")
import bpetite
from bpetite import PieceCounts, Tokenizer

assert bpetite.engine == "python"
TEXT = "to be or not to be: naïve café 你好 🙂\n" * 40
tokenizer = Tokenizer.train(TEXT, 300)
folder = pathlib.Path(tempfile.mkdtemp())
(folder / "a.txt").write_bytes(TEXT.encode())
(folder / "a.jsonl").write_bytes(b'{"text": "to be"}\n' * 50)
"""


def in_browser(program: str, cpus: int = 1) -> list[str]:
    """Run a program without what WebAssembly lacks; return the lines that it prints."""
    beginning = WITHOUT.replace("CPUS", str(cpus)) + NATIVE_MISSING
    return output_of(beginning + program).splitlines()


def test_text_is_encoded_decoded_and_streamed() -> None:
    program = """
ids = tokenizer.encode(TEXT)
print(tokenizer.decode(ids) == TEXT, tokenizer.count(TEXT) == len(ids))
print("".join(tokenizer.stream(ids)) == TEXT)
stream = tokenizer.encode_stream()
print([*stream.step(TEXT), *stream.flush()] == ids)
for threads in (None, 4):
    print(tokenizer.encode_batch([TEXT, "a"], threads=threads) == [ids, tokenizer.encode("a")])
"""
    assert in_browser(program) == ["True True", *["True"] * 4]


@pytest.mark.parametrize("cpus", [1, 4])
def test_training_on_files_and_corpora(cpus: int) -> None:
    program = """
from bpetite.corpora import Corpus
print(Tokenizer.train([folder / "a.txt"], 300) == tokenizer)
print(Tokenizer.train(Corpus(folder / "a.txt"), 300) == tokenizer)
print(len([*Corpus(folder / "a.jsonl")]))
"""
    assert in_browser(program, cpus) == ["True", "True", "50"]


def test_vocabularies_are_saved_and_loaded() -> None:
    program = """
for name in ("model.json", "vocab.json", "tokenizer.json"):
    for _ in range(2):
        tokenizer.save(folder / name, overwrite=True)
print(Tokenizer.load(folder / "model.json") == tokenizer)
print(Tokenizer.load(folder / "tokenizer.json").encode(TEXT) == tokenizer.encode(TEXT))
try:
    tokenizer.save(folder / "model.json")
except FileExistsError:
    print("refused")
"""
    assert in_browser(program) == ["True", "True", "refused"]


def test_piece_counts_are_written_and_added() -> None:
    program = """
paths = [folder / name for name in ("a.counts", "b.counts")]
for path in paths:
    PieceCounts.from_corpus(TEXT).save(path)
print(PieceCounts.load(paths[0]) + PieceCounts.load(paths[1]) == PieceCounts.from_corpus(TEXT) * 2)
"""
    assert in_browser(program) == ["True"]


@pytest.mark.parametrize("format", ["megatron", "nanogpt", "olmo"])
def test_token_files_are_written_and_verified(format: str) -> None:
    program = f"""
from bpetite.corpora import Corpus, tokenize, verify
settings = dict(part_bytes=200, shuffle=1)
tokens = folder / "tokens"
manifest = tokenize(Corpus(folder / "a.jsonl"), tokenizer, tokens, {format!r}, **settings)
print(manifest["totals"]["documents"], verify(tokens, tokenizer, deep=True))
"""
    assert in_browser(program, cpus=4) == ["50 []"]


def test_commands_work_without_threads() -> None:
    program = """
from bpetite._cli import main
model, text = str(folder / "model.json"), str(folder / "a.txt")
print(main(["train", text, "--vocab-size", "300", "--output", model, "--quiet"]), flush=True)
print(main(["count", "--model", model, text]), flush=True)
"""
    lines = in_browser(program)
    assert (lines[1], lines[3]) == ("0", "0")
