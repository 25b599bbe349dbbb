"""The verb `demo`: training, encoding, decoding and streaming on text that Python includes."""

from __future__ import annotations

import argparse
import contextlib
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path

from bpetite import Tokenizer
from bpetite._cli.common import check_output, command_line, write

_VOCAB_SIZE = 4096
_SOURCE_CHARACTERS = 4_000_000  # of the standard library's source files

_TEXT = (
    "Tokens are bytes, not characters: naïve café, Привет, мир! 你好，世界。 "
    "नमस्ते दुनिया, שלום עולם, 안녕하세요. Emoji: 🙂 👩‍👩‍👧 🇫🇷 🚀<|endoftext|>"
)
_SHOWN = "Hi 🙂 世界"


HELP = "train on text that every Python includes, then encode, decode and stream"
EXAMPLE = "bpetite demo --output bpetite-demo.json"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--output",
        "-o",
        metavar="FILE",
        default="bpetite-demo.json",
        help="the vocabulary file to write, or to replace (default: bpetite-demo.json)",
    )


def run(options: argparse.Namespace) -> None:
    check_output(options.output, replace=True)
    documents = list(_documents())
    size = sum(len(document.encode("utf-8")) for document in documents)
    _say(f"Training {_VOCAB_SIZE:,} ids on {size / 1e6:.1f} MB: documentation and source files of")
    _say("Python's standard library.")
    started = time.perf_counter()
    tokenizer = Tokenizer.train(documents, _VOCAB_SIZE)
    seconds = time.perf_counter() - started
    rate = f"{size / 1e6 / seconds:.1f} MB of text per second"
    _say(f"Learnt {len(tokenizer.merges):,} merges in {seconds * 1000:,.0f} ms: {rate}.")

    _say("\nEncoding a text in many scripts, and decoding it:")
    _say(f"  {_TEXT}")
    ids = tokenizer.encode(_TEXT)
    first = ", ".join(map(str, ids[:12]))
    _say(f"  {len(_TEXT.encode('utf-8'))} bytes -> {len(ids)} ids: {first}, ...")
    if tokenizer.decode(ids) != _TEXT:
        raise ValueError("the decoded text differs from the text that was encoded")
    _say("  decode(encode(text)) == text: yes")

    _say(f"\nStreaming {_SHOWN!r} id by id, as from a model:")
    _say("    id  bytes        decoded alone  by DecodeStream")
    shown = tokenizer.encode(_SHOWN)
    for id, (alone, streamed) in zip(shown, _steps(tokenizer, shown), strict=True):
        token = tokenizer.token_bytes(id).hex(" ")
        _say(f"  {id:>4}  {token:<12} {alone!r:<14} {streamed!r}")
    alone, streamed = map("".join, zip(*_steps(tokenizer, ids), strict=True))
    same = "yes" if streamed == _TEXT else "no"
    _say(f"For the whole text, decoding each id alone gives {alone.count('�')} times � in place of")
    _say(f"characters. The stream gives {streamed.count('�')}; it equals the text: {same}.")
    if streamed != _TEXT:
        raise ValueError("the streamed text differs from the text that was encoded")

    tokenizer.save(options.output, overwrite=True)
    program, model = _program(), command_line([options.output])
    _say(f"\nSaved to {options.output}. Try next:")
    _say(f'  {program} inspect --model {model} --text "Hello, wörld 🙂"')
    _say(f'  {program} encode --model {model} --text "Hello" | {program} stream --model {model}')
    _say(f"  {program} train YOUR_FILE --vocab-size 8192 --output my-model.json")


def _program() -> str:
    """Return the command that starts this program from the current folder."""
    script = Path(sys.argv[0])
    # On Windows, the program is bpetite.exe, and is started by its name without the suffix.
    if script.stem != "bpetite" or not (script.exists() or script.with_suffix(".exe").exists()):
        return "python -m bpetite"
    with contextlib.suppress(ValueError):
        script = script.relative_to(Path.cwd())
    return command_line([str(script)])


def _say(line: str) -> None:
    write(line + "\n")


def _documents() -> Iterator[str]:
    """Yield Python's documentation topics, then source files up to _SOURCE_CHARACTERS."""
    from pydoc_data.topics import topics

    yield from topics.values()
    size = 0
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        source = path.read_text(encoding="utf-8", errors="replace")
        yield source
        size += len(source)
        if size > _SOURCE_CHARACTERS:
            return


def _steps(tokenizer: Tokenizer, ids: list[int]) -> Iterator[tuple[str, str]]:
    """Yield the text of each id alone, and the text that it completes in a stream."""
    stream = tokenizer.decode_stream()
    for id in ids:
        yield tokenizer.decode([id], errors="replace"), stream.step(id)
