"""Chunks of a text within a budget, beside other libraries: speed, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from benchmarks.measure import Bench, Subject, first_bytes, say, timed
from benchmarks.peers import encoding_of, is_installed, module
from benchmarks.table import MB, Line, Row, Target, bare_speed

BUDGET = 512
HALF_OF_COUNT = Target(low=0.5, unit=" × count")

Part = tuple[str, int | None]
"""The text of a chunk, and where it starts, if the library says so."""

Chunker = Callable[[str], Sequence[Part]]


class Library(NamedTuple):
    """A library that makes chunks."""

    name: str
    package: str
    open: Callable[[Subject], Chunker]


def open_tiktoken(subject: Subject) -> Chunker:
    """Return what most programs do: slices of ids, each decoded by itself."""
    encoding = encoding_of(subject)

    def chunks(text: str) -> list[Part]:
        ids = encoding.encode_ordinary(text)
        slices = (ids[start : start + BUDGET] for start in range(0, len(ids), BUDGET))
        return [(encoding.decode(part), None) for part in slices]

    return chunks


def open_semchunk(subject: Subject) -> Chunker:
    # Without its memory of counts, which a text that repeats would profit from.
    chunker = module("semchunk").chunkerify(encoding_of(subject), BUDGET, memoize=False)

    def chunks(text: str) -> list[Part]:
        parts, places = chunker(text, offsets=True)
        return [(part, start) for part, (start, _) in zip(parts, places, strict=True)]

    return chunks


def open_text_splitter(subject: Subject) -> Chunker:
    splitter = module("semantic_text_splitter").TextSplitter.from_huggingface_tokenizer_str(
        subject.json.decode(), BUDGET
    )
    return lambda text: [(part, start) for start, part in splitter.chunk_indices(text)]


def open_chonkie(subject: Subject) -> Chunker:
    chunker = module("chonkie").TokenChunker(
        tokenizer=encoding_of(subject), chunk_size=BUDGET, chunk_overlap=0
    )
    return lambda text: [(chunk.text, chunk.start_index) for chunk in chunker.chunk(text)]


def open_langchain(subject: Subject) -> Chunker:
    encoding = encoding_of(subject)
    splitter = module("langchain_text_splitters").RecursiveCharacterTextSplitter(
        chunk_size=BUDGET,
        chunk_overlap=0,
        length_function=lambda text: len(encoding.encode_ordinary(text)),
        add_start_index=True,
    )

    def chunks(text: str) -> list[Part]:
        documents: Any = splitter.create_documents([text])
        return [(part.page_content, part.metadata["start_index"]) for part in documents]

    return chunks


LIBRARIES = (
    Library("tiktoken, slices of ids", "tiktoken", open_tiktoken),
    Library("semchunk", "semchunk", open_semchunk),
    Library("text-splitter", "semantic-text-splitter", open_text_splitter),
    Library("chonkie, TokenChunker", "chonkie", open_chonkie),
    Library("LangChain, recursive", "langchain-text-splitters", open_langchain),
)


def chunk_header() -> Line:
    """Return the column titles."""
    return (
        *("text, library", "MB/s", "chunks", "characters in no chunk"),
        *("chunks over the budget", "wrong places"),
    )


def chunk_rows(bench: Bench) -> Iterator[Row]:
    """Cut English and many languages into chunks, with cl100k."""
    (subject,) = bench.subjects("cl100k")
    for name in ("english", "multilingual"):
        if name not in bench.samples:
            continue
        yield _ours(bench, subject, name, bench.samples[name])
        text = first_bytes(bench.samples[name], MB)
        for library in LIBRARIES:
            if not is_installed(library.package):
                say(f"{library.package} is not installed")
                continue
            chunks = library.open(subject)
            seconds = bench.measure(timed(chunks, text))
            yield _row(subject, name, library.name, text, chunks, seconds)


def _ours(bench: Bench, subject: Subject, name: str, text: str) -> Row:
    tokenizer = subject.tokenizer

    def chunks(text: str) -> list[Part]:
        return [
            (chunk.text, chunk.start)
            for chunk in tokenizer.chunks(text, BUDGET, allowed_special=())
        ]

    count = timed(lambda: tokenizer.count(text, allowed_special=()))
    ours = timed(chunks, text)
    count(), ours()
    ratio = bench.compare(ours, count)
    seconds = bench.measure(ours)
    row = _row(subject, name, "bpetite", text, chunks, seconds)
    share = sum(theirs for _, theirs in ratio.turns) / sum(us for us, _ in ratio.turns)
    return Row(row.cells, [HALF_OF_COUNT.check(f"{name}, chunks", share)])


def _row(
    subject: Subject, name: str, library: str, text: str, chunks: Chunker, seconds: float
) -> Row:
    """Return the row of a library, with what is wrong with its chunks."""
    parts = chunks(text)
    count = subject.tokenizer.count
    over = sum(count(part, allowed_special=()) > BUDGET for part, _ in parts)
    places = [(part, start) for part, start in parts if start is not None]
    wrong = sum(text[start : start + len(part)] != part for part, start in places)
    return Row(
        (
            f"{name}, {library}",
            bare_speed(len(text.encode()))(seconds),
            f"{len(parts):,}",
            f"{lost_characters(text, [part for part, _ in parts]):,}",
            f"{over:,}",
            f"{wrong:,}" if places else "none given",
        )
    )


def lost_characters(text: str, parts: Sequence[str]) -> int:
    """Return the number of characters of a text that are in none of its parts, in order.

    >>> lost_characters("a bc d", ["a", "bc", "?"])
    3
    """
    end = found = 0
    for part in parts:
        start = text.find(part, end, end + 2 * len(part) + 1000)
        if start >= 0:
            end = start + len(part)
            found += len(part)
    return len(text) - found
