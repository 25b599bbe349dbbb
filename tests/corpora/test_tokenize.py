"""A folder of token files has the ids of its corpus, whatever happens to the runs that write it."""

from __future__ import annotations

import errno
import json
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.corpora import jsonl
from support.engines import quick_once
from support.examples import slow_except
from support.programs import variables

from bpetite import Tokenizer, corpora
from bpetite.corpora import Corpus, TokenizeProgress, finish, plan, tokenize, tokenize_parts, verify
from bpetite.corpora._folder import MANIFEST, Folder, Manifest
from bpetite.corpora._token_files import FORMATS
from bpetite.corpora._verify import first_documents

pytestmark = quick_once

END = "<|endoftext|>"
WORDS = [
    *(
        "the",
        "hen",
        "then",
        "met",
        "ten",
        "men,",
        "你好!",
        "don't\nstop",
        "<|endoftext|>",
        "aéb",
        "🙂",
    )
]
TOKENIZER = Tokenizer.train(" ".join(WORDS) * 3, 300)
END_ID = TOKENIZER.special_tokens[END]


def documents(count: int, seed: int = 1) -> list[str]:
    """Return texts of a few words; each ninth is empty."""
    choose = random.Random(seed)
    texts = (" ".join(choose.choices(WORDS, k=choose.randrange(1, 40))) for _ in range(count))
    return [text if number % 9 else "" for number, text in enumerate(texts)]


TEXTS = documents(200)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """TEXTS as JSON Lines."""
    path = tmp_path / "texts.jsonl"
    path.write_bytes(jsonl(TEXTS))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of token files, not made yet."""
    return tmp_path / "tokens"


def contents(folder: Path) -> dict[str, bytes]:
    """Return the bytes of every file of a folder that a reader sees, by its name."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def all_ids(folder: Path, split: str = "train") -> list[int]:
    """Return the ids of a split, as the readers of the format find them."""
    manifest = Folder(folder).read(MANIFEST, Manifest)
    settings = manifest.settings
    return [
        id
        for shard in manifest.shards
        if shard.split == split
        for found in settings.token_format.read(folder, settings.shard(shard.name))
        for id in found.ids
    ]


def framed(text: str, format: str) -> list[int]:
    """Return the ids of a document as a format's files have them by default."""
    ids = TOKENIZER.encode_ordinary(text)
    if FORMATS[format].stores_boundaries:
        return ids
    if not text:
        return []
    return [END_ID, *ids] if FORMATS[format].begins_documents else [*ids, END_ID]


@pytest.mark.parametrize("format", FORMATS)
def test_files_have_the_ids_of_the_texts(format: str, source: Path, folder: Path) -> None:
    manifest = tokenize(Corpus(source), TOKENIZER, folder, format)
    expected = [id for text in TEXTS for id in framed(text, format)]
    assert all_ids(folder) == expected
    kept = [text for text in TEXTS if text or FORMATS[format].keeps_empty]
    assert manifest["totals"] == {
        "documents": len(kept),
        "empty": TEXTS.count(""),
        "bad": 0,
        "text_bytes": sum(len(text.encode()) for text in TEXTS),
        "ids": len(expected),
    }
    assert verify(folder, TOKENIZER, deep=True) == []


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("part_bytes", slow_except([1_000, 3_000], 3_000))
def test_parts_join_to_the_whole(format: str, part_bytes: int, source: Path, folder: Path) -> None:
    manifest = tokenize(Corpus(source), TOKENIZER, folder, format, part_bytes=part_bytes)
    assert len(manifest["parts"]) > 2
    assert all_ids(folder) == [id for text in TEXTS for id in framed(text, format)]


def test_workers_change_nothing(source: Path, tmp_path: Path) -> None:
    for workers in (1, 3):
        folder = tmp_path / str(workers)
        tokenize(Corpus(source), TOKENIZER, folder, "megatron", part_bytes=3_000, workers=workers)
    assert contents(tmp_path / "1") == contents(tmp_path / "3")


@pytest.mark.parametrize("format", ["megatron", "llmc", "olmo"])
@pytest.mark.parametrize("shard_tokens", slow_except([120, 333], 333))
def test_shards_have_at_most_their_ids(
    format: str, shard_tokens: int, source: Path, folder: Path
) -> None:
    manifest = tokenize(Corpus(source), TOKENIZER, folder, format, shard_tokens=shard_tokens)
    assert all_ids(folder) == [id for text in TEXTS for id in framed(text, format)]
    longest = max(len(framed(text, format)) for text in TEXTS)
    sizes = [shard["ids"] for shard in manifest["shards"]]
    assert max(sizes) <= (shard_tokens if format == "llmc" else max(shard_tokens, longest))
    if format == "llmc":  # documents go on in the next shard
        assert {*sizes[:-1]} == {shard_tokens}
    assert verify(folder, deep=True) == []


def test_a_document_longer_than_a_shard_has_its_own(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "texts.jsonl"
    texts = ["hen", "the hen " * 100, "met"]
    path.write_bytes(jsonl(texts))
    manifest = tokenize(Corpus(path), TOKENIZER, folder, "megatron", shard_tokens=20)
    assert [shard["documents"] for shard in manifest["shards"]] == [1, 1, 1]


@pytest.mark.parametrize("format", ["megatron", "llmc"])
@pytest.mark.parametrize("amount", [0.3, 7])
def test_validation_has_its_own_files(
    format: str, amount: float | int, source: Path, folder: Path
) -> None:
    manifest = tokenize(Corpus(source), TOKENIZER, folder, format, validation=amount)
    splits = {shard["split"]: shard["documents"] for shard in manifest["shards"]}
    assert sum(splits.values()) == manifest["totals"]["documents"]
    if amount == 7:
        assert splits["val"] == 7
        kept = [text for text in TEXTS if text or format == "megatron"]
        assert all_ids(folder, "val") == [id for text in kept[:7] for id in framed(text, format)]
    else:
        assert 30 < splits["val"] < 90
    assert verify(folder, deep=True) == []


def test_shuffling_permutes_the_documents_of_a_part(source: Path, tmp_path: Path) -> None:
    found = []
    for number, seed in enumerate((None, 5, 5, 6)):
        folder = tmp_path / str(number)
        tokenize(Corpus(source), TOKENIZER, folder, "megatron", shuffle=seed, end=END)
        assert verify(folder, deep=True) == []
        ids = " ".join(map(str, all_ids(folder)))
        found.append(ids.split(f"{END_ID}"))
    plain, once, again, other = found
    assert once == again
    assert len({*map(tuple, (plain, once, other))}) == 3
    assert sorted(map(str.split, once)) == sorted(map(str.split, plain))


@pytest.mark.parametrize(
    ("format", "options", "reason"),
    [
        ("mds", {}, "format must be one of megatron, datatrove"),
        ("megatron", {"end": "</s>"}, "'</s>' is not a special token; the vocabulary has <|end"),
        ("nanogpt", {"shard_tokens": 5}, "nanogpt readers take one file"),
        ("llmc", {"shard_tokens": 2**30}, "shard_tokens must be from 1 to 53"),
        ("megatron", {"validation": 1.5}, "validation must be a fraction or a number"),
        ("megatron", {"validation": -1}, "validation must be a fraction or a number"),
        ("megatron", {"validation": float("nan")}, "validation must be a fraction or a number"),
        ("megatron", {"validation": 10**6}, "of the 1000000 documents for validation"),
        ("megatron", {"part_bytes": 0}, "part_bytes must be"),
    ],
)
def test_wrong_settings_are_refused(
    format: str, options: dict[str, Any], reason: str, source: Path, folder: Path
) -> None:
    with pytest.raises(ValueError, match=reason):
        tokenize(Corpus(source), TOKENIZER, folder, format, **options)


def test_numbers_of_numpy_are_those_of_python(source: Path, tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    found = []
    for number in (int, numpy.int32):
        folder = tmp_path / number.__name__
        options: dict[str, Any] = {
            "validation": number(2),
            "shuffle": number(5),
            "part_bytes": number(200),
        }
        tokenize(Corpus(source), TOKENIZER, folder, "megatron", **options)
        assert verify(folder) == []
        blocks = corpora.open(folder).blocks(number(3), seed=number(1))
        found.append([block.ids.tolist() for block in blocks])
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["shard_tokens", "validation", "shuffle", "part_bytes"])
@pytest.mark.parametrize("value", [True, "5"])
def test_a_setting_that_is_no_number_is_refused(
    name: str, value: Any, source: Path, folder: Path
) -> None:
    with pytest.raises(TypeError, match=f"{name} must be "):
        tokenize(Corpus(source), TOKENIZER, folder, "megatron", **{name: value})


def test_boundaries_cannot_be_lost(source: Path, folder: Path) -> None:
    plain = Tokenizer.train("ab", 256, special_tokens=[])
    with pytest.raises(ValueError, match="do not store where documents end, and the vocabulary"):
        tokenize(Corpus(source), plain, folder, "olmo")


@pytest.mark.parametrize("options", [{"format": "lines"}, {"format": "text", "separator": "\n"}])
def test_lines_of_text_are_divided_among_parts(
    options: dict[str, Any], tmp_path: Path, folder: Path
) -> None:
    texts = [text for text in TEXTS if "\n" not in text]
    (tmp_path / "lines.txt").write_text(
        "".join(text + "\n" for text in texts), "utf-8", newline="\n"
    )
    corpus = Corpus(tmp_path / "lines.txt", **options)
    manifest = tokenize(corpus, TOKENIZER, folder, "megatron", part_bytes=500)
    assert len(manifest["parts"]) > 1
    assert manifest["totals"]["documents"] == len(texts)
    assert verify(folder, deep=True) == []


def test_a_file_that_is_named_twice_counts_twice(source: Path, folder: Path) -> None:
    corpus = Corpus([source, source])
    manifest = tokenize(corpus, TOKENIZER, folder, "olmo", part_bytes=12_000, validation=0.5)
    split = [sum(s["documents"] for s in manifest["shards"] if s["split"] == "val")]
    once = tokenize(Corpus(source), TOKENIZER, folder.parent / "once", "olmo", validation=0.5)
    assert manifest["totals"] == {key: 2 * count for key, count in once["totals"].items()}
    assert split == [2 * sum(s["documents"] for s in once["shards"] if s["split"] == "val")]
    assert sum(len(list(part)) for part in corpus.parts(7_000)) == 2 * len(TEXTS)


def test_a_corpus_without_files_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="the corpus has no files"):
        tokenize(Corpus([]), TOKENIZER, folder, "nanogpt")
    assert not folder.exists()


@pytest.mark.parametrize(
    "format",
    slow_except(["megatron", "datatrove", "llmc", "olmo", "parquet"], "megatron", "parquet"),
)
@pytest.mark.parametrize("shuffle", slow_except([None, 1], 1))
def test_a_part_has_more_shards_than_open_files(
    format: str, shuffle: int | None, source: Path, folder: Path
) -> None:
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    in_use = max(map(int, os.listdir("/proc/self/fd"))) if os.path.isdir("/proc/self/fd") else 50
    resource.setrlimit(resource.RLIMIT_NOFILE, (in_use + 20, before[1]))
    try:
        manifest = tokenize(
            Corpus(source), TOKENIZER, folder, format, shard_tokens=60, shuffle=shuffle
        )
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert len(manifest["shards"]) > 30
    assert verify(folder, deep=True) == []


@pytest.mark.parametrize("format", FORMATS)
def test_first_documents_may_be_longer_than_a_block_of_ids(
    format: str, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bpetite.corpora._token_files.raw._BLOCK_IDS", 7)
    texts = ["ten hens " * 9, "a", "men met " * 9, "b", "c"]
    path = tmp_path / "texts.jsonl"
    path.write_bytes(jsonl(texts))
    tokenize(Corpus(path), TOKENIZER, folder, format)
    shown = [text.replace(END, "") for text in first_documents(folder, 9)]
    assert shown == texts
    assert len([*first_documents(folder, 3)]) == 3


@pytest.mark.parametrize("format", FORMATS)
def test_a_token_may_stand_on_both_sides_of_documents(
    format: str, source: Path, folder: Path
) -> None:
    tokenize(Corpus(source), TOKENIZER, folder, format, begin=END, end=END)
    assert verify(folder) == []
    texts = TEXTS if FORMATS[format].keeps_empty else [text for text in TEXTS if text]
    assert [*first_documents(folder, 3)] == [f"{END}{text}{END}" for text in texts[:3]]


@pytest.mark.parametrize("begin", [None, END])
@pytest.mark.parametrize("format", ["llmc", "olmo", "datatrove"])
def test_documents_of_small_shards_are_counted(
    format: str, begin: str | None, source: Path, folder: Path
) -> None:
    """A file of llm.c may have the end of a document that the file before it counts."""
    tokenize(Corpus(source), TOKENIZER, folder, format, begin=begin, end=END, shard_tokens=500)
    assert len([*folder.glob("train_*")]) > 2
    assert verify(folder) == []


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("content", ["empty", "bad"])
def test_documents_without_ids_make_no_file_that_readers_refuse(
    format: str, content: str, tmp_path: Path, folder: Path
) -> None:
    """Readers map files into memory, which fails for an empty one."""
    path = tmp_path / "texts.txt"
    path.write_bytes(b"\n\n\n" if content == "empty" else b"\xff\n\xff\n")
    corpus = Corpus(path, format="lines", on_bad="skip")
    manifest = tokenize(corpus, TOKENIZER, folder, format)
    keeps = content == "empty" and FORMATS[format].keeps_empty
    assert len(manifest["shards"]) == keeps
    assert manifest["totals"]["empty" if content == "empty" else "bad"] in (2, 3)
    assert verify(folder, deep=True) == []


# A second run


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"end": END}, r'end \(null, not "<\|endoftext\|>"\)'),
        ({"validation": 0.1}, r"validation \(0, not 0\.1\)"),
        ({"part_bytes": 999}, r"part_bytes \(268435456, not 999\)"),
        ({"tokenizer": Tokenizer.train("ab", 256)}, r"tokenizer \(sha256:"),
        ({"format": "datatrove"}, r'format \("megatron", not "datatrove"\)'),
    ],
)
def test_a_folder_never_mixes_two_runs(
    change: dict[str, Any], reason: str, source: Path, folder: Path
) -> None:
    tokenize(Corpus(source), TOKENIZER, folder, "megatron")
    before = contents(folder)
    arguments = {"tokenizer": TOKENIZER, "format": "megatron", **change}
    with pytest.raises(ValueError, match=f"made with another {reason}"):
        tokenize(Corpus(source), folder=folder, **arguments)
    assert contents(folder) == before


def test_a_changed_input_is_refused(source: Path, folder: Path) -> None:
    tokenize(Corpus(source), TOKENIZER, folder, "megatron")
    size = source.stat().st_size
    source.write_text(json.dumps({"text": "other"}) + "\n", "utf-8", newline="\n")
    with pytest.raises(ValueError, match="list of input files, or other sizes of them") as caught:
        tokenize(Corpus(source), TOKENIZER, folder, "megatron")
    assert f"(first {source} of {size} bytes, not {source} of 18 bytes)" in str(caught.value)


def test_an_added_input_is_named(source: Path, folder: Path) -> None:
    tokenize(Corpus(source), TOKENIZER, folder, "megatron")
    added = source.with_name("u.jsonl")
    added.write_text("{}")
    with pytest.raises(ValueError, match=r"\(first nothing, not .*u\.jsonl of 2 bytes\)"):
        tokenize(Corpus([source, added]), TOKENIZER, folder, "megatron")


def test_a_folder_with_other_files_is_refused(source: Path, folder: Path) -> None:
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="not empty"):
        tokenize(Corpus(source), TOKENIZER, folder, "megatron")
    assert contents(folder) == {"notes.txt": b"mine"}


def test_a_finished_folder_is_left_alone(source: Path, folder: Path) -> None:
    first = tokenize(Corpus(source), TOKENIZER, folder, "megatron")
    times = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert tokenize(Corpus(source), TOKENIZER, folder, "megatron") == first
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == times


# Kills, faults and company

RUN = """
import os, sys
from bpetite import Tokenizer
from bpetite.corpora import Corpus, tokenize
source, model, folder, format, kill_at = sys.argv[1:]
left = int(kill_at)
def counted(real):
    def call(*arguments, **options):
        global left
        left -= 1
        if left == 0:
            os._exit(9)
        return real(*arguments, **options)
    return call
for name in ("fsync", "replace", "open", "mkdir"):
    setattr(os, name, counted(getattr(os, name)))
print("ready", flush=True)
tokenize(Corpus(source), Tokenizer.load(model), folder, format, part_bytes=5_000, shard_tokens=None)
"""


def start(*arguments: object) -> subprocess.Popen[bytes]:
    """Start a run of RUN in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", RUN, *map(str, arguments)], env=variables(), stdout=subprocess.PIPE
    )


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The vocabulary file of TOKENIZER."""
    TOKENIZER.save(tmp_path / "model.json")
    return tmp_path / "model.json"


@pytest.fixture
def undisturbed(source: Path, tmp_path: Path) -> dict[str, dict[str, bytes]]:
    """The files of undisturbed runs, by format."""
    found = {}
    for format in ("megatron", "nanogpt"):
        folder = tmp_path / f"undisturbed-{format}"
        tokenize(Corpus(source), TOKENIZER, folder, format, part_bytes=5_000)
        found[format] = contents(folder)
    return found


@pytest.mark.parametrize("format", slow_except(["megatron", "nanogpt"], "megatron"))
def test_a_killed_run_goes_on_to_equal_bytes(
    format: str, source: Path, model: Path, folder: Path, undisturbed: dict[str, dict[str, bytes]]
) -> None:
    """Each run is killed some calls later than the one before, until one ends."""
    for kill_at in range(3, 10_000, 37):
        with start(source, model, folder, format, kill_at) as process:
            code = process.wait(timeout=60)
        if code == 0:
            break
        assert code == 9
        partial = contents(folder) if folder.exists() else {}
        assert partial.items() <= undisturbed[format].items()
        if "manifest.json" not in partial and folder.exists():
            assert verify(folder) != []
    assert contents(folder) == undisturbed[format]
    assert verify(folder, deep=True) == []
    assert not (folder / ".bpetite" / "new").exists()


@pytest.mark.parametrize("step", slow_except([1, 4], 4))
def test_a_run_killed_before_its_first_part_leaves_no_litter(
    step: int, source: Path, model: Path, tmp_path: Path, undisturbed: dict[str, dict[str, bytes]]
) -> None:
    for kill_at in range(2, 15, step):
        folder = tmp_path / f"killed-{kill_at}"
        with start(source, model, folder, "megatron", kill_at) as process:
            assert process.wait(timeout=60) == 9
        partial = contents(folder) if folder.exists() else {}
        assert partial.items() <= undisturbed["megatron"].items()


def test_two_runs_of_one_folder_write_equal_bytes(
    source: Path, model: Path, folder: Path, undisturbed: dict[str, dict[str, bytes]]
) -> None:
    runs = [start(source, model, folder, "megatron", 0) for _ in range(3)]
    for run in runs:
        with run:
            assert run.wait(timeout=60) == 0
    assert contents(folder) == undisturbed["megatron"]
    assert verify(folder, deep=True) == []


@pytest.mark.parametrize("workers", [1, 2])
def test_a_full_disk_leaves_whole_files_only(
    workers: int, source: Path, folder: Path, undisturbed: dict[str, dict[str, bytes]]
) -> None:
    """A limit on the size of files stands for the end of the disk."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_200, before[1]))
    try:
        with pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
            tokenize(
                Corpus(source), TOKENIZER, folder, "megatron", part_bytes=5_000, workers=workers
            )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert contents(folder).items() <= undisturbed["megatron"].items()
    tokenize(Corpus(source), TOKENIZER, folder, "megatron", part_bytes=5_000)
    assert contents(folder) == undisturbed["megatron"]


def test_a_folder_that_cannot_be_written_is_named(
    source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may write everywhere, so the refusal is made here."""

    def refuse(path: Path, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(PermissionError, match="tokens"):
        tokenize(Corpus(source), TOKENIZER, folder, "megatron")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_bad_line_stops_the_run_and_is_named(workers: int, source: Path, folder: Path) -> None:
    lines = source.read_text(encoding="utf-8").splitlines(keepends=True)
    lines[150] = '{"text": 1}\n'
    source.write_text("".join(lines), "utf-8", newline="\n")
    with pytest.raises(ValueError, match=r"texts\.jsonl: line 151, byte .*: not a string"):
        tokenize(Corpus(source), TOKENIZER, folder, "megatron", part_bytes=5_000, workers=workers)


# Verification


@pytest.fixture
def finished(source: Path, folder: Path) -> Path:
    """A complete folder of two parts."""
    tokenize(Corpus(source), TOKENIZER, folder, "megatron", part_bytes=20_000, end=END)
    assert verify(folder, TOKENIZER) == []
    return folder


@pytest.mark.parametrize("step", [23, pytest.param(1, marks=pytest.mark.slow)])
def test_every_changed_byte_is_found(finished: Path, step: int) -> None:
    """Of the manifest, the vocabulary, an index, and what a run leaves in the hidden folder."""
    names = [
        "manifest.json",
        "train_00000.idx",
        ".bpetite/plan.json",
        ".bpetite/receipts/00000.json",
    ]
    for name in names:
        path = finished / name
        content = path.read_bytes()
        for at in range(0, len(content), step if name == "manifest.json" else 37):
            path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
            assert verify(finished) != [], (name, at)
        path.write_bytes(content)
    assert verify(finished) == []


def changes() -> Iterator[Any]:
    """Yield what may happen to a folder, and a word of the problem that verify then tells."""

    def cut(path: Path) -> None:
        path.write_bytes(path.read_bytes()[:-2])

    def lengthen(path: Path) -> None:
        path.write_bytes(path.read_bytes() + b"\0\0")

    yield pytest.param("train_00000.bin", Path.unlink, "No such file", id="missing")
    yield pytest.param("train_00000.bin", cut, "bytes, not", id="cut")
    yield pytest.param("train_00001.bin", lengthen, "bytes, not", id="longer")
    yield pytest.param("train_00009.bin", Path.touch, "foreign", id="foreign")
    yield pytest.param("vocabulary.json", Path.unlink, "vocabulary cannot be read", id="vocabulary")
    yield pytest.param("manifest.json", Path.unlink, "has not ended", id="manifest")
    yield pytest.param(".bpetite/receipts/00001.json", Path.unlink, "receipt", id="receipt")


@pytest.mark.parametrize(("name", "change", "word"), [*changes()])
def test_verify_says_what_is_wrong(name: str, change: Any, word: str, finished: Path) -> None:
    change(finished / name)
    problems = verify(finished)
    assert len(problems) == 1
    assert word in problems[0]


def test_verify_knows_the_tokenizer(finished: Path) -> None:
    other = Tokenizer.train("ab", 256)
    assert verify(finished, other) == [
        f"the tokenizer is {other.fingerprint}, but {TOKENIZER.fingerprint} made the files"
    ]


def test_deep_verification_reads_the_sources(
    finished: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = source.read_text(encoding="utf-8").splitlines(keepends=True)
    lines[1] = lines[1].replace("hen", "HEN")
    source.write_text("".join(lines), "utf-8", newline="\n")
    assert verify(finished) == []
    problems = verify(finished, deep=True)
    assert [problem.partition(": other bytes than the plan's")[1] for problem in problems] == [
        ": other bytes than the plan's"
    ] * 2
    # An edit of a large file may be in none of the samples.
    monkeypatch.setattr("bpetite.corpora._part._check_sources", lambda _: None)
    assert verify(finished, deep=True) == [
        "part 0: encoded again, its sources give other ids, shards"
    ]


def test_too_little_memory_names_the_file(
    source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(Tokenizer, "encode_buffer", short)
    with pytest.raises(MemoryError, match=rf"{source.name}: out of memory$"):
        tokenize(Corpus(source), TOKENIZER, folder, "megatron", workers=1)


def test_progress_ends_with_everything(source: Path, folder: Path) -> None:
    seen: list[TokenizeProgress] = []
    manifest = tokenize(
        Corpus(source), TOKENIZER, folder, "megatron", part_bytes=5_000, progress=seen.append
    )
    last = seen[-1]
    size = source.stat().st_size
    assert (last.done_bytes, last.total_bytes, last.ids) == (size, size, manifest["totals"]["ids"])
    assert [now.ids for now in seen] == sorted(now.ids for now in seen)


def list_changes() -> Iterator[Any]:
    """Yield what may happen to a list of bad documents, and a word of the problem."""
    yield pytest.param(Path.unlink, "No such file", id="missing")
    yield pytest.param(lambda path: path.write_bytes(b""), "0 bytes, not", id="emptied")
    yield pytest.param(
        lambda path: path.write_bytes(path.read_bytes()[:-9]), "bytes, not", id="cut"
    )
    yield pytest.param(
        lambda path: path.write_bytes(path.read_bytes().replace(b"no", b"on")), "CRC", id="changed"
    )
    yield pytest.param(
        lambda path: path.with_name("00000.jsonl").write_bytes(path.read_bytes()),
        "foreign",
        id="doubled",
    )


@pytest.mark.parametrize(("change", "word"), [*list_changes()])
def test_verify_checks_lists_of_bad_documents(
    change: Any, word: str, tmp_path: Path, folder: Path
) -> None:
    for name, line in (("a", '{"text": "ab"}'), ("b", '{"id": 7}')):
        (tmp_path / f"{name}.jsonl").write_text(f"{line}\n" * 9)
    files = [tmp_path / f"{name}.jsonl" for name in "ab"]
    tokenize(Corpus(files, on_bad="skip"), TOKENIZER, folder, "megatron", part_bytes=60)
    assert verify(folder, deep=True) == []
    last = sorted((folder / ".bpetite/bad").iterdir())[-1]
    change(last)
    problems = verify(folder)
    assert len(problems) == 1
    assert word in problems[0]


@pytest.mark.parametrize("number", ["00099", "00001"])
def test_a_foreign_receipt_is_named(number: str, finished: Path) -> None:
    receipts = finished / ".bpetite/receipts"
    (receipts / f"{number}.json").write_bytes((receipts / "00000.json").read_bytes())
    (problem,) = verify(finished)
    assert problem.startswith(f".bpetite/receipts/{number}.json: foreign: the ")
    (finished / "manifest.json").unlink()
    with pytest.raises(ValueError, match=f"{number}.json: foreign: the "):
        finish(finished)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("manifest.json", ".bpetite/plan.json"),
        ("manifest.json", ".bpetite/receipts/00000.json"),
        (".bpetite/plan.json", "manifest.json"),
        (".bpetite/receipts/00001.json", "manifest.json"),
    ],
)
def test_a_document_under_another_name_is_refused(name: str, other: str, finished: Path) -> None:
    (finished / name).write_bytes((finished / other).read_bytes())
    (problem,) = verify(finished)
    assert problem.startswith(f"{finished / name}: another document of token files has this name")


def test_a_receipt_of_another_format_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "ten"}\n')
    for format in ("nanogpt", "megatron"):
        tokenize(Corpus(tmp_path / "a.jsonl"), TOKENIZER, tmp_path / format, format)
    receipt = Path(".bpetite/receipts/00000.json")
    (tmp_path / "nanogpt" / receipt).write_bytes((tmp_path / "megatron" / receipt).read_bytes())
    (problem,) = verify(tmp_path / "nanogpt")
    assert problem == f"{receipt}: foreign: the receipt of another run; remove it"


def test_a_receipt_of_another_run_is_refused(tmp_path: Path) -> None:
    folders = []
    for name in ("ten", "men"):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"text": name}) + "\n")
        folders.append(tmp_path / name)
        (tmp_path / "a.jsonl").write_bytes((tmp_path / f"{name}.jsonl").read_bytes())
        tokenize(Corpus(tmp_path / "a.jsonl"), TOKENIZER, folders[-1], "nanogpt")
        assert verify(folders[-1]) == []
    receipt = Path(".bpetite/receipts/00000.json")
    (folders[0] / receipt).write_bytes((folders[1] / receipt).read_bytes())
    problem = f"{receipt}: foreign: the receipt of another run; remove it"
    assert verify(folders[0]) == [problem]
    (folders[0] / MANIFEST).unlink()
    (tmp_path / "a.jsonl").write_bytes((tmp_path / "ten.jsonl").read_bytes())
    with pytest.raises(ValueError, match=re.escape(problem)):
        tokenize(Corpus(tmp_path / "a.jsonl"), TOKENIZER, folders[0], "nanogpt")


@pytest.mark.parametrize("format", slow_except(sorted(FORMATS), "megatron", "nanogpt"))
@pytest.mark.parametrize("kept", ["nothing", "all but one file", "the manifest"])
def test_token_files_that_are_gone_are_written_again(
    kept: str, format: str, source: Path, folder: Path
) -> None:
    manifest = tokenize(Corpus(source), TOKENIZER, folder, format, part_bytes=4096)
    before = contents(folder)
    others = {MANIFEST, "vocabulary.json"}
    gone = {
        "nothing": [*before],
        "all but one file": [MANIFEST, *sorted({*before} - others)[:1]],
        "the manifest": [*{*before} - others],
    }[kept]
    for name in gone:
        (folder / name).unlink()
    with pytest.raises(ValueError, match="parts are not done, the first is part 0"):
        finish(folder)
    assert tokenize(Corpus(source), TOKENIZER, folder, format, part_bytes=4096) == manifest
    assert contents(folder) == before
    assert verify(folder) == []


def test_parts_of_a_joined_folder_are_done(source: Path, folder: Path) -> None:
    tokenize(Corpus(source), TOKENIZER, folder, "nanogpt", part_bytes=4096)
    parts = plan(Corpus(source), TOKENIZER, folder, "nanogpt", part_bytes=4096)
    assert tokenize_parts(parts)["documents"] == sum(map(bool, TEXTS))
    assert not (folder / ".bpetite/shards").exists()
