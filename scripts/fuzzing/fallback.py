"""Compare byte fallback with the libraries that own the files: tokenizers and sentencepiece.

`scripts/fuzz fallback FILE ...` compares whole vocabularies: real texts of a folder in slices, and
texts generated of tokens, halves of tokens, runs and characters of all planes. Without files, it
compares random small vocabularies in every setting that public models have, with their literals.
Ids, counts, and streams of ids and of text must equal the library's.

A difference is printed with its seed, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import sentencepiece
import tokenizers
from tools.venv import ROOT

from bpetite import Tokenizer
from fuzzing.rounds import load_uncompared

sys.path.append(str(ROOT / "tests"))

from support.byte_fallback import SETTINGS, random_document, random_text, write

SLICE_CHARACTERS = 20_000
TEXTS_OF_A_FILE = 100

CHARACTERS = (
    *" \t\n\r\0\x7f\u0085\u00a0\u2003\u2028\u202f\u3000\u200b\u200d\ufeff\ufe0f\u0301\u2581",
    *"aAzé0٣中語한Жกक🙂👩\U0010fffd",
)

Judge = tuple[Callable[[str], list[int]], Callable[[list[int]], str]]
"""How the other library encodes a text, and decodes ids."""


def judge_of(path: Path) -> Judge:
    """Return the library that owns a file."""
    if path.suffix == ".json":
        twin = tokenizers.Tokenizer.from_file(str(path))
        return (
            lambda text: twin.encode(text, add_special_tokens=False).ids,
            partial(twin.decode, skip_special_tokens=False),
        )
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return processor.encode, processor.decode


def slices(folder: Path, start: int) -> Iterator[str]:
    """Yield all texts of a folder in slices of one size, the first of them shorter."""
    for path in sorted(folder.glob("*.txt")):
        text = path.read_bytes().decode("utf-8")
        yield text[:start]
        yield from (
            text[at : at + SLICE_CHARACTERS] for at in range(start, len(text), SLICE_CHARACTERS)
        )


def generated(rng: random.Random, tokens: list[str], literals: list[str]) -> str:
    """Return tokens, halves, literals, runs of one character, and characters of all planes."""
    few = rng.sample(tokens, 3)

    def part() -> str:
        token = rng.choice(tokens)
        half = token[rng.randrange(len(token)) :] or token
        code = rng.randrange(rng.choice((0x80, 0x800, 0xD800, 0x10000, 0x110000)))
        other = chr(code) if not 0xD800 <= code < 0xE000 else "\ufffd"
        run = rng.choice(CHARACTERS) * rng.choice((1, 1, 2, 3, 17, 40))
        return rng.choice((token, token, half, rng.choice(few), rng.choice(literals), other, run))

    return "".join(part() for _ in range(rng.randrange(1, 60)))


def fault(tokenizer: Tokenizer, judge: Judge, text: str, decodes: bool) -> str | None:
    """Return the first result that is not the library's, if there is one."""
    encode, decode = judge
    ids = encode(text)
    if tokenizer.encode(text) != ids:
        return "encode"
    if tokenizer.count(text) != len(ids):
        return "count"
    stream = tokenizer.encode_stream()
    middle = len(text) // 2
    if stream.step(text[:middle]) + stream.step(text[middle:]) + stream.flush() != ids:
        return "encode_stream"
    if not decodes:
        return None
    decoded = decode(ids)
    if tokenizer.decode(ids, errors="replace") != decoded:
        return "decode"
    out = tokenizer.decode_stream()
    return None if "".join(map(out.step, ids)) + out.flush() == decoded else "decode_stream"


def cases(
    options: argparse.Namespace, folder: Path
) -> Iterator[tuple[str, Tokenizer, Judge, Iterator[str], bool]]:
    """Yield what to compare: a name, a vocabulary, its library, texts, and whether to decode."""
    if options.files:
        opened = [(str(file), load_uncompared(file), judge_of(file)) for file in options.files]
        for name, tokenizer, judge in opened if options.data else ():
            yield (
                name,
                tokenizer,
                judge,
                slices(options.data, options.seed % SLICE_CHARACTERS),
                True,
            )
        rng = random.Random(options.seed)
        tokens_of = [
            [text for id in each.ids if (text := each.token_bytes(id).decode("utf-8", "ignore"))]
            for _, each, _ in opened
        ]
        while True:
            for (name, tokenizer, judge), tokens in zip(opened, tokens_of, strict=True):
                literals = [*tokenizer.special_tokens]
                texts = (generated(rng, tokens, literals) for _ in range(TEXTS_OF_A_FILE))
                yield name, tokenizer, judge, texts, True
    for seed in range(options.seed, sys.maxsize):
        for setting, fields in SETTINGS.items():
            rng = random.Random(f"{seed} {setting}")
            document = random_document(rng, **fields)
            path = Path(write(document, folder))
            # tokenizers 0.23 decodes literals of normalized text in their normal form.
            decodes = not fields.get("flags", {}).get("normalized")
            texts = (random_text(rng, document, 30) for _ in range(TEXTS_OF_A_FILE))
            yield f"{seed} {setting}", load_uncompared(path), judge_of(path), texts, decodes


def main() -> None:
    """Compare until time is up."""
    parser = argparse.ArgumentParser(prog="scripts/fuzz fallback", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="tokenizer.json, tokenizer.model")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="a folder with texts: *.txt")
    parser.add_argument("--seconds", type=float, default=60, help="how long (default 60)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    counts: dict[str, list[int]] = {}
    with TemporaryDirectory() as folder:
        for name, tokenizer, judge, texts, decodes in cases(options, Path(folder)):
            count = counts.setdefault(name if options.files else name.partition(" ")[2], [0, 0])
            for text in texts:
                if time.monotonic() > end:
                    break
                count[0] += 1
                count[1] += len(text)
                if found := fault(tokenizer, judge, text, decodes):
                    print(f"{name}, {found}: {json.dumps(text[:6000])}")
                    sys.exit(1)
            if time.monotonic() > end:
                break
    for name, (number, characters) in counts.items():
        print(f"{number:9,} texts, {characters:12,} characters: {name}")
    print("no difference")


if __name__ == "__main__":
    main()
