"""Piece counts add up, train the vocabulary of their text, and live in files that are whole."""

from __future__ import annotations

import hashlib
import io
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.engines import native_only
from support.examples import few_examples, slow_except

import bpetite
from bpetite import PATTERNS, PieceCounts, Tokenizer, TrainingProgress
from bpetite import _piece_records as records_module
from bpetite._engine.chosen import ENGINE
from bpetite._piece_counts import counts as counts_module
from bpetite._piece_counts import file as file_module
from bpetite._piece_counts.file import Header
from bpetite._piece_counts.shares import share_weights
from bpetite._piece_records import MAX_COUNT, RecordError, write_records
from bpetite._pretokenizer import Pretokenizer
from conftest import TEXTS

any_pattern = st.sampled_from([*PATTERNS, r"\w+|\W"])

any_documents = st.lists(
    st.one_of(
        st.text(st.sampled_from("ab \n'sé你🙂1"), max_size=60),
        st.text(max_size=20),
        st.sampled_from(["<|endoftext|> a", "the hen then met the ten men", "word " * 40]),
    ),
    max_size=5,
)


def counts_of(*documents: str, pattern: str = "gpt2") -> PieceCounts:
    return PieceCounts.from_corpus(documents, pattern=pattern)


def saved(counts: PieceCounts, path: Path) -> bytes:
    """Return the bytes of the file of counts."""
    counts.save(path, overwrite=True)
    return path.read_bytes()


def trained(corpus: Any, path: Path, vocab_size: int = 300, **options: Any) -> bytes:
    """Return the bytes of the vocabulary file that a corpus gives."""
    Tokenizer.train(corpus, vocab_size, **options).save(path, overwrite=True)
    return path.read_bytes()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return one folder for files that tests overwrite."""
    return tmp_path_factory.mktemp("counts")


# What is counted


@given(any_documents, any_pattern)
def test_counts_match_the_pieces(documents: list[str], pattern: str) -> None:
    pretokenizer = Pretokenizer(PATTERNS.get(pattern, pattern))
    expected: Counter[str] = Counter()
    for document in documents:
        expected.update(pretokenizer.split_exactly(document))
    counts = counts_of(*documents, pattern=pattern)
    assert dict(counts.items()) == expected
    assert len(counts) == len(expected)
    assert counts.pieces == expected.total()
    assert counts.text_bytes == sum(len(document.encode()) for document in documents)
    assert (counts.min_count, counts.dropped_pieces) == (1, 0)


def test_pieces_are_in_the_order_of_their_bytes() -> None:
    counts = counts_of(*TEXTS.values(), "b\0 b aaaaaaaaaaaaaaaa aaaaaaaaaaaaaaab aaaaaaaaaaaaaaa")
    pieces = [piece.encode() for piece, _ in counts.items()]
    assert pieces == sorted(pieces)
    assert len(set(pieces)) == len(pieces)


def test_special_literals_are_ordinary_text() -> None:
    pieces = dict(counts_of("a<|endoftext|>").items())
    assert pieces == {"a": 1, "<|": 1, "endoftext": 1, "|>": 1}


@given(any_documents, any_pattern, st.sampled_from([1, 2, 7]))
def test_counts_do_not_depend_on_threads(documents: list[str], pattern: str, threads: int) -> None:
    counts = PieceCounts.from_corpus(documents, pattern=pattern, threads=threads)
    assert counts == counts_of(*documents, pattern=pattern)


@pytest.mark.parametrize("pattern", slow_except(PATTERNS, "gpt2", "o200k"))
def test_counts_of_long_documents_do_not_depend_on_threads(pattern: str) -> None:
    """Several blocks, one of a single piece; many distinct pieces, of all lengths."""
    count = 20_000 if bpetite.engine == "native" else 2_000
    of_all_lengths = (f" {'x' * (n % 40 + 1)}{n % 7}" for n in range(count))
    distinct = (f" {n * 99_991:x}é\r\n" for n in range(count))
    documents = ["".join([*of_all_lengths, *distinct]), "你" * 10 * count, "", "你", "a b"]
    pretokenizer = Pretokenizer(PATTERNS[pattern])
    expected = Counter(piece for text in documents for piece in pretokenizer.split(text))
    for threads in (1, 2, 5, 10**30) if bpetite.engine == "native" else (1,):
        counts = PieceCounts.from_corpus(documents, pattern=pattern, threads=threads)
        assert dict(counts.items()) == expected


@given(any_documents)
def test_counts_of_files_match_their_texts(documents: list[str]) -> None:
    files = [io.BytesIO(document.encode()) for document in documents]
    assert PieceCounts.from_corpus(files) == counts_of(*documents)


def test_lone_surrogates_may_be_replaced() -> None:
    assert PieceCounts.from_corpus("a\ud800b", errors="replace") == counts_of("a\ufffdb")
    with pytest.raises(UnicodeEncodeError):
        counts_of("a\ud800b")


def test_counting_reports_progress() -> None:
    seen: list[TrainingProgress] = []
    PieceCounts.from_corpus("ab ab", progress=seen.append)
    assert seen[-1] == TrainingProgress("counting", 5, 5)


# Items of other systems


@given(any_documents, any_pattern, st.randoms(use_true_random=False))
def test_items_in_any_order_are_the_counts(
    documents: list[str], pattern: str, rng: random.Random
) -> None:
    counts = counts_of(*documents, pattern=pattern)
    items = [*counts.items()] * 2
    rng.shuffle(items)
    assert PieceCounts.from_items(items, pattern=pattern) == counts * 2


def test_items_of_several_blocks_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts_module, "_ITEMS_IN_BLOCK", 3)
    counts = counts_of(*TEXTS.values())
    items = ((piece, 1) for piece, count in counts.items() for _ in range(count))
    assert PieceCounts.from_items(items) == counts


@pytest.mark.parametrize(
    ("item", "error", "message"),
    [
        ((b"a", 1), TypeError, "a piece must be a str, got bytes"),
        (("a", 1.0), TypeError, "a count must be an integer, got float"),
        (("", 1), ValueError, "a piece must not be empty"),
        (("a", 0), ValueError, "a count must be at least 1, got 0"),
        (("a\ud800", 1), UnicodeEncodeError, "surrogates not allowed"),
        (("a", 2**64), OverflowError, "a count exceeds 64 bits"),
        (("b", MAX_COUNT), OverflowError, "^the count of the piece 'b' exceeds 64 bits$"),
    ],
)
@pytest.mark.parametrize("block", [1, 100])
def test_wrong_items_are_refused(
    item: Any, error: type[Exception], message: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counts_module, "_ITEMS_IN_BLOCK", block)
    with pytest.raises(error, match=message):
        PieceCounts.from_items([("b", 1), item])


# Laws of addition


@given(any_documents, any_documents, any_documents, any_pattern)
def test_addition_commutes_and_associates(
    a: list[str], b: list[str], c: list[str], pattern: str
) -> None:
    x, y, z = (counts_of(*part, pattern=pattern) for part in (a, b, c))
    assert x + y == y + x
    assert (x + y) + z == x + (y + z)


@given(any_documents, st.integers(0, 5), any_pattern)
def test_counts_of_parts_add_up_to_the_whole(
    documents: list[str], middle: int, pattern: str
) -> None:
    head, tail = documents[:middle], documents[middle:]
    parts = counts_of(*head, pattern=pattern) + counts_of(*tail, pattern=pattern)
    assert parts == counts_of(*documents, pattern=pattern)


@given(any_documents, st.integers(1, 5))
def test_a_weight_is_that_many_copies(documents: list[str], weight: int) -> None:
    counts = counts_of(*documents)
    assert counts * weight == weight * counts == counts_of(*documents * weight)


@given(any_documents, any_documents, st.integers(1, 2**40))
def test_weights_distribute(a: list[str], b: list[str], weight: int) -> None:
    x, y = counts_of(*a), counts_of(*b)
    assert (x + y) * weight == x * weight + y * weight


@given(any_documents, st.integers(1, 6), st.integers(1, 6))
def test_pruning_twice_is_pruning_by_the_higher(documents: list[str], low: int, more: int) -> None:
    counts = counts_of(*documents)
    pruned = counts.prune(low + more)
    assert counts.prune(low).prune(low + more) == pruned
    assert counts.prune(1) == counts
    frequent = {piece: count for piece, count in counts.items() if count >= low + more}
    assert dict(pruned.items()) == frequent
    assert pruned.pieces + pruned.dropped_pieces == counts.pieces
    assert pruned.min_count == low + more


def test_sum_of_pruned_counts_is_marked() -> None:
    total = counts_of("a b b c").prune(2) + counts_of("a b").prune(1) * 3
    assert (total.min_count, total.dropped_pieces) == (2, 2)
    assert (total * 3).dropped_pieces == 6


def test_pruning_changes_the_vocabulary() -> None:
    """A pair that only rare pieces have can be the most frequent one."""
    counts = counts_of("xa xb xc xd ef ef")
    assert Tokenizer.train(counts, 258).merges != Tokenizer.train(counts.prune(2), 258).merges


# Training


@few_examples
@given(any_documents, any_pattern, st.randoms(use_true_random=False))
def test_training_on_counts_is_training_on_text(
    folder: Path, documents: list[str], pattern: str, rng: random.Random
) -> None:
    counts = [counts_of(document, pattern=pattern) for document in documents]
    rng.shuffle(counts)
    assume(counts)
    saved(sum(counts[1:], counts[0]), folder / "all")
    from_counts = trained(PieceCounts.load(folder / "all"), folder / "v1")
    assert from_counts == trained(documents, folder / "v2", pattern=pattern)


def test_counts_can_train_twice() -> None:
    counts = counts_of("ab ab ab")
    assert Tokenizer.train(counts, 258) == Tokenizer.train(counts, 258)
    assert dict(counts.items()) == {"ab": 1, " ab": 2}


def test_training_on_counts_refuses_another_pattern() -> None:
    counts = counts_of("ab", pattern="qwen2")
    assert Tokenizer.train(counts, 257).patterns[0] == PATTERNS["qwen2"]
    with pytest.raises(ValueError, match="the pieces are of the pattern qwen2, not of gpt2; "):
        Tokenizer.train(counts, 257, pattern="gpt2")


def test_training_on_counts_and_a_base_names_both_patterns() -> None:
    counts, base = counts_of("ab", pattern="o200k"), Tokenizer.train("ab", 256, pattern="cl100k")
    with pytest.raises(ValueError, match="of the pattern o200k, and the base is of cl100k; to "):
        Tokenizer.train(counts, 257, base=base)


def test_long_pattern_is_cut_in_errors() -> None:
    counts, other = counts_of("ab", pattern=r"\d|" * 99 + r"\D+"), counts_of("ab")
    with pytest.raises(ValueError, match=r"different patterns, '.{107}'\.\.\. and gpt2; count"):
        counts + other


def test_training_on_counts_reports_progress() -> None:
    seen: list[TrainingProgress] = []
    Tokenizer.train(counts_of("ab ab"), 257, progress=seen.append)
    assert seen[0] == TrainingProgress("counting", 5, 5)
    assert seen[-1] == TrainingProgress("merging", 1, 1)


# What is refused


@pytest.mark.parametrize("call", [PieceCounts, lambda: PieceCounts(b"")])  # type: ignore[arg-type]
def test_counts_are_not_made_by_a_call(call: Callable[[], object]) -> None:
    with pytest.raises(TypeError, match="not made by a call"):
        call()


@pytest.mark.parametrize("weight", [1.0, "2", True, None])
def test_a_weight_is_an_integer(weight: Any) -> None:
    with pytest.raises(TypeError):
        counts_of("a") * weight


@pytest.mark.parametrize("weight", [0, -1])
def test_a_weight_is_at_least_one(weight: int) -> None:
    with pytest.raises(ValueError, match=f"weight must be at least 1, got {weight}"):
        counts_of("a") * weight
    with pytest.raises(ValueError, match=f"min_count must be at least 1, got {weight}"):
        counts_of("a").prune(weight)


def test_only_counts_are_added() -> None:
    other: Any = 1
    with pytest.raises(TypeError):
        counts_of("a") + other


# 64 bits


def test_a_count_above_64_bits_names_the_piece() -> None:
    half = counts_of("a") * 2**63
    assert dict((half + counts_of("a") * (2**63 - 1)).items()) == {"a": MAX_COUNT}
    message = r"^the count of the piece 'a' exceeds 64 bits$"
    with pytest.raises(OverflowError, match=message):
        half + half
    with pytest.raises(OverflowError, match=message):
        half * 2
    with pytest.raises(OverflowError, match=message):
        3 * half.prune(5)


def test_a_number_of_bytes_above_64_bits_names_the_piece() -> None:
    """So no pair can have a count above 64 bits in training."""
    counts = counts_of("abcd ef")
    message = r"^the number of bytes of all pieces exceeds 64 bits at the piece 'abcd'$"
    with pytest.raises(OverflowError, match=message):
        counts * 2**62
    heavy = counts * (2**64 // 7)
    assert Tokenizer.train(heavy, 260) == Tokenizer.train("abcd ef", 260)


def test_a_huge_weight_overflows() -> None:
    with pytest.raises(OverflowError):
        counts_of("") * 2**64


def test_dropped_pieces_above_64_bits_overflow() -> None:
    dropped = (counts_of("a") * 2**63).prune(MAX_COUNT)
    with pytest.raises(OverflowError, match="dropped pieces exceeds 64 bits"):
        dropped + dropped


# Files


@given(any_documents, any_pattern, st.integers(1, 3))
def test_a_file_has_all_of_the_counts(
    folder: Path, documents: list[str], pattern: str, min_count: int
) -> None:
    counts = counts_of(*documents, pattern=pattern).prune(min_count)
    path = folder / "counts"
    data = saved(counts, path)
    loaded = PieceCounts.load(path)
    assert loaded == counts
    assert hash(loaded) == hash(counts)
    assert saved(loaded, path) == data
    assert PieceCounts.read_header(path) == counts._header


def test_the_file_is_as_documented(tmp_path: Path) -> None:
    data = saved(counts_of("abb", pattern="."), tmp_path / "counts")
    fields = (
        '{"format": "bpetite piece counts", "version": 1, "pattern": ".", "unicode_version": '
        '"16.0.0", "min_count": %s, "dropped_pieces": %s, "distinct_pieces": %s, "pieces": %s, '
        '"text_bytes": %s}'
    )
    totals, longest = (1, 0, 2, 3, 3), (MAX_COUNT,) * 5
    records = b"\x01a\x01\x01b\x02"
    hashed = (fields % totals).ljust(len(fields % longest)) + "\n"
    hash = hashlib.sha256(records + hashed.encode()).hexdigest()
    fields = fields[:-1] + f', "sha256": "{hash}"}}'
    header = (fields % totals).ljust(len(fields % longest)) + "\n"
    assert data == header.encode() + records


def test_a_failure_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "counts"
    before = saved(counts_of("a"), path)
    monkeypatch.setattr(file_module, "header_line", Mock(side_effect=MemoryError))
    with pytest.raises(MemoryError):
        counts_of("b").save(path, overwrite=True)
    assert (path.read_bytes(), [*tmp_path.iterdir()]) == (before, [path])


def test_save_refuses_an_existing_file(tmp_path: Path) -> None:
    counts_of("a").save(tmp_path / "counts")
    with pytest.raises(FileExistsError):
        counts_of("b").save(tmp_path / "counts")
    assert PieceCounts.load(tmp_path / "counts") == counts_of("a")


SMALL = counts_of("to be or not to be, that is", pattern=r"\w+|\W")


@pytest.fixture(scope="module")
def small_bytes(folder: Path) -> bytes:
    return saved(SMALL, folder / "small")


def refuse_to_load(path: Path, damaged: Iterator[bytes]) -> None:
    for data in damaged:
        path.write_bytes(data)
        with pytest.raises(ValueError, match=re.escape(f"{path}: ")):
            PieceCounts.load(path)


def corrupt(data: bytes, masks: Iterable[int]) -> Iterator[bytes]:
    """Yield the data with each byte changed by each mask."""
    for at in range(len(data)):
        for mask in masks:
            changed = bytearray(data)
            changed[at] ^= mask
            yield bytes(changed)


def test_every_corrupt_byte_is_refused(folder: Path, small_bytes: bytes) -> None:
    refuse_to_load(folder / "corrupt", corrupt(small_bytes, (1, 0x20, 0x80)))


def test_every_truncation_is_refused(folder: Path, small_bytes: bytes) -> None:
    refuse_to_load(folder / "cut", (small_bytes[:end] for end in range(len(small_bytes))))


def test_bytes_after_the_end_are_refused(folder: Path, small_bytes: bytes) -> None:
    more = (b"\0", b"\n", b"\x01", b"\x04zzzz\x01", small_bytes)
    refuse_to_load(folder / "longer", (small_bytes + each for each in more))


def written(path: Path, header: Header, records: bytes) -> Path:
    """Write a file with these fields, whose hash is right."""
    file_module.write_counts(path, True, header, records)
    return path


def header_of(**fields: Any) -> Header:
    """Return the header of SMALL with other fields."""
    return replace(SMALL._header, **fields)


RECORDS = write_records(dict(SMALL.items()))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"unicode_version": "15.0.0"}, "of Unicode 15.0.0, but this bpetite has Unicode"),
        ({"pattern": "a*"}, "can match the empty string"),
        ({"pattern": "gpt2"}, "the pattern is the name 'gpt2'"),
        ({"pattern": "("}, "nor a regular expression"),
        ({"pieces": 15}, "the totals differ"),
        ({"text_bytes": 0}, "the totals differ"),
        ({"distinct_pieces": 1}, "the totals differ"),
        ({"min_count": 0}, "min_count is '0'"),
        ({"dropped_pieces": -1}, "dropped_pieces is '-1'"),
        ({"pieces": True}, "pieces is 'True'"),
        ({"pattern": 5}, "pattern is '5'"),
    ],
)
def test_a_header_that_does_not_fit_is_refused(
    tmp_path: Path, fields: dict[str, Any], message: str
) -> None:
    path = written(tmp_path / "counts", header_of(**fields), RECORDS)
    with pytest.raises(ValueError, match="counts: ") as caught:
        PieceCounts.load(path)
    assert message in str(caught.value)


def test_another_version_of_the_format_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_module, "_FORMAT_VERSION", 2)
    SMALL.save(tmp_path / "counts")
    monkeypatch.undo()
    with pytest.raises(ValueError, match="version 2 of the format, but this bpetite reads"):
        PieceCounts.load(tmp_path / "counts")


@pytest.mark.parametrize(
    ("records", "message"),
    [
        (b"\x01a\x01\x01a\x01", "the pieces are not sorted at byte 3;"),
        (b"\x01b\x01\x01a\x01", "the pieces are not sorted at byte 3;"),
        (b"\x01a\0", "the count is 0 at byte 0;"),
        (b"\0\x01", "a piece has 0 bytes at byte 0;"),
        (b"\x01\xff\x01", "the piece is not UTF-8 at byte 0;"),
        (b"\x81\0a\x01", "a number has more bytes than it needs at byte 0;"),
        (b"\x01a" + b"\xff" * 9 + b"\x02", "a number exceeds 64 bits at byte 0;"),
        (b"\x01a" + b"\xff" * 10 + b"\x01", "a number exceeds 64 bits at byte 0;"),
        (b"\xff\xff\xff\xff\x0fa\x01", "bytes at byte 0;"),
        (b"\x01a\x01\x02b", "the record is cut off at byte 3;"),
        (b"\x01a", "the record is cut off at byte 0;"),
    ],
)
def test_records_that_are_not_valid_are_refused(
    tmp_path: Path, records: bytes, message: str
) -> None:
    path = written(tmp_path / "counts", SMALL._header, records)
    start = len(path.read_bytes()) - len(records)
    where, at, rest = message.partition(" at byte ")
    with pytest.raises(ValueError, match="counts: ") as caught:
        PieceCounts.load(path)
    assert f"{where}{at}{int(rest[:-1]) + start};" in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"{}\n", b"text\n", b'{"format": "bpetite'])
def test_other_files_are_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(ValueError, match="file: not a file of piece counts"):
        PieceCounts.load(tmp_path / "file")


def test_a_missing_file_is_the_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        PieceCounts.load(tmp_path / "missing")


# Partitions


@given(any_documents, any_documents, any_pattern, st.integers(1, 5))
def test_partitions_of_a_sum_are_sums_of_partitions(
    one: list[str], other: list[str], pattern: str, count: int
) -> None:
    ones, others = counts_of(*one, pattern=pattern), counts_of(*other, pattern=pattern)
    sums = [a + b for a, b in zip(ones.partition(count), others.partition(count), strict=True)]
    assert sums == (ones + others).partition(count)
    assert sum(sums, counts_of(pattern=pattern)) == ones + others


@given(any_documents, st.integers(1, 5), st.integers(1, 4))
def test_pruned_partitions_add_up_to_pruned_counts(
    documents: list[str], count: int, min_count: int
) -> None:
    counts = counts_of(*documents)
    pruned = [part.prune(min_count) for part in counts.partition(count)]
    assert sum(pruned[1:], pruned[0]) == counts.prune(min_count)
    again = counts.prune(min_count).partition(count)
    assert sum(again[1:], again[0]) == counts.prune(min_count)


@pytest.mark.parametrize("count", [1025, 1 << 28, 1 << 63, 1 << 64])
def test_partitions_are_at_most_1024(count: int) -> None:
    counts = PieceCounts.from_corpus("a")
    with pytest.raises(ValueError, match=f"count must be at most 1,024, got {count}"):
        counts.partition(count)
    assert sum(len(part) for part in counts.partition(1024)) == 1


def test_partitions_are_even(real_texts: list[str]) -> None:
    counts = counts_of(*real_texts)
    even = len(counts) / 8
    for part in counts.partition(8):
        assert 0.8 * even < len(part) < 1.2 * even


def test_partitions_are_of_a_published_hash() -> None:
    # FNV-1a in 64 bits, http://www.isthe.com/chongo/src/fnv/test_fnv.c
    hashes = {"a": 0xAF63DC4C8601EC8C, "foobar": 0x85944171F73967E8}
    counts = PieceCounts.from_items([(piece, 1) for piece in hashes])
    for count in (2, 3, 1000):
        numbers = {
            piece: ((hash >> 32) ^ (hash & 0xFFFFFFFF)) % count for piece, hash in hashes.items()
        }
        for number, part in enumerate(counts.partition(count)):
            assert {piece for piece, _ in part.items()} == {
                piece for piece, own in numbers.items() if own == number
            }


def test_partitions_refuse_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="count must be at least 1, got 0"):
        SMALL.partition(0)
    with pytest.raises(TypeError, match="count must be an integer, got str"):
        SMALL.partition("2")  # type: ignore[arg-type]


@native_only
@given(st.randoms(use_true_random=False), st.integers(1, 9))
def test_both_engines_partition_alike(rng: random.Random, count: int) -> None:
    records = random_records(rng)
    merged = outcome(records_module.merge_records, [(records, 1)], 1)
    assume(isinstance(merged[0], bytes))  # the totals of valid records have 64 bits
    expected = records_module.partition_records(records, count)
    assert ENGINE.partition_records(records, count) == expected


# Merging


def random_records(rng: random.Random) -> bytes:
    letters = rng.choice(["a", "ab", "aé你", "abcdefgh"])
    words = {"".join(rng.choices(letters, k=rng.randint(1, 20))) for _ in range(rng.randint(0, 9))}
    return write_records({word: rng.choice([1, 2, 127, 128, 2**62]) for word in words})


def outcome(merge: Callable[..., Any], *arguments: Any) -> tuple[Any, ...]:
    try:
        return tuple(merge(*arguments))
    except (RecordError, OverflowError) as error:
        return type(error), str(error), vars(error)


@native_only
@given(st.randoms(use_true_random=False))
def test_both_engines_merge_alike(rng: random.Random) -> None:
    runs = []
    for _ in range(rng.randint(0, 4)):
        data = bytearray(random_records(rng))
        if data and rng.random() < 0.2:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        end = len(data) if rng.random() < 0.9 else rng.randint(0, len(data))
        runs.append((bytes(data[:end]), rng.choice([1, 1, 2, 3])))
    arguments = (runs, rng.choice([1, 1, 3]))
    expected = outcome(records_module.merge_records, *arguments)
    assert outcome(ENGINE.merge_records, *arguments) == expected


# A writer that ends early


def test_weights_of_a_mixture_have_the_ratio_of_share_to_size() -> None:
    """They are exact if they are small, and otherwise right to a part in 131,072."""
    assert share_weights([100, 100], ["1/3", "2/3"]) == [1, 2]
    assert share_weights([10**12, 10**9, 7 * 10**11], [0.3, 0.01, 0.69]) == [21, 700, 69]
    sizes, shares = [10**12 + 39, 10**9 + 7, 123_456_789], [Fraction("0.3"), None, Fraction("0.01")]
    weights = share_weights(sizes, shares)
    assert min(weights) == 1 << 16
    total = sum(size * weight for size, weight in zip(sizes, weights, strict=True))
    for size, weight, share in zip(sizes, weights, [0.3, 0.69, 0.01], strict=True):
        assert abs(size * weight / total / share - 1) < 1 / 131_072


@pytest.mark.parametrize(
    ("shares", "fault"),
    [
        ([0.5, 0.6], "shares must add up to 1, got 11/10"),
        ([0.5, 0.4], "shares must add up to 1, got 9/10"),
        ([0, 1], "a share must be above 0 and below 1, such as 0.3 or 1/3, got 0"),
        ([float("nan"), None], "got nan"),
        (["a third", None], "got a third"),
        (["1/0", None], "got 1/0"),
        ([0.5], "a share for each, got 2 and 1"),
    ],
)
def test_wrong_shares_are_refused(shares: list[Any], fault: str) -> None:
    counts = [PieceCounts.from_corpus("a b"), PieceCounts.from_corpus("c d e")]
    with pytest.raises(ValueError, match=re.escape(fault)):
        PieceCounts.mixture(counts, shares)


def test_an_empty_mixture_is_refused() -> None:
    with pytest.raises(ValueError, match="a mixture needs texts and a share for each, got 0 and 0"):
        PieceCounts.mixture([], [])


def test_an_empty_text_has_no_share() -> None:
    counts = [PieceCounts.from_corpus("a b"), PieceCounts.from_corpus("")]
    with pytest.raises(ValueError, match="is empty, so it cannot have a share"):
        PieceCounts.mixture(counts, [0.5, 0.5])
