"""Piece counts to merges: from text and from files, with progress."""

from __future__ import annotations

import io
import mmap
import os
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import reference
from support.engines import native_only, python_only

import bpetite
from bpetite import PATTERNS, Tokenizer, TrainingProgress, _corpus, _pretokenizer, _progress
from bpetite._unicode import differs
from bpetite._vocabulary import Vocabulary
from conftest import TEXTS

READ_SIZE = _corpus._READ_BYTES
"""The bytes of a file that are read at a time."""

BLOCK = _pretokenizer.BLOCK_CHARACTERS
"""The characters of a block, which is split at a time."""


def merges_of(*documents: str, vocab_size: int = 300) -> tuple[tuple[int, int], ...]:
    """Return the merges of a vocabulary trained on documents."""
    return Tokenizer.train(documents, vocab_size).merges


# Which pair becomes a merge


def test_the_well_known_example() -> None:
    """Worked by hand, after https://en.wikipedia.org/wiki/Byte-pair_encoding (Z, Y, X there)."""
    tokenizer = Tokenizer.train("aaabdaaabac", 259)
    a, b, c, d = b"abcd"
    z, y, x = 256, 257, 258
    assert tokenizer.merges == ((a, a), (a, b), (z, y))
    assert tokenizer.encode("aaabdaaabac") == [x, d, x, a, c]


def test_of_equal_counts_the_smallest_left_id_wins() -> None:
    assert merges_of("za", "yb", vocab_size=257) == ((121, 98),)


def test_of_equal_counts_and_left_ids_the_smallest_right_id_wins() -> None:
    assert merges_of("az", "ay", vocab_size=257) == ((97, 121),)


def test_ties_are_broken_by_id_and_not_by_bytes() -> None:
    """After (b, c), its token bc with id 256 is greater than the bytes z and y."""
    assert merges_of("bca", "bca", "zy", "zy", "bc", vocab_size=258) == ((98, 99), (122, 121))


def test_merges_never_cross_a_piece() -> None:
    assert merges_of("ab cd") == ((32, 99), (97, 98), (256, 100))


def test_a_piece_never_spans_two_documents() -> None:
    assert merges_of("a", "b") == ()
    assert merges_of("a", "b c", "d") == ((32, 99),)


def test_training_stops_at_vocab_size() -> None:
    assert len(merges_of("abcdefghij", vocab_size=260)) == 4


def test_training_stops_when_no_pair_is_left() -> None:
    tokenizer = Tokenizer.train("abc abc", 5000)
    assert tokenizer.merges == ((97, 98), (256, 99), (32, 257))
    assert tokenizer.vocab_size == 256 + 3


@pytest.mark.parametrize("corpus", ["", [], [""], "a", "a b", ["a", "b", " "]], ids=repr)
def test_a_corpus_without_pairs_gives_no_merges(corpus: Any) -> None:
    tokenizer = Tokenizer.train(corpus if corpus != "a b" else ["a", "b"], 300)
    assert (tokenizer.merges, tokenizer.vocab_size) == ((), 256)


# Held against the textbook

SMALL_ALPHABETS = st.sampled_from(["a", "ab", "ab ", "abc'd \n", "aé你🙂 ", "1a. "])

any_document = st.one_of(
    SMALL_ALPHABETS.flatmap(lambda alphabet: st.text(alphabet, max_size=40)),
    st.builds(
        lambda letter, count: letter * count, st.sampled_from("ab é你🙂"), st.integers(0, 60)
    ),
    # The textbook cuts by the installed `regex`, which may be of another version of Unicode.
    st.text(st.characters(codec="utf-8").filter(lambda c: not differs(c)), max_size=20),
)


@given(st.lists(any_document, max_size=6), st.integers(0, 40))
def test_merges_match_the_textbook(documents: list[str], limit: int) -> None:
    assert merges_of(*documents, vocab_size=256 + limit) == reference.train(documents, 256 + limit)


def test_merges_of_every_kind_of_text_match_the_textbook(text_case: str) -> None:
    assert merges_of(text_case, vocab_size=280) == reference.train([text_case], 280)


# What a corpus is


def test_one_text_is_one_document() -> None:
    assert Tokenizer.train("abc abd", 300) == Tokenizer.train(["abc abd"], 300)


def test_any_iterable_of_documents_will_do() -> None:
    documents = ["abc", "abd", "bcd"]
    expected = Tokenizer.train(documents, 300)
    assert Tokenizer.train(tuple(documents), 300) == expected
    assert Tokenizer.train((document for document in documents), 300) == expected
    assert Tokenizer.train(dict.fromkeys(documents).keys(), 300) == expected


def test_a_corpus_is_read_once() -> None:
    class Corpus:
        read = 0

        def __iter__(self) -> Iterator[str]:
            self.read += 1
            yield from ("abc", "abc")

    corpus = Corpus()
    Tokenizer.train(corpus, 300, progress=lambda _: None)
    assert corpus.read == 1


class Document(str):
    """A text that tells when it is freed."""


def test_documents_are_not_kept() -> None:
    """Only the last document is still in memory when the next is read."""
    taken: list[weakref.ref[Document]] = []
    held: list[int] = []

    def corpus() -> Iterator[str]:
        for number in range(20):
            held.append(sum(document() is not None for document in taken))
            document = Document(f"document {number} " * 600)
            taken.append(weakref.ref(document))
            yield document
            del document

    Tokenizer.train(corpus(), 260)
    assert max(held) == 1


def test_the_file_does_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    program = (
        "import sys; from pydoc_data.topics import topics; from bpetite import Tokenizer; "
        "Tokenizer.train(list(topics.values())[:20], 600).save(sys.argv[1])"
    )
    files = []
    for seed in ("1", "2"):
        path = tmp_path / seed
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", program, path], env=environment, check=True)
        files.append(path.read_bytes())
    assert files[0] == files[1]


@pytest.mark.parametrize(
    ("corpus", "document", "name"),
    [
        (b"ab", None, "bytes"),
        (bytearray(b"ab"), None, "bytearray"),
        (None, None, "NoneType"),
        (5, None, "int"),
        (["a", "b", None], 2, "NoneType"),
        (["a", ["b"]], 1, "list"),
        (range(3), 0, "int"),
    ],
)
@pytest.mark.parametrize("progress", [None, lambda _: None], ids=["silent", "progress"])
def test_a_corpus_of_the_wrong_type_is_refused(
    corpus: Any, document: int | None, name: str, progress: Any
) -> None:
    with pytest.raises(TypeError) as caught:
        Tokenizer.train(corpus, 300, progress=progress)
    assert str(caught.value) == (
        f"corpus must be a str, a path, an open file or an iterable of documents, got {name}"
        if document is None
        else f"document {document} of the corpus must be a str, bytes, a path or an open file, "
        f"got {name}"
    )


@pytest.mark.parametrize("position", [0, 1, BLOCK - 1, BLOCK, 3 * BLOCK + 5])
@pytest.mark.parametrize("surrogate", ["\ud800", "\udfff\ud800"], ids=ascii)
def test_a_lone_surrogate_is_placed_in_its_document(position: int, surrogate: str) -> None:
    document = "word " * 4000
    document = document[:position] + surrogate + document[position:]
    with pytest.raises(UnicodeEncodeError) as caught:
        Tokenizer.train(["ab", document, "cd"], 300)
    assert (caught.value.object, caught.value.start) == (document, position)
    assert caught.value.__notes__ == ["in document 1 of the corpus"]


# vocab_size


@pytest.mark.parametrize("vocab_size", [255, 1, 0, -1, -1000])
def test_a_vocab_size_below_256_is_refused(vocab_size: int) -> None:
    with pytest.raises(ValueError, match=rf"vocab_size must be at least 256, .* got {vocab_size}$"):
        Tokenizer.train("ab", vocab_size)


@pytest.mark.parametrize(
    ("vocab_size", "name"),
    [
        (True, "bool"),
        (300.0, "float"),
        ("300", "str"),
        (None, "NoneType"),
        (np.float64(300), "float64"),
        ([300], "list"),
    ],
)
def test_a_vocab_size_that_is_no_integer_is_refused(vocab_size: Any, name: str) -> None:
    with pytest.raises(TypeError, match=rf"^vocab_size must be an integer, got {name}$"):
        Tokenizer.train("ab", vocab_size)


def test_a_vocab_size_may_be_an_integer_of_any_type() -> None:
    vocab_size: Any = np.int32(257)
    assert Tokenizer.train("abc", vocab_size) == Tokenizer.train("abc", 257)


def test_the_corpus_is_not_touched_if_an_argument_is_wrong() -> None:
    corpus = iter(["ab", "cd"])
    with pytest.raises(ValueError, match="vocab_size"):
        Tokenizer.train(corpus, 255)
    with pytest.raises(ValueError, match="special token"):
        Tokenizer.train(corpus, 256, special_tokens=[""])
    assert list(corpus) == ["ab", "cd"]


# Special tokens


def test_by_default_there_is_one_special_token() -> None:
    assert Tokenizer.train("abc", 300).special_tokens == {"<|endoftext|>": 258}


def test_special_tokens_follow_the_last_merge_in_the_order_given() -> None:
    tokenizer = Tokenizer.train("abc", 257, special_tokens=["<|z|>", "<|a|>", "é"])
    assert list(tokenizer.special_tokens.items()) == [("<|z|>", 257), ("<|a|>", 258), ("é", 259)]


def test_special_tokens_follow_the_last_merge_of_few() -> None:
    tokenizer = Tokenizer.train("abc", 9000, special_tokens=["<|z|>", "<|a|>"])
    assert list(tokenizer.special_tokens.items()) == [("<|z|>", 258), ("<|a|>", 259)]


@pytest.mark.parametrize("none", [(), [], iter(())], ids=["tuple", "list", "iterator"])
def test_there_may_be_no_special_tokens(none: Any) -> None:
    assert Tokenizer.train("abc", 300, special_tokens=none).special_tokens == {}


def test_special_tokens_may_come_from_an_iterator() -> None:
    tokenizer = Tokenizer.train("", 256, special_tokens=iter(["<|b|>", "<|a|>"]))
    assert tokenizer.special_tokens == {"<|b|>": 256, "<|a|>": 257}


def test_in_training_text_a_special_literal_is_ordinary() -> None:
    text = "<|endoftext|> <|endoftext|>x<|endoftext|>"
    assert merges_of(text) == reference.train([text], 300)
    assert merges_of(text) == Tokenizer.train(text, 300, special_tokens=()).merges


@pytest.mark.parametrize(
    ("special_tokens", "error", "message"),
    [
        ("<|end|>", TypeError, "special_tokens must be an iterable of str, got str"),
        (b"<|end|>", TypeError, "special_tokens must be an iterable of str, got bytes"),
        (None, TypeError, "special_tokens must be an iterable of str, got NoneType"),
        (["<|a|>", b"<|b|>"], TypeError, "a special token must be a str, got bytes"),
        ([None], TypeError, "a special token must be a str, got NoneType"),
        (["<|a|>", ""], ValueError, "a special token must not be empty"),
        (["a", "b", "a"], ValueError, "the special token 'a' is given twice"),
    ],
)
def test_special_tokens_that_cannot_be_are_refused(
    special_tokens: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        Tokenizer.train("ab", 300, special_tokens=special_tokens)
    assert (caught.type, str(caught.value)) == (error, message)


def test_a_special_token_with_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(UnicodeEncodeError):
        Tokenizer.train("ab", 300, special_tokens=["<|a|>", "<|\ud800|>"])


# Files


def written(folder: Path, *documents: str) -> list[Path]:
    """Write documents to files, byte for byte, and return their paths."""
    paths = [folder / f"{number}.txt" for number in range(len(documents))]
    for path, document in zip(paths, documents, strict=True):
        path.write_bytes(document.encode())
    return paths


@pytest.mark.parametrize("character", ["é", "你", "🙂"])
@pytest.mark.parametrize("before_the_cut", [0, 1, 2, 3, 4])
def test_a_character_may_be_cut_where_reading_stops(character: str, before_the_cut: int) -> None:
    text = ("abc " * READ_SIZE)[: READ_SIZE - before_the_cut] + character * 3 + " end"
    trained = Tokenizer.train([io.BytesIO(text.encode())], 300)
    assert trained == Tokenizer.train(text, 300)


@pytest.mark.parametrize(
    "text", ["\ufeffab\ufeffab", "a\r\nb\r\nc\rd\ne", "a\x1ab", "a\x00b"], ids=ascii
)
def test_nothing_in_a_file_is_changed(tmp_path: Path, text: str) -> None:
    trained = Tokenizer.train(written(tmp_path, text), 300)
    assert trained.merges == reference.train([text], 300)


def test_line_ends_are_kept_where_reading_stops() -> None:
    text = "ab\r" * (READ_SIZE // 3) + "\r\n" * 5000
    trained = Tokenizer.train([io.BytesIO(text.encode())], 300)
    assert trained == Tokenizer.train(text, 300)


def test_texts_and_files_mix_and_an_open_file_stays_open(tmp_path: Path) -> None:
    first, second = written(tmp_path, "abc", "abd")
    with second.open("rb") as file:
        documents: Iterator[Any] = iter(
            [first, "bcd", file, b"cde", io.BytesIO(b"def"), memoryview(b"a.b"), bytearray(b"efg")]
        )
        trained = Tokenizer.train(documents, 300)
        assert not file.closed
    assert trained == Tokenizer.train(["abc", "bcd", "abd", "cde", "def", "a.b", "efg"], 300)


def test_a_file_alone_is_one_document(tmp_path: Path) -> None:
    text = "ab\nab\ncd\ncd"
    (path,) = written(tmp_path, text)
    expected = Tokenizer.train(text, 300)
    assert Tokenizer.train(path, 300) == Tokenizer.train(io.BytesIO(text.encode()), 300) == expected


def test_invalid_bytes_of_a_file_can_be_replaced() -> None:
    data = b"ab\xff ab\xff" + b"-" * (READ_SIZE - 9) + b"\xe4\xbd ab\xf0\x9f"
    trained = Tokenizer.train(io.BytesIO(data), 300, errors="replace")
    assert trained == Tokenizer.train(data.decode("utf-8", "replace"), 300)


def test_a_base_normalizes_files() -> None:
    base = Tokenizer(Vocabulary((), {}, PATTERNS["gpt2"], normalizer="NFC"))
    decomposed = "e\u0301e\u0301"
    trained = Tokenizer.train(io.BytesIO(decomposed.encode()), 300, base=base)
    assert trained == Tokenizer.train(decomposed, 300, base=base)


def test_mapped_bytes_are_a_document_wherever_they_were_read(tmp_path: Path) -> None:
    (path,) = written(tmp_path, "ab ab")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        mapped.seek(4)
        documents: Any = [mapped]
        assert Tokenizer.train(documents, 300) == Tokenizer.train("ab ab", 300)


class Trickle(io.BytesIO):
    """A file whose reads return few bytes."""

    def __init__(self, data: bytes, size: int) -> None:
        super().__init__(data)
        self._size = size

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(self._size, size or 0))


def test_a_file_with_short_reads_is_read_to_its_end() -> None:
    text = "你好 🙂🙂 abc\r\n" * 20
    trained = Tokenizer.train([Trickle(text.encode(), 3)], 300)
    assert trained == Tokenizer.train(text, 300)


def test_a_piece_never_spans_two_files(tmp_path: Path) -> None:
    assert Tokenizer.train(written(tmp_path, "a", "b"), 300).merges == ()


LONG = READ_SIZE + 4000


BAD = {
    "first byte": b"\xff",
    "no lead": b"ab\x80",
    "no trail": b"abc\xc3(",
    "surrogate": b"ab\xed\xa0\x80",
    "cut short": b"ab\xc3",
    "cut short after three": b"ab\xf0\x9f\x99",
    "after the first read": b"a" * LONG + b"\xff",
    "cut short after the first read": b"a" * LONG + b"\xe4\xbd",
    "where reading stops": b"a" * READ_SIZE + b"\x80",
    "across where reading stops": b"a" * (READ_SIZE - 1) + b"\xe4\xbdab",
    "cut short where reading stops": b"a" * (READ_SIZE - 2) + b"\xf0\x9f",
    "several reads": "é".encode() * LONG + b"\xc3",
}


@pytest.mark.parametrize("data", BAD.values(), ids=BAD)
def test_a_bad_byte_is_named_with_its_file_and_offset(tmp_path: Path, data: bytes) -> None:
    good, bad = tmp_path / "good.txt", tmp_path / "bad.txt"
    good.write_bytes(b"good")
    bad.write_bytes(data)
    with pytest.raises(UnicodeDecodeError) as expected:
        data.decode()
    with pytest.raises(ValueError, match="is not UTF-8") as caught:
        Tokenizer.train([good, bad], 300)
    offset = expected.value.start
    place = f"{bad} is not UTF-8 at byte {offset} (0x{data[offset]:02x}: "
    assert (caught.type, str(caught.value)[: len(place)]) == (ValueError, place)


@pytest.mark.parametrize(
    ("data", "offset"),
    [
        (b"ab\xc3(xyz", 2),
        (b"\xe4\xbda", 0),
        (b"ab\xed\xa0\x80abc", 2),
        (b"abc\xf0\x9f\x99", 3),
        (b"\xc3\xa9\xc3\xa9\x80", 4),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_bad_byte_has_its_offset_after_short_reads(data: bytes, offset: int, size: int) -> None:
    files = [io.BytesIO("é".encode()), Trickle(data, size)]
    with pytest.raises(ValueError, match=f"is not UTF-8 at byte {offset} "):
        Tokenizer.train(files, 300)


def test_a_bad_byte_in_an_open_file_is_named_with_the_files_name(tmp_path: Path) -> None:
    path = tmp_path / "bad.txt"
    path.write_bytes(b"ab\xff")
    with path.open("rb") as file, pytest.raises(ValueError, match="at byte 2") as caught:
        Tokenizer.train([file], 300)
    assert str(caught.value).startswith(str(path))


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    missing = tmp_path / "missing.txt"
    with pytest.raises(FileNotFoundError) as caught:
        Tokenizer.train([missing], 300)
    assert caught.value.filename in (missing, str(missing))


def test_a_folder_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"directory|denied"):
        Tokenizer.train([tmp_path], 300, progress=lambda _: None)


# Threads


THREADS = [None, 1, 2, 5, 10**30] if bpetite.engine == "native" else [None, 10**30]
"""The Python engine has one thread, whatever the argument is."""


@pytest.mark.parametrize("pattern", PATTERNS)
def test_any_number_of_threads_learns_the_same(
    tmp_path: Path, real_texts: list[str], pattern: str
) -> None:
    size = 200_000 if bpetite.engine == "native" else 40_000
    text = "".join(real_texts)[:size] + "".join(TEXTS.values())
    (path,) = written(tmp_path, text)
    expected = Tokenizer.train(text, 400, pattern=pattern, threads=1)
    for threads in THREADS if pattern == "gpt2" else THREADS[-1:]:
        trained = Tokenizer.train([path], 400, pattern=pattern, threads=threads)
        assert trained == expected


@native_only
@pytest.mark.parametrize("threads", THREADS)
def test_any_number_of_threads_counts_a_long_piece(threads: int | None) -> None:
    """Longer than the share of a thread, and without a safe split."""
    text = "ab cd " * 50_000 + "xyz" * 200_000 + " ab" * 50_000
    merges = Tokenizer.train(text, 259, threads=threads).merges
    assert merges == ((120, 121), (256, 122), (257, 257))


@pytest.mark.parametrize("threads", [0, -1, -(10**30)])
def test_threads_below_one_are_refused(threads: int) -> None:
    with pytest.raises(ValueError, match=f"^threads must be at least 1, got {threads}$"):
        Tokenizer.train("ab", 300, threads=threads)


@pytest.mark.parametrize(("threads", "name"), [(True, "bool"), (1.0, "float"), ("2", "str")])
def test_threads_that_are_no_integer_are_refused(threads: Any, name: str) -> None:
    with pytest.raises(TypeError, match=f"^threads must be an integer or None, got {name}$"):
        Tokenizer.train("ab", 300, threads=threads)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_bad_byte_is_named_whatever_the_number_of_threads(tmp_path: Path, threads: int) -> None:
    path = tmp_path / "bad.txt"
    path.write_bytes("é word".encode() * 100_000 + b"\xe4\xbdx" + b" word" * 100_000)
    with pytest.raises(ValueError, match="is not UTF-8") as caught:
        Tokenizer.train([path], 300, threads=threads)
    assert str(caught.value) == (
        f"{path} is not UTF-8 at byte 700000 (0xe4: invalid continuation byte)"
    )


# Progress


def stages(seen: Sequence[TrainingProgress]) -> tuple[list[TrainingProgress], ...]:
    """Return the calls of each stage, which must not be mixed."""
    names = [progress.stage for progress in seen]
    assert names == sorted(names)  # "counting" comes before "merging"
    return (
        [progress for progress in seen if progress.stage == "counting"],
        [progress for progress in seen if progress.stage == "merging"],
    )


@pytest.fixture
def every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report progress after every step."""
    monkeypatch.setattr(_progress, "INTERVAL", 0.0)


@pytest.mark.usefixtures("every_step")
def test_progress_of_a_text_tells_bytes_and_then_merges() -> None:
    text = "Ünïcödé words " * 20_000
    seen: list[TrainingProgress] = []
    tokenizer = Tokenizer.train(text, 260, progress=seen.append)
    size = len(text.encode())
    counting, merging = stages(seen)
    assert len(counting) > 3
    assert [type(progress.done) for progress in seen] == [int] * len(seen)
    assert {progress.total for progress in counting} == {size}
    assert [progress.done for progress in counting] == sorted(done.done for done in counting)
    assert counting[-1].done == size
    assert {progress.total for progress in merging} == {4}
    done = [progress.done for progress in merging]
    assert done == sorted(done)
    assert (done[0], done[-1], len(tokenizer.merges)) == (0, 4, 4)


@python_only
@pytest.mark.usefixtures("every_step")
def test_progress_can_be_told_of_each_merge() -> None:
    """The native engine learns for some hundredths of a second before it reports progress."""
    seen: list[TrainingProgress] = []
    Tokenizer.train("Ünïcödé words " * 1000, 260, progress=seen.append)
    _, merging = stages(seen)
    assert [progress.done for progress in merging] == [0, 1, 2, 3, 4, 4]


def test_the_total_of_an_iterable_is_not_known() -> None:
    seen: list[TrainingProgress] = []
    Tokenizer.train(["aé", "b"], 256, progress=seen.append)
    counting, _ = stages(seen)
    assert {progress.total for progress in counting} == {None}
    assert counting[-1].done == 4


def test_the_total_of_files_is_their_size(tmp_path: Path) -> None:
    paths = written(tmp_path, "aé" * READ_SIZE, "你", "")
    seen: list[TrainingProgress] = []
    Tokenizer.train(paths, 256, progress=seen.append)
    counting, _ = stages(seen)
    size = 3 * READ_SIZE + 3
    assert {progress.total for progress in counting} == {size}
    assert counting[-1].done == size


def test_the_total_is_not_known_if_one_file_is_open(tmp_path: Path) -> None:
    seen: list[TrainingProgress] = []
    sources: list[Path | BinaryIO] = [*written(tmp_path, "ab"), io.BytesIO(b"cd")]
    Tokenizer.train(sources, 256, progress=seen.append)
    counting, _ = stages(seen)
    assert {progress.total for progress in counting} == {None}
    assert counting[-1].done == 4


def test_merging_may_end_below_its_total() -> None:
    seen: list[TrainingProgress] = []
    Tokenizer.train("abc", 300, progress=seen.append)
    assert seen[-1] == TrainingProgress("merging", done=2, total=44)


def test_each_stage_is_told_of_even_if_there_is_nothing_to_do() -> None:
    seen: list[TrainingProgress] = []
    Tokenizer.train("", 256, progress=seen.append)
    counting, merging = stages(seen)
    assert counting[-1] == TrainingProgress("counting", done=0, total=0)
    assert merging[-1] == TrainingProgress("merging", done=0, total=0)


def test_progress_is_reported_every_few_hundredths_at_most(real_texts: list[str]) -> None:
    seen: list[TrainingProgress] = []
    begin = time.monotonic()
    Tokenizer.train(real_texts, 900, progress=seen.append)
    elapsed = time.monotonic() - begin
    # In each of two stages: one call at the first step, one each interval, one at the end; and
    # one before the first merge.
    assert len(seen) <= elapsed / 0.05 + 2 * 2 + 1


@python_only
def test_progress_is_told_as_often_as_the_clock_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(10**6))  # sixty-fourths of a second: one more at each look
    monkeypatch.setattr(_progress, "time", SimpleNamespace(monotonic=lambda: next(clock) / 64))
    seen: list[TrainingProgress] = []
    reporter = _progress.Reporter(seen.append, "merging", 20)
    for done in range(21):
        reporter.report(done)
    assert [progress.done for progress in seen] == [0, 4, 8, 12, 16, 20]


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, StopIteration, GeneratorExit])
@pytest.mark.parametrize("stage", ["counting", "merging"])
def test_an_error_of_the_callback_ends_training(error: type[BaseException], stage: str) -> None:
    def callback(progress: TrainingProgress) -> None:
        if progress.stage == stage:
            raise error

    with pytest.raises(error):
        Tokenizer.train(["abc", "abd"], 300, progress=callback)


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_error_of_the_corpus_ends_training(error: type[BaseException]) -> None:
    def corpus() -> Iterator[str]:
        yield "abc"
        raise error

    with pytest.raises(error):
        Tokenizer.train(corpus(), 300)


def test_progress_can_be_compared_and_not_changed() -> None:
    progress: Any = TrainingProgress("merging", 1, 2)
    assert progress == TrainingProgress(stage="merging", done=1, total=2)
    with pytest.raises(AttributeError):
        progress.done = 2
