"""Compare ids and decoded text with those of tiktoken and tokenizers; print a Markdown table.

The vocabularies are those of GPT-2, GPT-4 (cl100k) and GPT-4o (o200k). bpetite and tiktoken read
the public files, tokenizers the tokenizer.json that bpetite writes. The other instruction sets and
the Python engine are compared with the engine in use, each in a process of its own. The table goes
to standard output, progress to standard error. The exit code is 1 if anything differs.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import random
import re
import shlex
import sys
import tempfile
import time
import unicodedata
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache, partial
from hashlib import blake2b
from itertools import product
from pathlib import Path

import tiktoken
import tokenizers
from benchmarks.measure import new_process, say

import bpetite
from bpetite import Tokenizer
from tools.engines import INSTRUCTION_SETS, instruction_set
from tools.public import PUBLIC as PUBLIC
from tools.public import public_encoding as public_encoding
from tools.public import saved_encoding as saved_encoding
from tools.shrink import shrunk

TEXTS = ("english", "code", "multilingual", "chinese")

FILES = [
    "gpt2_vocab.json",
    "gpt2_merges.txt",
    "cl100k_base.tiktoken",
    "o200k_base.tiktoken",
    *(f"{name}.txt" for name in TEXTS),
]
"""Files that the data folder must have."""

Case = str | list[int]
"""A text, or a list of ids that stands for its decoded text."""

Cases = Callable[[], Iterable[Case]]
"""Makes the cases, afresh for each vocabulary."""


def main() -> None:
    """Compare everything, print the table, and exit with 1 if anything differs."""
    arguments = parse_arguments()
    start = time.perf_counter()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        work = Work(arguments.data, arguments.share, -(-arguments.generated // len(PUBLIC)))
        engines = other_engines(stack)
        for subject in subjects_of(work.data, Path(folder), work.generated):
            rows += rows_of(subject, work, engines)
        unicode = unicode_version(Path(folder))
    for condition in conditions(unicode, time.perf_counter() - start):
        print(f"- {condition}")
    print()
    print("| vocabulary | compared with | text | slices | bytes | ids differ | decoding differs |")
    print("|---|---|---|--:|--:|--:|--:|")
    print(*rows, sep="\n")
    total = Tally()
    for row in rows:
        total.add(row.tally)
    print(Row("**all**", "", "", total))
    sys.exit(0 if total.is_equal else 1)


def parse_arguments() -> argparse.Namespace:
    """Return the checked arguments: data, share, generated."""
    parser = argparse.ArgumentParser(prog="scripts/bench ids", description=__doc__)
    parser.add_argument(
        "--data",
        type=Path,
        required=True,
        metavar="FOLDER",
        help=f"a folder with {', '.join(FILES)}; texts are UTF-8",
    )
    parser.add_argument(
        "--share",
        type=share,
        default=1.0,
        metavar="PART",
        help="part of the slices to compare: 0.01 takes every hundredth (default: all)",
    )
    parser.add_argument(
        "--generated",
        type=int,
        default=100_000,
        metavar="N",
        help="number of random texts, a third for each vocabulary (default: %(default)s)",
    )
    arguments = parser.parse_args()
    missing = [name for name in FILES if not (arguments.data / name).is_file()]
    if missing:
        parser.error(f"--data: {arguments.data} has no {', '.join(missing)}")
    return arguments


def share(argument: str) -> float:
    """Return the argument as a number above 0, and at most 1."""
    number = float(argument)
    if not 0 < number <= 1:
        raise argparse.ArgumentTypeError(f"must be above 0 and at most 1, got {argument}")
    return number


def conditions(unicode: str, seconds: float) -> Iterator[str]:
    """Yield the facts that a reader needs to judge and to repeat the comparison."""
    command = shlex.join(["scripts/bench", "ids", *sys.argv[1:]])
    command = re.sub(r"(--data[ =])('[^']*'|\S+)", r"\1FOLDER", command)
    yield f"Command: `{command}`, which took {seconds / 60:.0f} minutes"
    packages = ("regex", "tiktoken", "tokenizers")
    versions = ", ".join(f"{package} {importlib.metadata.version(package)}" for package in packages)
    yield f"bpetite {bpetite.__version__}, {bpetite.engine} engine; {versions}"
    yield f"{platform.python_implementation()} {platform.python_version()}, {platform.platform()}"
    yield (
        f"bpetite splits text by Unicode {unicode}; test characters are chosen by Unicode "
        f"{unicodedata.unidata_version}, which this Python has"
    )
    yield (
        "english, code, multilingual, chinese: the whole text three times: in slices of 1 to 100 "
        "characters, of random lengths up to 100,000, and of 1,000,000"
    )
    yield (
        "generated: random texts of all of Unicode, single scripts, white space, contractions, "
        "digits, NUL, runs, special tokens, and tokens of the vocabulary"
    )
    yield (
        "broken bytes: generated texts in UTF-8 with inserted, removed and changed bytes, compared "
        "with `bytes.decode`: the ids of the text, or the error and its position"
    )
    yield (
        f"This engine ({instruction_set() or bpetite.engine}) is compared with the libraries, the "
        "other engines with it: lists, arrays, ids of bytes, and counts"
    )
    yield (
        "*ids differ*: slices with other ids; *decoding differs*: slices whose ids do not decode "
        "to the slice"
    )


def unicode_version(folder: Path) -> str:
    """Return the Unicode version of bpetite, which its files name."""
    path = folder / "version.json"
    Tokenizer.train("", 256, pattern="(?s).").save(path)
    version: str = json.loads(path.read_bytes())["unicode_version"]
    return version


# Vocabularies


@dataclass(frozen=True)
class Library:
    """Another library with the same vocabulary."""

    name: str
    encode: Callable[[str], list[int]]
    decode: Callable[[list[int]], str]


@dataclass(frozen=True)
class Subject:
    """A vocabulary, the libraries that have it too, and the texts to compare."""

    name: str
    tokenizer: Tokenizer
    libraries: Sequence[Library]
    texts: Mapping[str, Cases]


def subjects_of(
    data: Path, folder: Path, generated: int = 0, *, alone: bool = False
) -> Iterator[Subject]:
    """Yield each vocabulary in `data`, with `generated` random texts; `folder` is temporary.

    If `alone`, there are no other libraries.
    """
    texts: dict[str, Cases] = {
        name: partial(slices_of, (data / f"{name}.txt").read_bytes().decode("utf-8"))
        for name in TEXTS
    }
    for name, (public_name, file) in PUBLIC.items():
        say(f"{name}: loading")
        tokenizer = Tokenizer.load(data / file)
        libraries = []
        if not alone:
            encoding = public_encoding(public_name, data)
            libraries = [in_tiktoken(encoding), in_tokenizers(tokenizer, folder)]
        all_texts = {**texts, **adversarial_texts(tokenizer)}
        if generated:
            all_texts[GENERATED] = partial(generated_texts, tokenizer, generated)
        yield Subject(name, tokenizer, libraries, all_texts)
    say("GPT-2, special tokens that overlap: loading")
    vocab = data / "gpt2_vocab.json"
    yield from overlapping_subjects(
        lambda special_tokens: Tokenizer.load(
            vocab, special_tokens={"<|endoftext|>": 50256, **special_tokens}
        ),
        "GPT-2",
        folder,
        alone=alone,
    )


def in_tiktoken(encoding: tiktoken.Encoding) -> Library:
    """Return tiktoken with a vocabulary."""
    return Library(
        f"tiktoken {importlib.metadata.version('tiktoken')}",
        partial(encoding.encode, allowed_special="all"),
        encoding.decode,
    )


def in_tokenizers(tokenizer: Tokenizer, folder: Path) -> Library:
    """Return tokenizers with the tokenizer.json that bpetite writes."""
    path = folder / "tokenizer.json"
    tokenizer.save(path, overwrite=True)
    twin = tokenizers.Tokenizer.from_file(str(path))

    def encode(text: str) -> list[int]:
        ids: list[int] = twin.encode(text, add_special_tokens=False).ids
        return ids

    return Library(
        f"tokenizers {importlib.metadata.version('tokenizers')}",
        encode,
        partial(twin.decode, skip_special_tokens=False),
    )


def overlapping_subjects(
    load: Callable[[dict[str, int]], Tokenizer], name: str, folder: Path, *, alone: bool = False
) -> Iterator[Subject]:
    """Yield a vocabulary with overlapping special tokens, and one where some begin others.

    `load` returns the vocabulary with the given special tokens.
    """
    literals = ["⟨a", "a⟩", "⟩⟨", "⟩ ⟨", " a "]
    for words, more in (("that overlap", []), ("that begin others", ["⟨a⟩", "a⟩⟨a", "⟩⟨a⟩"])):
        ids = {literal: id for id, literal in enumerate(literals + more, 100_000)}
        tokenizer = load(ids)
        libraries = [] if alone else [in_tokenizers(tokenizer, folder)]
        # If one literal begins another, tiktoken may find either.
        if not more and not alone:
            libraries.insert(0, in_tiktoken(saved_encoding(tokenizer, folder)))
        what = f"special tokens {words}"
        yield Subject(f"{name}, {what}", tokenizer, libraries, {"all of up to 6 parts": brackets})


# Texts


def slices_of(text: str, longest: int = 100_000, whole: int = 1_000_000) -> Iterator[str]:
    """Yield a text three times: in slices of 1 to 100 characters, random ones, large ones."""
    draw = random.Random(0).uniform
    start = length = 0
    while start < len(text):
        length = length % 100 + 1
        yield text[start : start + length]
        start += length
    start = 0
    while start < len(text):
        length = int(longest ** draw(0, 1))
        yield text[start : start + length]
        start += length
    for start in range(0, len(text), whole):
        yield text[start : start + whole]


def adversarial_texts(tokenizer: Tokenizer) -> dict[str, Cases]:
    """Return the hard cases by name."""
    return {
        "runs of one character": runs,
        "every code point": code_points,
        "line ends, digits, marks, unassigned": mixtures,
        "contractions": contractions,
        "special tokens": partial(special_texts, list(tokenizer.special_tokens)),
        "ids in any order": partial(any_ids, tokenizer),
    }


@cache
def characters_by_category() -> dict[str, list[str]]:
    """Return the characters of each general category."""
    characters: dict[str, list[str]] = {}
    for code in (*range(0xD800), *range(0xE000, sys.maxunicode + 1)):
        characters.setdefault(unicodedata.category(chr(code)), []).append(chr(code))
    return characters


RUN_LENGTHS = (
    *range(1, 10), 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 255, 256, 257, 1000,
    4095, 4096, 4097, 10_000, 100_000,
)  # fmt: skip
"""Lengths around powers of two, where limits are likely."""


def runs(lengths: Iterable[int] = RUN_LENGTHS) -> Iterator[str]:
    """Yield runs of a character of each category, alone and, if short, between words."""
    chosen = [
        characters[index]
        for characters in characters_by_category().values()
        for index in {0, len(characters) // 2, len(characters) - 1}
    ]
    for length in lengths:
        for run in (*chosen, *" \n\r\t\0aAſK'’/-_=~#1½中あ한🙂\u0301\u200d\ufe0f", "\r\n", "'s"):
            yield run * length
            if length <= 1000:
                yield f"a {run * length}1b{run * length} "


def code_points(step: int = 1) -> Iterator[str]:
    """Yield every code point alone, and between letters, digits, symbols and spaces."""
    codes = [*range(0, 0xD800, step), *range(0xE000, sys.maxunicode + 1, step)]
    yield from map(chr, codes)
    for start in range(0, len(codes), 50):
        yield "".join(
            f"a{c}b {c}é 1{c}2 .{c}!{c}{c}'{c}\n{c}" for c in map(chr, codes[start : start + 50])
        )


def mixtures(count: int = 4000) -> Iterator[str]:
    """Yield `count` texts of each kind of characters that patterns distinguish, and of all."""
    by_category = characters_by_category()

    def of(*categories: str) -> list[str]:
        return [character for name in categories for character in by_category[name]]

    spaces = [c for c in of("Cc", "Zs", "Zl", "Zp") if c.isspace()]
    line_ends = [*spaces, *"\0\u200b\ufeff", "\r\n", "\n\n", "\r\n\r\n", "\n\r", "  ", "\t\t"]
    line_ends += ["\n", "\r", "\r\n", " ", "/", "//", "a", "A", "1", ".", "é", "中"] * 3
    digits = [*of("Nd", "Nl", "No"), *(str(number) for number in range(0, 3000, 7))]
    digits += [*" ,.-:/+%a ", "×", "年", "\u0301"] * 100
    marks = [*of("Mn", "Mc", "Me"), *"\u200d\u200c\ufe0f\ufe0e\u034f" * 50]
    marks += [*"aeiouAEZ éß中अกع🙂👩🇩1.'\n "] * 50
    unassigned = [*of("Cn", "Co", "Cf"), *(character for character in " aZé1.\n中'" for _ in marks)]
    letters = [*of("Lt", "Lm"), *"aBcDéÉßſKﬁﬆªºʰ", *"ǅĲŉΣςσİıẞ", "\u0345", "'", "’", "_", "-", "1"]
    kinds = [line_ends, digits, marks, unassigned, letters]
    choose = random.Random(0)
    for kind in kinds:
        for _ in range(count):
            yield "".join(choose.choices(kind, k=choose.randrange(1, 60)))
    for _ in range(count):
        yield "".join(choose.choice(choose.choice(kinds)) for _ in range(choose.randrange(1, 200)))
    everything = list(by_category.values())
    for _ in range(count):
        yield "".join(
            choose.choice(choose.choice(everything)) for _ in range(choose.randrange(1, 200))
        )


def contractions() -> Iterator[str]:
    """Yield contractions in all cases and with all apostrophes, between other characters."""
    cases = {word[0]: word for word in ("sSſ", "tT", "rR", "eE", "vV", "mM", "lLŁ", "dD")}
    words = ["", "K", "ß", "ﬆ", "ﬅ", "s\u0301", "\0"]
    for word in ("s", "t", "re", "ve", "m", "ll", "d", "st", "res"):
        words += map("".join, product(*(cases[letter] for letter in word)))
    before = ["", "a", "A", "don", "é", "中", "ſ", "1", ".", " ", "\n", "'", "\u0301", "\0"]
    after = ["", "s", "S", "é", "ſ", "1", ".", " ", " a", "\n", "'", "'s", "\u0301", "\0"]
    for start, apostrophe, word, end in product(before, ("'", "’", "ʼ", "＇"), words, after):
        yield start + apostrophe + word + end


def special_texts(literals: Sequence[str]) -> Iterator[str]:
    """Yield texts with adjacent, truncated and nested special tokens."""
    around = ["", *" a1.\n<\0é🙂", " a", "'s", "\r\n", "  ", "<|", "|>"]
    for literal in literals:
        yield from (start + literal + end for start, end in product(around, around))
        for cut in range(1, len(literal)):
            beginning, end = literal[:cut], literal[cut:]
            yield from (beginning, end, end + beginning, beginning + literal, literal + end)
            yield from (end + literal + beginning, beginning + literal + end, beginning + " " + end)
            yield from (beginning + each + end for each in literals)
        yield from (literal.upper(), literal.title(), literal * 3, f"{literal} " * 1000)
    for texts in product([*literals, "a ", "\n"], repeat=3):
        yield "".join(texts)


def any_ids(tokenizer: Tokenizer, count: int = 20_000, step: int = 1) -> Iterator[list[int]]:
    """Yield each id alone, and `count` random lists of ids."""
    ids = []
    for id in range(0, tokenizer.n_vocab, step):
        try:
            tokenizer.token_bytes(id)
        except KeyError:
            continue
        ids.append(id)
        yield [id]
    choose = random.Random(0)
    for _ in range(count):
        yield choose.choices(ids, k=choose.randrange(2, 60))


def brackets(longest: int = 6) -> Iterator[str]:
    """Yield all texts of up to `longest` parts of overlapping literals."""
    for length in range(1, longest + 1):
        yield from map("".join, product(("⟨", "a", "⟩", " ", "1"), repeat=length))


GENERATED = "generated"

SCRIPTS = (
    (0x20, 0x7F), (0x80, 0x250), (0x370, 0x400), (0x400, 0x530), (0x590, 0x700), (0x900, 0xE00),
    (0xE00, 0xE80), (0x1100, 0x1200), (0x1E00, 0x2000), (0x2000, 0x2070), (0x2460, 0x2500),
    (0x3000, 0x3100), (0x3400, 0x9FFF), (0xA000, 0xA500), (0xAC00, 0xD7A4), (0xF900, 0xFB07),
    (0xFE00, 0x10000), (0x10000, 0x10500), (0x1D400, 0x1D800), (0x1F300, 0x1FB00),
    (0x20000, 0x2A6E0), (0xE0000, 0xE01F0),
)  # fmt: skip
"""Ranges of code points; some texts are of one or two of them."""

SPACES = [" ", "  ", "\t", "\n", "\r\n", "\r", "\n\n", "\x0b", "\x0c", "\x85", "\xa0", "\u2003"]
SPACES += ["\u2028", "\u3000", "\u200b", "\ufeff", "\x1c", "\0", "a", "1", ".", "é", "中"]
ENDINGS = ["'s", "'S", "'t", "'re", "'RE", "'ve", "'m", "'ll", "'lL", "'d", "'ſ", "’s", "'", "''"]
ENDINGS += ["don", "I", "we", "É", " ", " a", "\n", ".", "1", "中", "'x", "'l", "'r", "'v"]
DIGITS = [*"0123456789" * 3, *" .,-:/%", "٣", "५", "½", "²", "Ⅷ", "①", "a", "\n", "\u0301"]
WORDS = [*"abcdefghijklmnopqrstuvwxyz" * 2, *"ABCDEFGHIJ", *" " * 12, *"\n.,;!?'-_/\"()=é"]


def generated_texts(tokenizer: Tokenizer, count: int, seed: int = 0) -> Iterator[str]:
    """Yield `count` random texts of up to 300 characters, rarely of up to 5,000."""
    rng = random.Random(seed)
    tokens = [tokenizer.token_bytes(id) for id in tokenizer.ids]
    specials = [*tokenizer.special_tokens, "<|", "|>", "<|endof", " ", "\n", "a", "'s", "\0"]

    def of_unicode(length: int) -> str:
        codes = (rng.randrange(0x110000) for _ in range(length))
        return "".join(chr(code) for code in codes if not 0xD800 <= code < 0xE000)

    def of_scripts(length: int) -> str:
        scripts = rng.choices(SCRIPTS, k=2)
        return "".join(chr(rng.randrange(*rng.choice(scripts))) for _ in range(length))

    def of_tokens(length: int) -> str:
        return b"".join(rng.choices(tokens, k=length // 3 + 1)).decode("utf-8", "ignore")

    def of_runs(length: int) -> str:
        parts = rng.choices([*SPACES, *DIGITS, *WORDS], k=rng.randrange(1, 5))
        return "".join(part * rng.randrange(1, length + 1) for part in parts)

    def of(parts: list[str]) -> Callable[[int], str]:
        return lambda length: "".join(rng.choices(parts, k=length))

    kinds = [of_unicode, of_scripts, of_tokens, of_tokens, of_runs, of(SPACES), of(ENDINGS)]
    kinds += [of(DIGITS), of(WORDS), of(specials), of([*SPACES, *ENDINGS, *DIGITS, *WORDS])]
    for _ in range(count):
        longest = 40 if rng.random() < 0.7 else 300 if rng.random() < 0.97 else 5000
        yield rng.choice(kinds)(rng.randrange(1, longest))


def broken_bytes(tokenizer: Tokenizer, count: int) -> Iterator[bytes]:
    """Yield `count` random texts in UTF-8 with some bytes inserted, removed or changed."""
    rng = random.Random(1)
    for text in generated_texts(tokenizer, count, seed=1):
        data = bytearray(text.encode("utf-8"))
        for _ in range(rng.choice((0, 1, 1, 1, 2, 5))):
            start = rng.randrange(len(data) + 1)
            byte = rng.choice((rng.randrange(256), rng.randrange(0x80, 0x100), 0xED, 0xF4, 0xC0))
            data[start : start + rng.randrange(2)] = [byte] * rng.randrange(2)
        yield bytes(data)


# Comparing


@dataclass
class Tally:
    """The number of compared slices, and of differences."""

    slices: int = 0
    size: int = 0
    ids_differ: int = 0
    decoding_differs: int = 0

    def add(self, other: Tally) -> None:
        """Add the counts of another tally."""
        self.slices += other.slices
        self.size += other.size
        self.ids_differ += other.ids_differ
        self.decoding_differs += other.decoding_differs

    @property
    def is_equal(self) -> bool:
        """Whether there was no difference."""
        return self.ids_differ == self.decoding_differs == 0


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    vocabulary: str
    compared_with: str
    text: str
    tally: Tally = field(default_factory=Tally)

    def __str__(self) -> str:
        tally = self.tally
        return (
            f"| {self.vocabulary} | {self.compared_with} | {self.text} | {tally.slices:,} | "
            f"{tally.size:,} | {tally.ids_differ:,} | {tally.decoding_differs:,} |"
        )


@dataclass(frozen=True)
class Work:
    """The work of a process of another engine."""

    data: Path
    share: float
    generated: int

    def cases(self, subject: Subject, text: str) -> Iterator[Case]:
        """Yield the cases of a text, or the requested share of them."""
        return chosen(subject.texts[text](), 1 if text == GENERATED else self.share)


@dataclass(frozen=True)
class Engine:
    """Another engine or instruction set in a process of its own."""

    name: str
    executor: ProcessPoolExecutor


def rows_of(subject: Subject, work: Work, engines: Sequence[Engine] = ()) -> Iterator[Row]:
    """Yield the rows of a vocabulary."""
    rows = []
    totals = {engine.name: Tally() for engine in engines}
    for text in subject.texts:
        start = time.perf_counter()
        futures: list[Future[array[int]]] = [
            engine.executor.submit(digests_elsewhere, work, subject.name, text)
            for engine in engines
        ]
        digests = array("Q")
        tallies = compare(
            subject.tokenizer, subject.libraries, work.cases(subject, text), digests.append
        )
        for library, tally in zip(subject.libraries, tallies, strict=True):
            rows.append(Row(subject.name, library.name, text, tally))
        slices = tallies[0].slices
        for engine, future in zip(engines, futures, strict=True):
            theirs = future.result()
            differing = [
                n for n, pair in enumerate(zip(digests, theirs, strict=True)) if len({*pair}) > 1
            ]
            if differing:
                first = next(
                    c for n, c in enumerate(work.cases(subject, text)) if n == differing[0]
                )
                say(f"{engine.name} has other results for {first!a}")
            tally = Tally(slices, tallies[0].size, len(differing), 0)
            totals[engine.name].add(tally)
            tallies.append(tally)
        result = "equal" if all(tally.is_equal for tally in tallies) else "DIFFERENT"
        seconds = time.perf_counter() - start
        say(f"{subject.name}: {text}: {slices:,} slices, {seconds:.0f} s: {result}")
        if text == GENERATED:
            rows += broken_rows(subject, work, engines)
    for engine in engines:
        rows.append(
            Row(subject.name, f"bpetite, {engine.name}", "all of these", totals[engine.name])
        )
    order = list(dict.fromkeys(row.compared_with for row in rows))
    yield from sorted(rows, key=lambda row: order.index(row.compared_with))


def broken_rows(subject: Subject, work: Work, engines: Sequence[Engine]) -> Iterator[Row]:
    """Yield the rows of broken bytes, for this engine and for others."""
    futures = [engine.executor.submit(broken_elsewhere, work, subject.name) for engine in engines]
    tallies = {"in use": compare_broken(subject.tokenizer, work.generated // 10)}
    tallies |= {
        engine.name: future.result() for engine, future in zip(engines, futures, strict=True)
    }
    for name, tally in tallies.items():
        yield Row(subject.name, f"bytes.decode (engine {name})", "broken bytes", tally)


def chosen(cases: Iterable[Case], share: float) -> Iterator[Case]:
    """Yield the share of cases, evenly spread."""
    for number, case in enumerate(cases, 1):
        if int(number * share) > int((number - 1) * share):
            yield case


def compare(
    tokenizer: Tokenizer,
    libraries: Sequence[Library],
    cases: Iterable[Case],
    note: Callable[[int], None] = lambda _: None,
) -> list[Tally]:
    """Return the differences of each library, and print the first one.

    `note` gets a digest of each case, to compare with `digests_elsewhere`.
    """
    tallies = [Tally() for _ in libraries]
    for case in cases:
        text, ids, is_decoded = results_of(tokenizer, case)
        note(digest(text, ids, is_decoded))
        size = len(text.encode("utf-8"))
        given = ids if isinstance(case, str) else case
        for library, tally in zip(libraries, tallies, strict=True):
            tally.slices += 1
            tally.size += size
            if library.encode(text) != ids:
                if not tally.ids_differ:
                    say_difference(tokenizer, library, text)
                tally.ids_differ += 1
            if not is_decoded or library.decode(given) != text:
                if not tally.decoding_differs:
                    more = " ..." if len(given) > 20 else ""
                    say(f"{library.name} decodes {given[:20]}{more} differently")
                tally.decoding_differs += 1
    return tallies


def results_of(tokenizer: Tokenizer, case: Case) -> tuple[str, list[int], bool]:
    """Return the text, its ids, and whether decoding, arrays, bytes and counts agree with them."""
    text = case if isinstance(case, str) else tokenizer.decode(case, errors="replace")
    ids = tokenizer.encode(text)
    in_array = tokenizer.encode_array(text)
    agrees = in_array.tolist() == ids and tokenizer.count(text) == len(ids)
    if isinstance(case, str):
        data = text.encode("utf-8")
        agrees &= tokenizer.decode(ids) == text and tokenizer.decode_bytes(in_array) == data
        if bpetite.engine == "native":  # the Python engine decodes bytes first
            agrees &= tokenizer.encode(data) == ids
    return text, ids, agrees


# Other engines


def other_engines(stack: ExitStack) -> list[Engine]:
    """Start a process for each other instruction set, and for the Python engine."""
    if bpetite.engine == "python":
        return []
    engines = []
    for name in INSTRUCTION_SETS:
        executor = stack.enter_context(new_process({"BPETITE_SIMD": name}, one_cpu=False))
        if name != instruction_set() and executor.submit(instruction_set).result() == name:
            engines.append(Engine(f"native, {name}", executor))
    python = stack.enter_context(new_process({"BPETITE_ENGINE": "python"}, one_cpu=False))
    return [*engines, Engine("Python", python)]


@cache
def subjects_elsewhere(work: Work) -> dict[str, Subject]:
    """Return the vocabularies in a process without other libraries."""
    with tempfile.TemporaryDirectory() as folder:
        subjects = subjects_of(work.data, Path(folder), work.generated, alone=True)
        return {subject.name: subject for subject in subjects}


def digests_elsewhere(work: Work, subject_name: str, text: str) -> array[int]:
    """Return the digests that `compare` notes."""
    subject = subjects_elsewhere(work)[subject_name]
    digests = array("Q")
    for case in work.cases(subject, text):
        digests.append(digest(*results_of(subject.tokenizer, case)))
    return digests


def digest(text: str, ids: Sequence[int], is_decoded: bool) -> int:
    """Return a 64-bit hash of the results."""
    content = array("I", ids).tobytes() + text.encode("utf-8") + bytes([is_decoded])
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "little")


# Bytes


def broken_elsewhere(work: Work, subject_name: str) -> Tally:
    """Run `compare_broken` in a process of another engine."""
    return compare_broken(subjects_elsewhere(work)[subject_name].tokenizer, work.generated // 10)


def compare_broken(tokenizer: Tokenizer, count: int) -> Tally:
    """Compare the ids of bytes with the ids of their text, or the errors."""
    tally = Tally()
    for data in broken_bytes(tokenizer, count):
        tally.slices += 1
        tally.size += len(data)
        expected: object
        try:
            expected = tokenizer.encode(data.decode("utf-8"))
        except UnicodeDecodeError as error:
            expected = error.args
        for encode in (tokenizer.encode, lambda data: tokenizer.encode_array(data).tolist()):
            found: object
            try:
                found = encode(data)
            except UnicodeDecodeError as error:
                found = error.args
            if found != expected:
                if not tally.ids_differ:
                    say(f"{data!r}: expected {expected}, got {found}")
                tally.ids_differ += 1
    return tally


def say_difference(tokenizer: Tokenizer, library: Library, text: str) -> None:
    """Print the ids of a short text that shows the difference."""
    text = shrunk(text, lambda text: tokenizer.encode(text) != library.encode(text), 2000)
    say(f"{text!a}: bpetite has {tokenizer.encode(text)}, {library.name} {library.encode(text)}")


if __name__ == "__main__":
    main()
