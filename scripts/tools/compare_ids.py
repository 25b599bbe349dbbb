"""Compare ids and decoded text with tiktoken and tokenizers; print a Markdown table.

The vocabularies are GPT-2, GPT-4 (cl100k) and GPT-4o (o200k). bpetite and tiktoken read the public
files, and tokenizers reads the tokenizer.json that bpetite writes. (`scripts/fuzz` compares the two
engines.) The table goes to standard output, and progress to standard error. The exit code is 1 if
anything differs.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import platform
import random
import sys
import tempfile
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from functools import cache, partial
from itertools import product
from pathlib import Path

import tiktoken
import tokenizers
from benchmarks.measure import say

import bpetite
from bpetite import Tokenizer
from tools.public import PUBLIC as PUBLIC
from tools.public import public_encoding
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

LIBRARIES = ("tiktoken", "tokenizers")

Case = str | list[int]
"""A text, or a list of ids that stands for its decoded text."""


def main() -> None:
    """Compare everything, print the table, and exit with 1 if anything differs."""
    parser = argparse.ArgumentParser(prog="scripts/bench ids", description=__doc__)
    has = f"a folder with {', '.join(FILES)}; texts are UTF-8"
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER", help=has)
    data: Path = parser.parse_args().data
    if missing := [name for name in FILES if not (data / name).is_file()]:
        parser.error(f"--data: {data} has no {', '.join(missing)}")
    versions = (f"{name} {importlib.metadata.version(name)}" for name in ("regex", *LIBRARIES))
    print(f"bpetite {bpetite.__version__}, {bpetite.engine} engine; {', '.join(versions)};")
    print(f"Python {platform.python_version()}, Unicode {unicodedata.unidata_version}\n")
    print("| vocabulary | compared with | slices | bytes | ids differ | decoding differs |")
    print("|---|---|--:|--:|--:|--:|")
    sums = []
    with tempfile.TemporaryDirectory() as folder:
        for subject, texts in work(data, Path(folder)):
            tallies = []
            for name, cases in texts.items():
                say(f"{subject.name}: {name}")
                tallies.append(compare(subject.tokenizer, subject.libraries, cases))
            columns = zip(*tallies, strict=True)
            for library, column in zip(subject.libraries, columns, strict=True):
                sums.append(summed(column))
                print(f"| {subject.name} | {library.name} | {sums[-1]} |", flush=True)
    total = summed(sums)
    print(f"| **all** | | {total} |")
    sys.exit(total.ids_differ + total.decoding_differs > 0)


def work(data: Path, folder: Path) -> Iterator[tuple[Subject, dict[str, Iterable[Case]]]]:
    """Yield each vocabulary in `data` with its texts; `folder` is temporary."""
    for name, (public_name, file) in PUBLIC.items():
        say(f"{name}: loading")
        tokenizer = Tokenizer.load(data / file)
        encoding = public_encoding(public_name, data)
        subject = Subject(
            name, tokenizer, [in_tiktoken(encoding), in_tokenizers(tokenizer, folder)]
        )
        texts: dict[str, Iterable[Case]] = {
            name: slices_of((data / f"{name}.txt").read_bytes().decode("utf-8")) for name in TEXTS
        }
        yield (
            subject,
            {
                **texts,
                "runs of one character": runs(),
                "every code point": code_points(),
                "line ends, digits, marks, unassigned": mixtures(),
                "contractions": contractions(),
                "special tokens": special_texts(list(tokenizer.special_tokens)),
                "ids in any order": any_ids(tokenizer),
            },
        )
    vocab, end = data / "gpt2_vocab.json", {"<|endoftext|>": 50256}
    for subject in overlapping_subjects(
        lambda literals: Tokenizer.load(vocab, special_tokens={**end, **literals}), "GPT-2", folder
    ):
        yield subject, {"all of up to 6 parts": brackets()}


# Vocabularies


@dataclass(frozen=True)
class Library:
    """Another library with the same vocabulary."""

    name: str
    encode: Callable[[str], list[int]]
    decode: Callable[[list[int]], str]


@dataclass(frozen=True)
class Subject:
    """A vocabulary, and the libraries that have it too."""

    name: str
    tokenizer: Tokenizer
    libraries: Sequence[Library]


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
    load: Callable[[dict[str, int]], Tokenizer], name: str, folder: Path
) -> Iterator[Subject]:
    """Yield two vocabularies: special tokens overlap in one, and some begin others in the other.

    `load` returns a vocabulary with the given special tokens.
    """
    literals = ["⟨a", "a⟩", "⟩⟨", "⟩ ⟨", " a "]
    for words, more in (("that overlap", []), ("that begin others", ["⟨a⟩", "a⟩⟨a", "⟩⟨a⟩"])):
        ids = {literal: id for id, literal in enumerate(literals + more, 100_000)}
        tokenizer = load(ids)
        libraries = [in_tokenizers(tokenizer, folder)]
        # If one literal begins another, tiktoken may find either.
        if not more:
            # Not by a file, because files of public ranks are refused with other special tokens.
            special_tokens = dict(tokenizer.special_tokens)
            ordinary = {*tokenizer.ids} - {*special_tokens.values()}
            encoding = tiktoken.Encoding(
                "overlapping",
                pat_str=tokenizer.patterns[0],
                mergeable_ranks={tokenizer.token_bytes(id): id for id in ordinary},
                special_tokens=special_tokens,
            )
            libraries.insert(0, in_tiktoken(encoding))
        yield Subject(f"{name}, special tokens {words}", tokenizer, libraries)


# Texts


def slices_of(text: str, longest: int = 100_000, whole: int = 1_000_000) -> Iterator[str]:
    """Yield a text three times: in slices of 1 to 100 characters, random slices, large slices."""
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
    """Yield `count` texts for each kind of character that patterns distinguish, and for all."""
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
    for groups in (kinds, [*by_category.values()]):
        for _ in range(count):
            length = choose.randrange(1, 200)
            yield "".join(choose.choice(choose.choice(groups)) for _ in range(length))


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
    ids = [*tokenizer.ids][::step]
    yield from ([id] for id in ids)
    choose = random.Random(0)
    for _ in range(count):
        yield choose.choices(ids, k=choose.randrange(2, 60))


def brackets(longest: int = 6) -> Iterator[str]:
    """Yield all texts of up to `longest` parts of overlapping literals."""
    for length in range(1, longest + 1):
        yield from map("".join, product(("⟨", "a", "⟩", " ", "1"), repeat=length))


# Comparing


@dataclass
class Tally:
    """The number of compared slices, and of differences."""

    slices: int = 0
    size: int = 0
    ids_differ: int = 0
    decoding_differs: int = 0

    def __str__(self) -> str:
        return " | ".join(f"{number:,}" for number in astuple(self))


def summed(tallies: Iterable[Tally]) -> Tally:
    return Tally(*map(sum, zip(*map(astuple, tallies), strict=True)))


def compare(
    tokenizer: Tokenizer,
    libraries: Sequence[Library],
    cases: Iterable[Case],
) -> list[Tally]:
    """Return the differences of each library, and print the first one."""
    tallies = [Tally() for _ in libraries]
    for case in cases:
        text, ids, is_decoded = results_of(tokenizer, case)
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
    in_array = tokenizer.encode(text, dtype="uint32")
    agrees = in_array.tolist() == ids and tokenizer.count(text) == len(ids)
    if isinstance(case, str):
        data = text.encode("utf-8")
        agrees &= tokenizer.decode(ids) == text and tokenizer.decode_bytes(in_array) == data
        if bpetite.engine == "native":  # the Python engine decodes bytes first
            agrees &= tokenizer.encode(data) == ids
    return text, ids, agrees


def say_difference(tokenizer: Tokenizer, library: Library, text: str) -> None:
    """Print the ids of a short text that shows the difference."""
    text = shrunk(text, lambda text: tokenizer.encode(text) != library.encode(text), 2000)
    say(f"{text!a}: bpetite has {tokenizer.encode(text)}, {library.name} {library.encode(text)}")


if __name__ == "__main__":
    main()
