"""Train on text that every Python includes, then encode, decode and stream; see `scripts/demo`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from bpetite import Tokenizer
from bpetite._cli.common import check_output, command_line, write
from bpetite._cli.sample import python_documents

_VOCAB_SIZE = 4096

_TEXT = (
    "Tokens are bytes, not characters: naïve café, Привет, мир! 你好，世界。 "
    "नमस्ते दुनिया, שלום עולם, 안녕하세요. Emoji: 🙂 👩‍👩‍👧 🇫🇷 🚀<|endoftext|>"
)
_SHOWN = "Hi 🙂 世界"


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, check encoding, decoding and streaming, and save the vocabulary."""
    parser = argparse.ArgumentParser(prog="scripts/demo", description=__doc__)
    parser.add_argument(
        "--output",
        "-o",
        metavar="FILE",
        default="bpetite-demo.json",
        help="the vocabulary file to write, or to replace (default: bpetite-demo.json)",
    )
    options = parser.parse_args(arguments)
    check_output(options.output, replace=True)
    documents = list(python_documents())
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
    reading = f"{program} decode --model {model} --stream"
    _say(f'  {program} encode --model {model} --text "Hello" | {reading}')
    _say(f"  {program} train YOUR_FILE --vocab-size 8192 --output my-model.json")


def _program() -> str:
    """Return the command that starts this program from the current folder."""
    program = Path(sys.executable).with_name("bpetite")
    with suppress(ValueError):
        program = program.relative_to(Path.cwd())
    return command_line([str(program)])


def _say(line: str) -> None:
    write(line + "\n")


def _steps(tokenizer: Tokenizer, ids: list[int]) -> Iterator[tuple[str, str]]:
    """Yield the text of each id alone, and the text that it completes in a stream."""
    stream = tokenizer.decode_stream()
    for id in ids:
        yield tokenizer.decode([id], errors="replace"), stream.step(id)


if __name__ == "__main__":
    main()
