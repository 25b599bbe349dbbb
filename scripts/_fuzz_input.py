"""What `scripts/_fuzz.py` gives to the engines: vocabularies, texts, ids, corpora, spoilt files."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

from _fuzz_worker import Corpus, File

from bpetite import PATTERNS, Tokenizer

PUBLIC = {
    "GPT-2": ("gpt2_vocab.json", None),
    "cl100k": ("cl100k_base.tiktoken", None),
    "o200k": ("o200k_base.tiktoken", None),
    "cl100k, cut by llama3": ("cl100k_base.tiktoken", "llama3"),
    "cl100k, cut by qwen2": ("cl100k_base.tiktoken", "qwen2"),
}
"""The files that a folder of vocabularies may have, and the pattern if it is not its own."""

# Vocabularies


@dataclass
class Subject:
    """A vocabulary, as a file that workers can load, and as tiktoken has it if it can."""

    name: str
    options: Mapping[str, object]
    tokenizer: Tokenizer
    home: Any = None
    tokens: list[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.tokens = [self.tokenizer.token_bytes(id) for id in self.tokenizer.ids]


SPECIAL = ("<|endoftext|>", "<|a|>", " \n")
OVERLAPPING = ("<|a", "<|a|>", "a|><|", "|>", "'s")


def subjects(folder: Path, data: Path | None) -> Iterator[Subject]:
    """Yield a trained vocabulary for each pattern that has a name, and others."""
    text = [*list(topics.values())[:25], *mixed_texts()]
    own = r"\p{L}{1,3}|\d+|[^\p{L}\d]"
    for name, pattern in [*zip(PATTERNS, PATTERNS, strict=True), ("a pattern of its own", own)]:
        tokenizer = Tokenizer.train(text, 700, pattern=pattern, special_tokens=SPECIAL)
        yield saved(f"trained, {name}", tokenizer, folder)
    overlapping = Tokenizer.train(text, 400, special_tokens=OVERLAPPING)
    subject = saved("special tokens that overlap", overlapping, folder)
    subject.home = None  # which of two tiktoken takes is not said
    yield subject
    yield saved("bytes alone", Tokenizer.train("", 256, special_tokens=()), folder)
    yield of_public_kind(folder)
    for name, (file, pattern_name) in (PUBLIC if data else {}).items():
        assert data is not None
        options: dict[str, Any] = {"path": data / file}
        if pattern_name:
            options |= {"pattern": pattern_name, "special_tokens": {"<|endoftext|>": 100257}}
        if options["path"].is_file():
            tokenizer = Tokenizer.load(**options)
            yield Subject(name, options, tokenizer, in_tiktoken(tokenizer, folder))


def of_public_kind(folder: Path) -> Subject:
    """Return a vocabulary whose bytes have other ids and in which whole pieces may be tokens."""
    base = Tokenizer.train([*list(topics.values())[25:40]], 600, pattern="llama3")
    path = folder / "base.tiktoken"
    ranks = [base.token_bytes(id) for id in range(255, -1, -1)]
    ranks += [base.token_bytes(id) for id in range(256, 600)]
    ranks += [b" together", b"wholes", " 你好".encode()]  # their own bytes do not become them
    path.write_bytes(
        b"".join(base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(ranks))
    )
    options = {"path": path, "pattern": "llama3", "special_tokens": {"<|endoftext|>": 3000}}
    tokenizer = Tokenizer.load(**options)  # type: ignore[arg-type]
    return Subject("whole pieces", options, tokenizer, in_tiktoken(tokenizer, folder))


def saved(name: str, tokenizer: Tokenizer, folder: Path) -> Subject:
    """Return a vocabulary whose file is in a folder."""
    path = folder / f"{name}.json"
    tokenizer.save(path, format="bpetite")
    return Subject(name, {"path": path}, tokenizer, in_tiktoken(tokenizer, folder))


def in_tiktoken(tokenizer: Tokenizer, folder: Path) -> Any:
    """Return a tiktoken Encoding of a vocabulary, None if there is none that gives its ids."""
    try:
        import tiktoken
    except ImportError:
        return None
    path = folder / "home.tiktoken"
    try:
        tokenizer.save(path, overwrite=True)
    except ValueError:
        return None
    lines = map(bytes.split, path.read_bytes().splitlines())
    return tiktoken.Encoding(
        "fuzz",
        pat_str=tokenizer.pattern,
        mergeable_ranks={base64.b64decode(token): int(rank) for token, rank in lines},
        special_tokens=dict(tokenizer.special_tokens),
    )


# Input

WHITE = [*map(chr, [*range(9, 14), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B)])]
WHITE += ["\u2028", "\u2029", "\u202f", "\u205f", "\u3000", "\r\n", "  ", "\n\n", " \n", "\t "]
NO_WHITE = ["\x1c", "\x1f", "\u200b", "\u180e", "\u2060", "\ufeff"]
CONTRACTIONS = [*(f"'{letter}" for letter in "stmdSTMDſKrlv"), "'re", "'ve", "'ll", "'Ll", "'vE"]
CONTRACTIONS += ["'LL", "'RE", "'ſſ", "''", "’s", "ʼs", "'re'll"]
DIGITS = [*"0123456789٣५½²Ⅷ〇𝟘一", "12", "123", "1234"]
WORDS = [*"aBzZéÉßǅʰºªſKİıเ中文한ก𝔘ﬁ", "Ab", "ABC", "camelCase", "naïve", "你好"]
MARKS = ["\u0301", "\u0ba3", "\u0903", "\u20dd", "\ufe0f", "\u200d", "\U000e01ef", "\u0378"]
SIGNS = [*"!.,;:/-_=+*(){}[]<>|&%$#@~^`\"'\\🙂\x00\x7f\ufffd", "...", "//", "/\n", "!\r\n"]
PARTS = [WHITE, NO_WHITE, CONTRACTIONS, DIGITS, WORDS, MARKS, SIGNS]
LENGTHS = (1, 2, 3, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1000)
LONG = (4095, 4096, 4097, 9000, 16_384, 20_000)


def mixed_texts() -> list[str]:
    """Return texts of all kinds, to train on; the same each time."""
    lot = random.Random(0)
    return [from_parts(lot, 300) for _ in range(60)]


def from_parts(lot: random.Random, most: int = 30) -> str:
    """Return a text of parts of all kinds, or of a few kinds."""
    kinds = lot.sample(PARTS, lot.randint(1, len(PARTS)))
    return "".join(lot.choice(lot.choice(kinds)) for _ in range(lot.randint(0, most)))


def any_characters(lot: random.Random) -> str:
    """Return characters from all of Unicode, of one script or of many."""
    top = lot.choice([0x80, 0x250, 0x3000, 0x10000, 0x110000])
    codes = [lot.randrange(top) for _ in range(lot.randint(0, 60))]
    return "".join(chr(code) for code in codes if not 0xD800 <= code < 0xE000)


def run(lot: random.Random) -> str:
    """Return the same over and over, with something before and behind."""
    length = lot.choice(LONG if lot.random() < 0.02 else LENGTHS)
    part = lot.choice(lot.choice(PARTS))
    unit = part if lot.random() < 0.7 else from_parts(lot, 3)
    return from_parts(lot, 3) + (unit * length)[:length] + from_parts(lot, 3)


def of_tokens(lot: random.Random, subject: Subject) -> str:
    """Return tokens of a vocabulary, joined: text in which merges happen."""
    tokens = lot.choices(subject.tokens, k=lot.randint(1, 40))
    return b"".join(tokens).decode("utf-8", lot.choice(["ignore", "replace"]))


def with_special(lot: random.Random, subject: Subject) -> str:
    """Return special literals, whole and cut short, and text between them."""
    literals = [*subject.tokenizer.special_tokens, "<|endoftext|>"]
    parts = []
    for _ in range(lot.randint(1, 8)):
        literal = lot.choice(literals)
        parts.append(literal if lot.random() < 0.6 else literal[: lot.randint(0, len(literal))])
        parts.append(from_parts(lot, 4))
    return "".join(parts)


def of_real_text(lot: random.Random, texts: Sequence[str]) -> str:
    """Return a stretch of text that people wrote, as it is or with something put in."""
    text = lot.choice(texts)
    start = lot.randrange(len(text))
    length = lot.choice([5, 50, 300, 3000] if lot.random() < 0.9 else [40_000])
    part = text[start : start + length]
    if lot.random() < 0.3:
        middle = lot.randint(0, len(part))
        part = part[:middle] + from_parts(lot, 5) + part[middle:]
    return part


def some_text(lot: random.Random, subject: Subject, real: Sequence[str]) -> str:
    """Return a text of any kind, now and then of two, now and then one that is no Unicode."""
    makers: list[Callable[[], str]] = [
        partial(from_parts, lot),
        partial(from_parts, lot),
        partial(any_characters, lot),
        partial(run, lot),
        partial(of_tokens, lot, subject),
        partial(with_special, lot, subject),
        partial(of_real_text, lot, real),
    ]
    text = lot.choice(makers)()
    if lot.random() < 0.15:
        text += lot.choice(makers)()
    if lot.random() < 0.01:
        text += chr(lot.randrange(0xD800, 0xE000)) + lot.choice(makers)()
    return text


def some_bytes(lot: random.Random, subject: Subject, real: Sequence[str]) -> bytes:
    """Return UTF-8, as it is or with bytes changed, cut out or put in."""
    data = some_text(lot, subject, real).encode("utf-8", "surrogatepass")
    return data if lot.random() < 0.3 else spoilt(lot, data, [bytes([lot.randrange(256)])])


def some_ids(lot: random.Random, subject: Subject) -> list[int]:
    """Return ids in any order, now and then one that there is not."""
    ids = lot.choices(subject.tokenizer.ids, k=lot.randint(0, 50))
    if lot.random() < 0.05:
        unknown = lot.choice([subject.tokenizer.n_vocab, 2**31, 2**32 - 1, 2**20])
        ids.insert(lot.randint(0, len(ids)), unknown)
    return ids


def some_corpus(lot: random.Random, subject: Subject, real: Sequence[str]) -> Corpus:
    """Return documents to train on, with many pairs that are as frequent as others."""
    documents = [some_text(lot, subject, real) for _ in range(lot.randint(0, 6))]
    if lot.random() < 0.5:
        alphabet = lot.choice(["ab", "abc", "a ", "é中", "ab \n", "aaab"])
        documents += ["".join(lot.choices(alphabet, k=lot.randint(0, 200))) for _ in range(4)]
    pattern = lot.choice([*PATTERNS, *PATTERNS, r"\p{L}+|\s+", r"(?s).{1,7}"])
    return Corpus(documents, lot.choice([256, 257, 260, 280, 330, 600]), pattern)


NUMBERS = "0 1 -1 255 256 257 258 65536 2147483648 4294967295 4294967296 18446744073709551616 1.5 "
NUMBERS += '1e3 1e999 true null [] {} "x" NaN 00 99999999999999999999999999'
SPLINTERS = [
    *NUMBERS.encode().split(),
    b"",
    b"\n",
    b"\xff",
    b"\xed\xa0\x80",
    b"\\ud800",
    b'"',
    b",",
]


def spoilt(lot: random.Random, data: bytes, splinters: Sequence[bytes]) -> bytes:
    """Return bytes with a few changes: numbers, single bits, stretches cut out or given twice."""
    changed = bytearray(data)
    for _ in range(lot.choice([1, 1, 1, 2, 5])):
        start = lot.randint(0, len(changed))
        end = min(len(changed), start + lot.choice([0, 1, 1, 2, 8, 100]))
        kind = lot.randrange(5)
        if kind == 0 and start < len(changed):
            changed[start] ^= 1 << lot.randrange(8)
        elif kind == 1:
            del changed[start:end]
        elif kind == 2:
            changed[start:start] = changed[start:end]
        elif kind == 3:
            changed[start:end] = lot.choice(splinters)
        else:
            first, last = number_near(changed, start)
            changed[first:last] = lot.choice(splinters)
    return bytes(changed)


def number_near(data: bytearray, start: int) -> tuple[int, int]:
    """Return where the first number behind a place begins and ends."""
    while start < len(data) and not data[start : start + 1].isdigit():
        start += 1
    end = start
    while end < len(data) and data[end : end + 1].isdigit():
        end += 1
    return start, end


def files_to_spoil(folder: Path) -> list[File]:
    """Return a small vocabulary in each format that is one file."""
    one = Tokenizer.train("abc abc the hen then", 262, special_tokens=["<|a|>", "<|endoftext|>"])
    two = Tokenizer.train("abc abc the hen then", 262, pattern="cl100k")
    files = []
    for name, tokenizer in (
        ("first.json", one),
        ("second.json", two),
        ("ranks.tiktoken", two),
        ("tokenizer.json", two),
    ):
        path = folder / name
        tokenizer.save(path)
        files.append(File(name, path.read_bytes()))
        if name.endswith(".json"):  # what is between the braces is hit more often then
            dense = json.dumps(json.loads(files[-1].content), separators=(",", ":"))
            files.append(File(name, dense.encode()))
    return files


def some_file(lot: random.Random, files: Sequence[File]) -> File:
    """Return a file that was spoilt."""
    file = lot.choice(files)
    return File(file.name, spoilt(lot, file.content, SPLINTERS))
