"""After `repair`, the same run gives the folder that it gave before, whatever the damage was."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.engines import once
from support.examples import slow_except

from bpetite import Tokenizer, corpora
from bpetite.corpora import Corpus, Repair, finish, repair, tokenize, verify
from bpetite.corpora._folder import opened, sealed
from bpetite.corpora._token_files import FORMATS

pytestmark = once

TOKENIZER = Tokenizer.train("the hen met the ten men", 262)


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    """Lines in several parts, one of them with a bad line."""
    lines = [json.dumps({"text": f"the hen met {number} men"}) for number in range(40)]
    lines[20] = "{"
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return Corpus(path, on_bad="skip")


def written(corpus: Corpus, folder: Path, format: str) -> None:
    tokenize(corpus, TOKENIZER, folder, format, part_bytes=450, validation=0.2)


def contents(folder: Path) -> dict[str, bytes]:
    """Return the bytes of all files of a folder by their names."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def changed(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def resealed(path: Path) -> None:
    """Change the numbers of a document, and its hash."""
    document = opened(path.read_bytes(), path.name)
    counts = document.get("totals", document)
    counts["ids"] += 1
    path.write_bytes(sealed(document))


DAMAGES: list[Callable[[Path], None]] = [changed, cut, emptied, Path.unlink]


@pytest.mark.parametrize("format", slow_except(FORMATS, "megatron", "nanogpt", "parquet"))
@pytest.mark.parametrize("first", slow_except([0, 1, 2, 3], 0))
def test_the_same_run_completes_a_repaired_folder(
    format: str, first: int, corpus: Corpus, tmp_path: Path
) -> None:
    """Each file of the folder is damaged in turn, in the next way."""
    folder = tmp_path / "tokens"
    written(corpus, folder, format)
    expected = contents(folder)
    for number, name in enumerate(expected, first):
        DAMAGES[number % len(DAMAGES)](folder / name)
        problems = verify(folder)
        found = repair(folder)
        assert problems != []
        assert ({*problems} <= {*found.repaired}, found.left) == (True, []), (name, found)
        written(corpus, folder, format)
        assert contents(folder) == expected, name


@pytest.mark.parametrize(
    "names",
    [
        ["manifest.json", ".bpetite/plan.json"],
        ["manifest.json", ".bpetite/receipts/00001.json", "train_00002.bin"],
        [".bpetite/plan.json", "vocabulary.json", "train_00000.idx", "train_00001.bin"],
    ],
    ids=["plan", "receipt", "vocabulary"],
)
def test_several_damages_are_repaired_at_once(
    names: list[str], corpus: Corpus, tmp_path: Path
) -> None:
    folder = tmp_path / "tokens"
    written(corpus, folder, "megatron")
    expected = contents(folder)
    for name in names:
        changed(folder / name)
    repair(folder)
    written(corpus, folder, "megatron")
    assert contents(folder) == expected


def test_only_the_part_with_a_damage_is_removed(corpus: Corpus, tmp_path: Path) -> None:
    folder = tmp_path / "tokens"
    written(corpus, folder, "megatron")
    before = contents(folder)
    changed(folder / "train_00002.bin")
    path = folder / "train_00002.bin"
    removed = ["manifest.json", ".bpetite/receipts/00002.json"]
    removed += sorted(name for name in before if "00002." in name and "receipts" not in name)
    assert repair(folder) == Repair(
        [f"{path}: damaged: its content does not fit its CRC-32"], removed, []
    )
    assert contents(folder) == {name: before[name] for name in before if name not in removed}


@pytest.mark.parametrize("name", ["manifest.json", ".bpetite/receipts/00001.json"])
def test_documents_that_disagree_are_repaired(name: str, corpus: Corpus, tmp_path: Path) -> None:
    folder = tmp_path / "tokens"
    written(corpus, folder, "megatron")
    expected = contents(folder)
    resealed(folder / name)
    assert verify(folder) != []
    repair(folder)
    written(corpus, folder, "megatron")
    finish(folder)
    assert verify(folder, deep=True) == []
    assert {*contents(folder)} == {*expected}


def test_encoding_again_finds_a_part_with_other_ids(corpus: Corpus, tmp_path: Path) -> None:
    """The files, the receipt and the manifest agree."""
    folder = tmp_path / "tokens"
    written(corpus, folder, "megatron")
    before = contents(folder)
    with_wrong_ids(folder)
    assert verify(folder) == []
    problem = "part 0: encoded again, its sources give other shards"
    assert repair(folder, deep=True).repaired == [problem]
    written(corpus, folder, "megatron")
    assert contents(folder) == before


def with_wrong_ids(folder: Path) -> None:
    """Change an id of a part, and every record of it."""
    path = folder / "train_00000.bin"
    data = path.read_bytes()
    other = bytes([data[0] ^ 1]) + data[1:]
    path.write_bytes(other)
    for name in ("manifest.json", ".bpetite/receipts/00000.json"):
        place = folder / name
        document = json.dumps(opened(place.read_bytes(), name))
        place.write_bytes(sealed(json.loads(document.replace(crc(data), crc(other)))))


def crc(data: bytes) -> str:
    return f"{zlib.crc32(data):08x}"


def test_foreign_files_are_left(corpus: Corpus, tmp_path: Path) -> None:
    folder = tmp_path / "tokens"
    written(corpus, folder, "nanogpt")
    before = contents(folder)
    (folder / "train_00000.txt").write_text("notes")
    (folder / ".bpetite/bad/99999.jsonl").write_text("{}")
    left = [
        f"{folder}/.bpetite/bad/99999.jsonl: foreign: no receipt names it",
        f"{folder}/train_00000.txt: foreign: the manifest does not name it",
    ]
    assert repair(folder) == Repair([], [], left)
    cut(folder / "train.bin")
    assert repair(folder).left == left
    assert (folder / "train_00000.txt").read_text() == "notes"
    written(corpus, folder, "nanogpt")
    assert contents(folder).items() >= before.items()


def test_files_that_a_forged_receipt_names_are_left(corpus: Corpus, tmp_path: Path) -> None:
    folder = tmp_path / "tokens"
    written(corpus, folder, "megatron")
    receipt = folder / ".bpetite/receipts/00000.json"
    document = opened(receipt.read_bytes(), "receipt")
    for name in ("../a.jsonl", "train_00001.bin", "vocabulary.json"):
        document["shards"][0]["files"][0]["name"] = name
        receipt.write_bytes(sealed(document))
        removed = repair(folder).removed
        assert name not in removed
        written(corpus, folder, "megatron")
    assert verify(folder) == []


@pytest.mark.parametrize("name", ["manifest.json", "vocabulary.json", "train_00000.bin"])
def test_a_folder_of_another_program_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("{}")
    with pytest.raises(ValueError, match="not a folder of token files"):
        repair(tmp_path)
    assert contents(tmp_path) == {name: b"{}"}


def test_a_folder_of_another_version_is_left(corpus: Corpus, tmp_path: Path) -> None:
    folder = tmp_path / "tokens"
    written(corpus, folder, "megatron")
    path = folder / "manifest.json"
    document = opened(path.read_bytes(), "manifest")
    path.write_bytes(sealed({**document, "version": 2}))
    before = contents(folder)
    with pytest.raises(ValueError, match="version 2; this bpetite reads 1"):
        repair(folder)
    assert contents(folder) == before


def test_a_good_folder_and_an_unfinished_one_lose_nothing(corpus: Corpus, tmp_path: Path) -> None:
    folder = tmp_path / "tokens"
    written(corpus, folder, "megatron")
    before = contents(folder)
    assert repair(folder, TOKENIZER, deep=True) == Repair([], [], [])
    assert contents(folder) == before
    (folder / "manifest.json").unlink()
    assert repair(folder) == Repair(verify(folder), [], [])
    cut(folder / "train_00001.idx")
    assert ".bpetite/receipts/00001.json" in repair(folder).removed
    written(corpus, folder, "megatron")
    assert contents(folder) == before


def forged(path: Path, place: list[Any], value: Any) -> None:
    """Change a value of a document, and its hash."""
    document = opened(path.read_bytes(), path.name)
    holder = document
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = value
    path.write_bytes(sealed(document))


@pytest.mark.parametrize("is_absolute", [False, True])
@pytest.mark.parametrize("format", ["megatron", "llmc", "datatrove", "olmo"])
def test_no_file_outside_a_folder_is_read(
    format: str, is_absolute: bool, corpus: Corpus, tmp_path: Path
) -> None:
    folder = tmp_path / "tokens"
    written(corpus, folder, format)
    manifest = folder / "manifest.json"
    document = opened(manifest.read_bytes(), "manifest")
    shard = document["shards"][0]
    for file in shard["files"]:
        (tmp_path / file["name"]).write_bytes((folder / file["name"]).read_bytes())
    place = f"{tmp_path}/" if is_absolute else "../"
    shard["name"] = place + shard["name"]
    for file in shard["files"]:
        file["name"] = place + file["name"]
    manifest.write_bytes(sealed(document))
    with pytest.raises(ValueError, match=r"manifest\.json: shards\[0\].*name is .*, which"):
        corpora.open(folder)
    (problem,) = verify(folder)
    assert "which no file of a part has" in problem


@pytest.mark.parametrize(
    ("name", "place", "value", "fault"),
    [
        ("manifest.json", ["dtype"], "x", "dtype must be one of uint16, int32, uint32, got 'x'"),
        ("manifest.json", ["format"], "x", "format must be one of "),
        ("manifest.json", ["end"], "<|x|>", "begin or end is '<|x|>', which is not a special"),
        ("manifest.json", ["end"], 5, "end must be str or null, got 5"),
        ("manifest.json", ["totals", "ids"], 1.5, "totals.ids must be int, got 1.5"),
        ("manifest.json", ["totals", "ids"], True, "totals.ids must be int, got True"),
        ("manifest.json", ["shards", 0, "ids"], -1, "shards[0].ids must be at least 0, got -1"),
        ("manifest.json", ["shards", 0, "ids"], "5", "shards[0].ids must be int, got '5'"),
        ("manifest.json", ["shards", 0, "split"], [], "shards[0].split must be str, got []"),
        ("manifest.json", ["parts", 0, "shards"], {}, "parts[0].shards must be a list, got {}"),
        ("manifest.json", ["tokenizer", "special_tokens"], [], "must be a dict, got []"),
        (".bpetite/plan.json", ["part_bytes"], None, "part_bytes must be int, got None"),
        (".bpetite/plan.json", ["parts", 0, 0, "path"], 5, "parts[0][0].path must be str, got 5"),
        (".bpetite/receipts/00000.json", ["part"], "0", "part must be int, got '0'"),
        (".bpetite/receipts/00000.json", ["plan"], None, "plan must be str, got None"),
    ],
    ids=str,
)
def test_a_value_of_another_type_is_named(
    name: str, place: list[Any], value: Any, fault: str, corpus: Corpus, tmp_path: Path
) -> None:
    folder = tmp_path / "tokens"
    written(corpus, folder, "llmc")
    forged(folder / name, place, value)
    problems = verify(folder)
    assert any(name.split("/")[-1] + ": " in each and fault in each for each in problems)
    if name == "manifest.json":
        with pytest.raises(ValueError, match=re.escape(fault)):
            corpora.open(folder)
    repair(folder)
    written(corpus, folder, "llmc")
    assert verify(folder) == []
