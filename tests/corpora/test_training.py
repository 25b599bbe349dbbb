"""Training and counting on a corpus match the same work on its documents."""

from __future__ import annotations

import random
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from support.corpora import COMPRESSIONS, TEXTS, arrow, jsonl, parquet
from support.engines import native_only, quick_once
from support.examples import slow_except
from support.programs import PEAK

from bpetite import CorpusWarning, PieceCounts, Tokenizer, corpora
from bpetite.corpora import Corpus

WORDS = [
    "it's",
    "你好",
    "  ",
    "\n",
    "été",
    "<|endoftext|>",
    "🙂",
    "/",
    "123",
    "A",
    "\r\n",
    "<|x",
    "|>",
]


def text_of(seed: int, words: int = 3000) -> str:
    chosen = random.Random(seed)
    return "".join(chosen.choice(WORDS) + " " * (chosen.random() < 0.3) for _ in range(words))


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_train_on_files_is_train_on_their_texts(compression: str, tmp_path: Path) -> None:
    for name, data in {
        "a.jsonl": jsonl(TEXTS),
        "b.txt": "".join(TEXTS).encode(),
        "c.arrow": arrow(TEXTS),
    }.items():
        (tmp_path / (name + compression)).write_bytes(COMPRESSIONS[compression](data))
    (tmp_path / "d.parquet").write_bytes(parquet(TEXTS))
    documents = [*TEXTS, "".join(TEXTS), *TEXTS, *TEXTS]
    for pattern in ("gpt2", "o200k", r"\S+|\s+"):
        expected = Tokenizer.train(documents, 300, pattern=pattern)
        assert Tokenizer.train(Corpus(tmp_path), 300, pattern=pattern) == expected


@quick_once
@pytest.mark.parametrize(
    "pattern", slow_except(["gpt2", "cl100k", "o200k", "qwen2", r"\S+|\s+"], "o200k", r"\S+|\s+")
)
@pytest.mark.parametrize(
    "special", [("<|endoftext|>",), ("<|endoftext|>", " <|x|> <|x|>", " "), ()]
)
def test_count_of_a_text_in_chunks_is_exact(
    pattern: str, special: tuple[str, ...], tmp_path: Path
) -> None:
    text = text_of(1, 300)
    tokenizer = Tokenizer.train(text, 300, pattern=pattern, special_tokens=special)
    path = tmp_path / "a.txt"
    path.write_bytes(text.encode())

    class Small:
        def __init__(self, batch_bytes: int) -> None:
            self.batch_bytes = batch_bytes

        def batches(self) -> Any:
            raise AssertionError("segments are preferred")

        def segments(self) -> Any:
            return Corpus(path).segments(batch_bytes=self.batch_bytes)

    for batch_bytes in (1, 50, 1000):
        for allowed in ("all", ()):
            expected = tokenizer.count(text, allowed_special=allowed)
            found = corpora.count(tokenizer, Small(batch_bytes), allowed_special=allowed)
            assert found == expected


def test_count_of_documents_is_the_sum(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(jsonl(TEXTS))
    (tmp_path / "b.txt").write_bytes("".join(TEXTS).encode())
    tokenizer = Tokenizer.train(TEXTS, 280)
    expected = sum(map(tokenizer.count, [*TEXTS, "".join(TEXTS)]))
    assert corpora.count(tokenizer, Corpus(tmp_path), allowed_special="all") == expected
    ordinary = sum(tokenizer.count(text, allowed_special=()) for text in [*TEXTS, "".join(TEXTS)])
    assert corpora.count(tokenizer, Corpus(tmp_path)) == ordinary > expected


# Documents as bytes, and lone surrogates


def test_bytes_that_are_not_utf8_name_their_document() -> None:
    with pytest.raises(UnicodeDecodeError) as caught:
        Tokenizer.train(["ab", b"ab\xff"], 290)
    assert (caught.value.start, caught.value.__notes__) == (2, ["in document 1 of the corpus"])


def test_replace_puts_a_character_for_invalid_unicode() -> None:
    documents: list[str | bytes] = ["ab \ud83d ab", b"ab \xff ab", "ab \ufffd ab"]
    expected = Tokenizer.train(["ab \ufffd ab"] * 3, 262)
    assert Tokenizer.train(documents, 262, errors="replace") == expected


def test_replace_is_for_documents_alone(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"ab")
    with pytest.raises(ValueError, match="not for a corpus in batches"):
        Tokenizer.train(Corpus(tmp_path), 262, errors="replace")
    counts = PieceCounts.from_corpus("ab")
    with pytest.raises(ValueError, match="not for a PieceCounts"):
        Tokenizer.train(counts, 262, errors="replace")
    with pytest.raises(ValueError, match="errors must be strict or replace"):
        Tokenizer.train("ab", 262, errors="ignore")  # type: ignore[arg-type]


# Warnings


def warnings_of(corpus: Any, vocab_size: int = 256) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Tokenizer.train(corpus, vocab_size)
    assert {warning.category for warning in caught} <= {CorpusWarning}
    assert {warning.filename for warning in caught} <= {__file__}
    return [str(warning.message) for warning in caught]


def test_documents_that_are_names_of_files_give_one_warning(tmp_path: Path) -> None:
    paths = []
    for name in ("a.txt", "b.txt"):
        paths.append(str(tmp_path / name))
        (tmp_path / name).write_bytes(b"ab")
    (message,) = warnings_of(paths)
    assert "which is the name of a file" in message
    assert f"pass pathlib.Path({paths[0]!r}), or use" in message
    assert len(warnings_of(paths[0])) == 1
    assert warnings_of(["no such file", *paths]) == []
    assert warnings_of("\0" * 10) == []


@pytest.mark.parametrize(
    "corpus",
    ['{"text": "a"}\n{"text": "b"}\n', ['{"text": "a"}\n', '{"text": "b"}\n'], [b'{"text": 5}']],
)
def test_text_that_is_json_lines_gives_one_warning(corpus: Any) -> None:
    (message,) = warnings_of(corpus)
    assert message.startswith("document 0 of the corpus looks like JSON Lines, but is read as text")


@pytest.mark.parametrize("corpus", ["{}", "{a}", '{"a"', "[1]", ["a", '{"text": "b"}'], "", []])
def test_other_text_gives_no_warning(corpus: Any) -> None:
    assert warnings_of(corpus) == []


def test_a_file_of_json_lines_gives_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(jsonl(TEXTS))
    with pytest.warns(CorpusWarning, match=r"a\.txt looks like JSON Lines"):
        Tokenizer.train([path], 256)
    with pytest.warns(CorpusWarning, match=r"a\.txt looks like JSON Lines"):
        assert len(list(Corpus(path))) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error", CorpusWarning)
        assert len(list(Corpus(path, format="text"))) == 1


TABLES = {"CSV": 'id,text\n1,the hen\n2,"a, b\nc"\n', "TSV": "id\ttext\r\n1\tthe hen\r\n"}


@pytest.mark.parametrize("name", ["a.txt", "a", "a.csv", "a.tsv.gz"])
@pytest.mark.parametrize("kind", TABLES)
def test_a_table_read_as_text_gives_a_warning(kind: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    text = TABLES[kind]
    data = text.encode()
    path.write_bytes(COMPRESSIONS[".gz"](data) if name.endswith(".gz") else data)
    seen = {"a.csv": "CSV", "a.tsv.gz": "TSV"}.get(name, kind)
    with pytest.warns(CorpusWarning, match=rf"{name} looks like {seen}, but is read as text"):
        assert [*Corpus(path)] == [text]
    with warnings.catch_warnings():
        warnings.simplefilter("error", CorpusWarning)
        assert [*Corpus(path, format="text")] == [text]
    (message,) = warnings_of(text)
    assert message.startswith(f"document 0 of the corpus looks like {kind}, but is read as text")


@pytest.mark.parametrize(
    "text",
    [
        "id,text",
        "Apples, pears\nplums, figs\n",
        "Dear Sam,\nthe hen, the cat\n",
        "red,green\nThen the hen, the cat, and others.\n",
        "import a,b\n",
        "1,2\n3,4\n",
    ],
)
def test_prose_with_commas_gives_no_warning(text: str) -> None:
    assert warnings_of(text) == []


def test_training_that_stops_early_gives_one_warning() -> None:
    expected = ["stopped at 257 of 300 ids: no pair is left to merge"]
    assert warnings_of("ab ab", 300)[:1] == ["stopped at 258 of 300 ids: no pair is left to merge"]
    assert warnings_of("ab", 300) == expected
    assert warnings_of("ab", 257) == []


# Memory

MEMORY = """
import sys
from bpetite import Tokenizer
from bpetite.corpora import Corpus, count
tokenizer = Tokenizer.train("it is a text of words " * 10, 300)
before = peak()
corpus = Corpus(sys.argv[1])
found = count(tokenizer, corpus)
Tokenizer.train(corpus, 260)
print(found, peak() - before)
"""


@native_only  # Python would take minutes
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    "name", slow_except(["a.txt", "a.jsonl", "a.txt.zst", "a.jsonl.gz"], "a.jsonl")
)
def test_memory_does_not_grow_with_a_file(name: str, tmp_path: Path) -> None:
    text = text_of(5, 20_000)
    copies = 600
    single = jsonl([text]) if "jsonl" in name else text.encode()
    suffix = Path(name).suffix if Path(name).suffix in COMPRESSIONS else ""
    path = tmp_path / name
    path.write_bytes(COMPRESSIONS[suffix](single) * copies)
    command = [sys.executable, "-c", PEAK + MEMORY, str(path)]
    done = subprocess.run(command, capture_output=True, timeout=120, check=True)
    count, kilobytes = map(int, done.stdout.split())
    assert count > 0
    assert kilobytes < 40_000 < len(single) * copies / 1000
