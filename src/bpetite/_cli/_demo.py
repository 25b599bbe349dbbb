"""The verb `demo`: the main job on text that every Python carries, with nothing to download."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path

from bpetite import Tokenizer
from bpetite._cli._common import Verbs, add_verb, check_output, write

_VOCAB_SIZE = 4096
_SOURCE_BYTES = 4_000_000  # of the standard library's sources, beside its documentation

_TEXT = (
    "Tokens are bytes, not characters: naïve café, Привет, мир! 你好，世界。 "
    "नमस्ते दुनिया, שלום עולם, 안녕하세요. Emoji: 🙂 👩‍👩‍👧 🇫🇷 🚀<|endoftext|>"
)
_SHOWN = "Hi 🙂 世界"


def add_to(verbs: Verbs) -> None:
    """Add this verb to the parser."""
    parser = add_verb(
        verbs,
        "demo",
        "train on the text that every Python carries, encode, decode and stream",
        "bpetite demo --output bpetite-demo.json",
    )
    parser.add_argument(
        "--output",
        "-o",
        metavar="FILE",
        default="bpetite-demo.json",
        help="the vocabulary file to write (default: bpetite-demo.json; an older one is replaced)",
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    check_output(options.output, replace=True)
    documents = list(_documents())
    size = sum(len(document.encode("utf-8")) for document in documents)
    _say(f"Training {_VOCAB_SIZE:,} ids on {size / 1e6:.1f} MB: the documentation topics and")
    _say("sources of the standard library of this Python.")
    started = time.monotonic()
    tokenizer = Tokenizer.train(documents, _VOCAB_SIZE)
    _say(f"Learnt {len(tokenizer.merges):,} merges in {time.monotonic() - started:.1f} s.")

    _say("\nEncoding a text in many scripts, and decoding it:")
    _say(f"  {_TEXT}")
    ids = tokenizer.encode(_TEXT)
    _say(f"  {len(_TEXT.encode('utf-8'))} bytes -> {len(ids)} ids: {_some(ids)}")
    if tokenizer.decode(ids) != _TEXT:
        raise ValueError("the decoded text differs from the text that was encoded")
    _say("  decode(encode(text)) == text: yes")

    _say(f"\nStreaming {_SHOWN!r} id by id, as a model would write it:")
    _say("    id  bytes        decoded alone  by DecodeStream")
    _stream(tokenizer, tokenizer.encode(_SHOWN))
    naive, held = _streamed(tokenizer, ids)
    same = "yes" if held == _TEXT else "no"
    _say(f"Of the whole text, decoding each id alone gives {naive.count('�')} times � in place of")
    _say(f"characters; the stream gives {held.count('�')}, and equals the text: {same}.")
    if held != _TEXT:
        raise ValueError("the streamed text differs from the text that was encoded")

    tokenizer.save(options.output, overwrite=True)
    program, model = _program(), shlex.quote(options.output)
    _say(f"\nSaved to {options.output}. Try next:")
    _say(f'  {program} inspect --model {model} --text "Hello, wörld 🙂"')
    _say(f'  {program} encode --model {model} --text "Hello" | {program} stream --model {model}')
    _say(f"  {program} train YOUR_FILE --vocab-size 8192 --output my-model.json")


def _program() -> str:
    """Return how this program can be started again from here."""
    script = Path(sys.argv[0])
    if script.stem != "bpetite" or not script.exists():
        return "python -m bpetite"
    with contextlib.suppress(ValueError):
        script = script.relative_to(Path.cwd())
    return shlex.quote(str(script))


def _say(line: str) -> None:
    write(line + "\n")


def _some(ids: list[int]) -> str:
    return ", ".join(map(str, ids[:12])) + ", ..."


def _documents() -> Iterator[str]:
    """Yield the documentation topics of this Python, and sources until they are enough."""
    from pydoc_data.topics import topics

    yield from topics.values()
    size = 0
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        source = path.read_text(encoding="utf-8", errors="replace")
        yield source
        size += len(source)
        if size > _SOURCE_BYTES:
            return


def _stream(tokenizer: Tokenizer, ids: list[int]) -> None:
    """Show each step of a stream beside what decoding its id alone gives."""
    stream = tokenizer.decode_stream()
    for id in ids:
        token = tokenizer.token_bytes(id)
        alone = repr(tokenizer.decode([id], errors="replace"))
        _say(f"  {id:>4}  {token.hex(' '):<12} {alone:<14} {stream.step(id)!r}")


def _streamed(tokenizer: Tokenizer, ids: list[int]) -> tuple[str, str]:
    """Return what decoding each id alone gives for `ids`, and what a stream gives."""
    alone = "".join(tokenizer.decode([id], errors="replace") for id in ids)
    stream = tokenizer.decode_stream()
    return alone, "".join([stream.step(id) for id in ids]) + stream.flush()
