"""Random input for the engines: vocabularies, texts, ids, corpora, corrupted files."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

from tools.public import saved_encoding

from bpetite import PATTERNS, Tokenizer
from fuzzing.worker import Corpus, File

PUBLIC = {
    "GPT-2": ("gpt2_vocab.json", None),
    "cl100k": ("cl100k_base.tiktoken", None),
    "o200k": ("o200k_base.tiktoken", None),
    "cl100k with the pattern llama3": ("cl100k_base.tiktoken", "llama3"),
    "cl100k with the pattern qwen2": ("cl100k_base.tiktoken", "qwen2"),
}
"""Optional files of a data folder, each with a pattern other than the vocabulary's own."""

# Vocabularies


@dataclass
class Subject:
    """A vocabulary as a file for the workers, and as a tiktoken Encoding if possible."""

    name: str
    options: Mapping[str, object]
    tokenizer: Tokenizer
    encoding: Any = None
    tokens: list[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.tokens = [self.tokenizer.token_bytes(id) for id in self.tokenizer.ids]


SPECIAL = ("<|endoftext|>", "<|a|>", " \n")
OVERLAPPING = ("<|a", "<|a|>", "a|><|", "|>", "'s")


def subjects(folder: Path, data: Path | None) -> Iterator[Subject]:
    """Yield a vocabulary for each named pattern and special case, and the public vocabularies."""
    text = [*list(topics.values())[:25], *mixed_texts()]
    custom = r"\p{L}{1,3}|\d+|[^\p{L}\d]"
    for name, pattern in [*zip(PATTERNS, PATTERNS, strict=True), ("a custom pattern", custom)]:
        tokenizer = Tokenizer.train(text, 700, pattern=pattern, special_tokens=SPECIAL)
        yield saved(f"trained, {name}", tokenizer, folder)
    overlapping = Tokenizer.train(text, 400, special_tokens=OVERLAPPING)
    subject = saved("special tokens that overlap", overlapping, folder)
    subject.encoding = None  # tiktoken does not say which of two literals wins
    yield subject
    base = Tokenizer.train(text, 500, pattern="qwen2", special_tokens=[*SPECIAL, "K", "é>"])
    normalizing = Tokenizer(replace(base._vocabulary, normalizer="NFC"))
    yield saved("normal form C", normalizing, folder)
    base = Tokenizer.train(text, 500, special_tokens=[*SPECIAL, "12"])
    patterns: dict[str, Any] = {"pattern": r"\p{N}{1,3}", "more_patterns": (PATTERNS["gpt2"],)}
    yield saved("numbers first", Tokenizer(replace(base._vocabulary, **patterns)), folder)
    yield saved("bytes alone", Tokenizer.train("", 256, special_tokens=()), folder)
    yield with_shuffled_bytes(folder)
    for name, (file, pattern_name) in (PUBLIC if data else {}).items():
        assert data is not None
        options: dict[str, Any] = {"path": data / file}
        if pattern_name:
            options |= {"pattern": pattern_name, "special_tokens": {"<|endoftext|>": 100257}}
        if options["path"].is_file():
            tokenizer = Tokenizer.load(**options)
            yield Subject(name, options, tokenizer, in_tiktoken(tokenizer, folder))


def with_shuffled_bytes(folder: Path) -> Subject:
    """Return a vocabulary with other ids for bytes, and with tokens that no merge makes."""
    base = Tokenizer.train([*list(topics.values())[25:40]], 600, pattern="llama3")
    path = folder / "base.tiktoken"
    ranks = [base.token_bytes(id) for id in range(255, -1, -1)]
    ranks += [base.token_bytes(id) for id in range(256, 600)]
    ranks += [b" together", b"wholes", " 你好".encode()]  # merging their bytes gives other tokens
    path.write_bytes(
        b"".join(base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(ranks))
    )
    options = {"path": path, "pattern": "llama3", "special_tokens": {"<|endoftext|>": 3000}}
    tokenizer = Tokenizer.load(**options)  # type: ignore[arg-type]
    return Subject("whole pieces", options, tokenizer, in_tiktoken(tokenizer, folder))


def saved(name: str, tokenizer: Tokenizer, folder: Path) -> Subject:
    """Save a vocabulary to a folder, and return it."""
    path = folder / f"{name}.json"
    tokenizer.save(path, format="bpetite")
    return Subject(name, {"path": path}, tokenizer, in_tiktoken(tokenizer, folder))


def in_tiktoken(tokenizer: Tokenizer, folder: Path) -> Any:
    """Return a tiktoken Encoding of a vocabulary, or None if tiktoken cannot represent it."""
    try:
        return saved_encoding(tokenizer, folder)
    except (ImportError, ValueError):
        return None


# Input

WHITE_SPACE = [*map(chr, [*range(9, 14), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B)])]
WHITE_SPACE += [
    "\u2028",
    "\u2029",
    "\u202f",
    "\u205f",
    "\u3000",
    "\r\n",
    "  ",
    "\n\n",
    " \n",
    "\t ",
]
NOT_WHITE_SPACE = ["\x1c", "\x1f", "\u200b", "\u180e", "\u2060", "\ufeff"]
CONTRACTIONS = [*(f"'{letter}" for letter in "stmdSTMDſKrlv"), "'re", "'ve", "'ll", "'Ll", "'vE"]
CONTRACTIONS += ["'LL", "'RE", "'ſſ", "''", "’s", "ʼs", "'re'll"]
DIGITS = [*"0123456789٣५½²Ⅷ〇𝟘一", "12", "123", "1234"]
WORDS = [*"aBzZéÉßǅʰºªſKİıเ中文한ก𝔘ﬁ", "Ab", "ABC", "camelCase", "naïve", "你好"]
WORDS += ["e\u0301", "\u212a", "\u1112\u1161\u11ab", "a\u0323\u0301"]
MARKS = ["\u0301", "\u0ba3", "\u0903", "\u20dd", "\ufe0f", "\u200d", "\U000e01ef", "\u0378"]
SYMBOLS = [*"!.,;:/-_=+*(){}[]<>|&%$#@~^`\"'\\🙂\x00\x7f\ufffd", "...", "//", "/\n", "!\r\n"]
PARTS = [WHITE_SPACE, NOT_WHITE_SPACE, CONTRACTIONS, DIGITS, WORDS, MARKS, SYMBOLS]
LENGTHS = (1, 2, 3, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1000)
LONG = (4095, 4096, 4097, 9000, 16_384, 20_000)


def mixed_texts() -> list[str]:
    """Return texts of all kinds to train on, the same in each run."""
    rng = random.Random(0)
    return [from_parts(rng, 300) for _ in range(60)]


def from_parts(rng: random.Random, max_parts: int = 30) -> str:
    """Return a text of parts of one or more kinds."""
    kinds = rng.sample(PARTS, rng.randint(1, len(PARTS)))
    return "".join(rng.choice(rng.choice(kinds)) for _ in range(rng.randint(0, max_parts)))


def any_characters(rng: random.Random) -> str:
    """Return characters below a random limit of Unicode."""
    top = rng.choice([0x80, 0x250, 0x3000, 0x10000, 0x110000])
    codes = [rng.randrange(top) for _ in range(rng.randint(0, 60))]
    return "".join(chr(code) for code in codes if not 0xD800 <= code < 0xE000)


def repeated(rng: random.Random) -> str:
    """Return a repeated part between other parts."""
    length = rng.choice(LONG if rng.random() < 0.02 else LENGTHS)
    part = rng.choice(rng.choice(PARTS))
    unit = part if rng.random() < 0.7 else from_parts(rng, 3)
    return from_parts(rng, 3) + (unit * length)[:length] + from_parts(rng, 3)


def of_tokens(rng: random.Random, subject: Subject) -> str:
    """Return joined tokens of a vocabulary, so that merges are needed."""
    tokens = rng.choices(subject.tokens, k=rng.randint(1, 40))
    return b"".join(tokens).decode("utf-8", rng.choice(["ignore", "replace"]))


def with_special(rng: random.Random, subject: Subject) -> str:
    """Return whole and shortened special literals with text between them."""
    literals = [*subject.tokenizer.special_tokens, "<|endoftext|>"]
    parts = []
    for _ in range(rng.randint(1, 8)):
        literal = rng.choice(literals)
        parts.append(literal if rng.random() < 0.6 else literal[: rng.randint(0, len(literal))])
        parts.append(from_parts(rng, 4))
    return "".join(parts)


def real_text(rng: random.Random, texts: Sequence[str]) -> str:
    """Return part of a real text, possibly with an insertion."""
    text = rng.choice(texts)
    start = rng.randrange(len(text))
    length = rng.choice([5, 50, 300, 3000] if rng.random() < 0.9 else [40_000])
    part = text[start : start + length]
    if rng.random() < 0.3:
        middle = rng.randint(0, len(part))
        part = part[:middle] + from_parts(rng, 5) + part[middle:]
    return part


def any_text(rng: random.Random, subject: Subject, real: Sequence[str]) -> str:
    """Return a text of one or two kinds, rarely with a lone surrogate."""
    makers: list[Callable[[], str]] = [
        partial(from_parts, rng),
        partial(from_parts, rng),
        partial(any_characters, rng),
        partial(repeated, rng),
        partial(of_tokens, rng, subject),
        partial(with_special, rng, subject),
        partial(real_text, rng, real),
    ]
    text = rng.choice(makers)()
    if rng.random() < 0.15:
        text += rng.choice(makers)()
    if rng.random() < 0.01:
        text += chr(rng.randrange(0xD800, 0xE000)) + rng.choice(makers)()
    return text


def any_bytes(rng: random.Random, subject: Subject, real: Sequence[str]) -> bytes:
    """Return UTF-8, possibly corrupted."""
    data = any_text(rng, subject, real).encode("utf-8", "surrogatepass")
    return data if rng.random() < 0.3 else corrupted(rng, data, [bytes([rng.randrange(256)])])


def any_ids(rng: random.Random, subject: Subject) -> list[int]:
    """Return ids in any order, sometimes with an unknown id."""
    ids = rng.choices(subject.tokenizer.ids, k=rng.randint(0, 50))
    if rng.random() < 0.05:
        unknown = rng.choice([subject.tokenizer.n_vocab, 2**31, 2**32 - 1, 2**20])
        ids.insert(rng.randint(0, len(ids)), unknown)
    return ids


def any_corpus(rng: random.Random, subject: Subject, real: Sequence[str]) -> Corpus:
    """Return documents to train on, with many equally frequent pairs."""
    documents = [any_text(rng, subject, real) for _ in range(rng.randint(0, 6))]
    if rng.random() < 0.5:
        alphabet = rng.choice(["ab", "abc", "a ", "é中", "ab \n", "aaab"])
        documents += ["".join(rng.choices(alphabet, k=rng.randint(0, 200))) for _ in range(4)]
    pattern = rng.choice([*PATTERNS, *PATTERNS, r"\p{L}+|\s+", r"(?s).{1,7}"])
    return Corpus(documents, rng.choice([256, 257, 260, 280, 330, 600]), pattern)


NUMBERS = "0 1 -1 255 256 257 258 65536 2147483648 4294967295 4294967296 18446744073709551616 1.5 "
NUMBERS += '1e3 1e999 true null [] {} "x" NaN 00 99999999999999999999999999'
FRAGMENTS = NUMBERS.encode().split()
FRAGMENTS += [b"", b"\n", b"\xff", b"\xed\xa0\x80", b"\\ud800", b'"', b","]


def corrupted(rng: random.Random, data: bytes, fragments: Sequence[bytes]) -> bytes:
    """Return bytes with a few changes to numbers, bits or ranges."""
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        start = rng.randint(0, len(changed))
        end = min(len(changed), start + rng.choice([0, 1, 1, 2, 8, 100]))
        kind = rng.randrange(5)
        if kind == 0 and start < len(changed):
            changed[start] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del changed[start:end]
        elif kind == 2:
            changed[start:start] = changed[start:end]
        elif kind == 3:
            changed[start:end] = rng.choice(fragments)
        else:
            first, last = number_near(changed, start)
            changed[first:last] = rng.choice(fragments)
    return bytes(changed)


def number_near(data: bytearray, start: int) -> tuple[int, int]:
    """Return the start and the end of the first number after a position."""
    while start < len(data) and not data[start : start + 1].isdigit():
        start += 1
    end = start
    while end < len(data) and data[end : end + 1].isdigit():
        end += 1
    return start, end


def files_to_corrupt(folder: Path) -> list[File]:
    """Return a small vocabulary in each single-file format."""
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
        if name.endswith(".json"):  # without spaces, so that more changes hit data
            dense = json.dumps(json.loads(files[-1].content), separators=(",", ":"))
            files.append(File(name, dense.encode()))
    return [*files, File("tekken.json", tekken_of(two))]


def tekken_of(tokenizer: Tokenizer) -> bytes:
    """Return a tekken.json whose ranks are the ids of a trained vocabulary."""
    special_tokens = [
        {"rank": rank, "token_str": literal, "is_control": rank != 1}
        for rank, literal in enumerate(("<|a|>", "<|endoftext|>"))
    ]
    tokens = [tokenizer.token_bytes(id) for id in range(tokenizer.vocab_size)]
    vocab = [
        {"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None}
        for rank, token in enumerate(tokens)
    ]
    config = {
        "pattern": tokenizer.patterns[0],
        "num_vocab_tokens": len(vocab),
        "default_vocab_size": len(vocab) + 2,
        "default_num_special_tokens": 3,
        "version": "v11",
    }
    document = {"config": config, "vocab": vocab, "special_tokens": special_tokens}
    return json.dumps(document, separators=(",", ":")).encode()


def any_file(rng: random.Random, files: Sequence[File]) -> File:
    """Return a corrupted file."""
    file = rng.choice(files)
    return File(file.name, corrupted(rng, file.content, FRAGMENTS))
