"""An open folder has the documents of its texts, and every id in exactly one block."""

from __future__ import annotations

import gc
import json
import os
import pickle
import random
import sys
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.engines import once
from support.examples import slow_except

from bpetite import Tokenizer, corpora
from bpetite.corpora import Corpus, tokenize
from bpetite.corpora._shuffle import Shuffle
from bpetite.corpora._token_files import FORMATS

pytestmark = once

BEGIN, END = "<|begin|>", "<|endoftext|>"
TOKENIZER = Tokenizer.train("the hen met the ten men", 266, special_tokens=(END, BEGIN))


def documents(count: int) -> list[str]:
    choose = random.Random(1)
    words = ["the", "hen", "met", "<|endoftext|>", "你好"]
    return [
        "" if n % 9 == 5 else " ".join(choose.choices(words, k=n % 13 + 1)) for n in range(count)
    ]


TEXTS = documents(90)


def made(folder: Path, format: str, **options: Any) -> Path:
    """Write the ids of TEXTS."""
    source = folder / "texts.jsonl"
    lines = (json.dumps({"text": text}) + "\n" for text in TEXTS)
    source.write_text("".join(lines), encoding="utf-8")
    tokenize(Corpus(source), TOKENIZER, folder / "tokens", format, **options)
    return folder / "tokens"


def framed(format: str, begin: str | None = None, end: str | None = None) -> list[list[int]]:
    """Return the ids of the documents as a folder has them."""
    if begin is None and end is None and not FORMATS[format].stores_boundaries:
        begin, end = (END, None) if FORMATS[format].begins_documents else (None, END)
    first, last = ([] if it is None else [TOKENIZER.special_tokens[it]] for it in (begin, end))
    keeps_empty = FORMATS[format].keeps_empty
    return [
        [*first, *TOKENIZER.encode_ordinary(text), *last] for text in TEXTS if text or keeps_empty
    ]


def blocks_of(documents: Sequence[Sequence[int]], length: int) -> list[tuple[list[int], list[int]]]:
    """Return what blocks have: ids, and where documents begin and the last one ends."""
    ids = [id for document in documents for id in document]
    ends = {*accumulate(map(len, documents))}
    return [
        (
            ids[start : start + length],
            [0]
            + [
                end - start
                for end in range(start + 1, min(start + length, len(ids)))
                if end in ends
            ]
            + [min(length, len(ids) - start)],
        )
        for start in range(0, len(ids), length)
    ]


def lists(blocks: Sequence[corpora.Block]) -> list[tuple[list[int], list[int]]]:
    return [(block.ids.tolist(), block.offsets.tolist()) for block in blocks]


OPTIONS: dict[str, dict[str, Any]] = {
    "one": {},
    "shards": {"part_bytes": 900, "shard_tokens": 40},
    "begin": {"begin": END, "part_bytes": 900},
    "twice": {"begin": END, "end": END, "part_bytes": 900, "shard_tokens": 40},
    "both": {"begin": BEGIN, "end": END, "shard_tokens": 40},
}

SEARCHED = [name for name, format in FORMATS.items() if not format.stores_boundaries]


@pytest.mark.parametrize("name", slow_except(OPTIONS, "shards", "twice"))
@pytest.mark.parametrize(
    ("format", "library"),
    [*((format, "numpy") for format in FORMATS), *((format, "none") for format in SEARCHED)],
)
def test_documents_and_blocks_match_the_texts(
    format: str, library: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if library == "none":
        monkeypatch.setitem(sys.modules, "numpy", None)
    options = OPTIONS[name]
    if format == "nanogpt":
        options = {name: value for name, value in options.items() if name != "shard_tokens"}
    folder = corpora.open(made(tmp_path, format, **options))
    expected = framed(format, options.get("begin"), options.get("end"))
    assert [ids.tolist() for ids in folder] == expected
    assert (len(folder), folder.ids) == (len(expected), sum(map(len, expected)))
    assert folder[-1].tolist() == expected[-1]
    for length in (1, 7, 64, 100_000):
        assert lists(folder.blocks(length)) == blocks_of(expected, length)


def test_documents_of_a_large_shard_are_found_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ids are searched some at a time."""
    monkeypatch.setattr("bpetite.corpora._opened._SEARCHED_IDS", 3)
    for begin, end in ((None, END), (END, None), (END, END), (BEGIN, END)):
        place = tmp_path / f"{begin} {end}".replace("<", "").replace(">", "").replace("|", "")
        place.mkdir()
        folder = corpora.open(made(place, "nanogpt", begin=begin, end=end))
        assert [ids.tolist() for ids in folder] == framed("nanogpt", begin, end)


def test_numpy_maps_the_same_ids(tmp_path: Path) -> None:
    """As nanoGPT and modded-nanogpt read their files."""
    tokens = made(tmp_path, "nanogpt", validation=9)
    for split, file in (("train", "train.bin"), ("val", "val.bin")):
        ids = np.memmap(tokens / file, np.uint16, "r")
        blocks = [np.asarray(block.ids) for block in corpora.open(tokens, split).blocks(50)]
        assert np.concatenate(blocks).tolist() == ids.tolist()


def test_pyarrow_reads_the_same_documents(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    tokens = made(tmp_path, "parquet")
    column = parquet.read_table(tokens / "train_00000.parquet")["input_ids"]
    assert [ids.tolist() for ids in corpora.open(tokens)] == column.to_pylist()


def test_a_shuffle_is_an_order_of_all_places() -> None:
    for count in (0, 1, 2, 3, 10, 99, 100, 101, 4097):
        orders = [[*map(Shuffle(count, seed), range(count))] for seed in (1, 2, -1, 10**30)]
        assert all(sorted(order) == [*range(count)] for order in orders)
        assert count < 10 or len({*map(tuple, orders)}) == 4


def test_a_shuffle_is_the_same_everywhere() -> None:
    """A stored state is worth nothing if another version has another order."""
    assert [*map(Shuffle(12, 7), range(12))] == [6, 8, 0, 3, 4, 5, 11, 10, 2, 7, 9, 1]
    assert Shuffle(10**8, 7)(12_345_678) == 78_360_738


def test_shuffled_blocks_are_the_same_blocks(tmp_path: Path) -> None:
    blocks = corpora.open(made(tmp_path, "megatron")).blocks(16)
    shuffled = corpora.open(tmp_path / "tokens").blocks(16, seed=5)
    assert lists(shuffled) != lists(blocks)
    assert sorted(lists(shuffled[:-1])) == sorted(lists(blocks[:-1]))
    assert lists(shuffled[-1:]) == lists(blocks[-1:])
    assert lists(shuffled) == lists(corpora.open(tmp_path / "tokens").blocks(16, seed=5))


@pytest.mark.parametrize("format", FORMATS)
def test_ranks_and_workers_share_blocks_after_a_stop(format: str, tmp_path: Path) -> None:
    tokens = made(tmp_path, format)
    blocks = corpora.open(tokens).blocks(10, seed=3)
    ranks, workers, batch = 2, 2, 3

    def batches(done: int, rank: int) -> list[list[tuple[list[int], list[int]]]]:
        """Return the batches of a rank in the order of torch's DataLoader: from one worker each."""
        mine = pickle.loads(
            pickle.dumps(corpora.open(tokens).blocks(10, seed=3)[done:][rank::ranks])
        )
        groups = [mine[at : at + batch] for at in range(0, len(mine), batch)]
        by_worker = [
            [lists(group) for group in groups[worker::workers]] for worker in range(workers)
        ]
        return [by_worker[number % workers][number // workers] for number in range(len(groups))]

    whole = [batches(0, rank) for rank in range(ranks)]
    every = [block for rank in whole for some in rank for block in some]
    assert sorted(every) == sorted(lists(blocks))
    steps = 2
    resumed = [batches(steps * batch * ranks, rank) for rank in range(ranks)]
    assert resumed == [rank[steps:] for rank in whole]


def test_ids_are_not_copied(tmp_path: Path) -> None:
    folder = corpora.open(made(tmp_path, "megatron"))
    address = np.asarray(folder[0]).ctypes.data
    documents = [ids for ids in folder if len(ids)]
    places = [np.asarray(ids).ctypes.data - address for ids in documents]
    assert places == [*accumulate((2 * len(ids) for ids in documents), initial=0)][:-1]
    assert np.asarray(folder.blocks(7)[1].ids).ctypes.data - address == 14
    assert (folder[0].readonly, folder[0].format) == (True, "H")


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts the open files of Linux")
@pytest.mark.parametrize("format", FORMATS)
def test_no_file_stays_open(format: str, tmp_path: Path) -> None:
    """Far more shards than may be open are read, and a folder that is gone has none."""
    options = {} if format == "nanogpt" else {"shard_tokens": 12}
    tokens = made(tmp_path, format, **options)
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    folder = corpora.open(tokens)
    blocks = folder.blocks(5, seed=1)
    assert sum(len(block.ids) for block in blocks) == sum(map(len, folder)) == folder.ids
    assert len(os.listdir("/proc/self/fd")) <= before + 2 * 64
    del folder, blocks
    assert len(os.listdir("/proc/self/fd")) == before


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    tokens = made(tmp_path, "megatron")
    with pytest.raises(ValueError, match="no split 'val'; the folder has train"):
        corpora.open(tokens, "val")
    with pytest.raises(ValueError, match="length must be positive, got 0"):
        corpora.open(tokens).blocks(0)
    with pytest.raises(IndexError):
        corpora.open(tokens)[len(TEXTS)]
    with pytest.raises(NotADirectoryError, match="missing: not a folder"):
        corpora.open(tmp_path / "missing")


def test_a_url_is_refused() -> None:
    pytest.importorskip("upath")
    with pytest.raises(
        ValueError, match="the files of a URL cannot be mapped; copy them to a disk"
    ):
        corpora.open("memory://tokens")


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("manifest.json", "manifest.json: missing; the run that wrote this folder has not ended"),
        (".bpetite/receipts/00000.json", "receipts/00000.json: missing"),
        ("train_00000.bin", "train_00000.bin: No such file"),
        ("train_00000.idx", "train_00000.idx: No such file"),
    ],
)
def test_a_folder_that_lacks_a_file_is_refused(name: str, fault: str, tmp_path: Path) -> None:
    tokens = made(tmp_path, "megatron")
    (tokens / name).unlink()
    with pytest.raises(ValueError, match=fault):
        corpora.open(tokens)


@pytest.mark.parametrize("format", FORMATS)
def test_a_folder_with_a_file_cut_short_is_refused(format: str, tmp_path: Path) -> None:
    tokens = made(tmp_path, format)
    manifest = tokens / "manifest.json"
    names = [
        file["name"]
        for shard in json.loads(manifest.read_text())["shards"]
        for file in shard["files"]
    ]
    for name in [*names, "manifest.json"]:
        content = (tokens / name).read_bytes()
        (tokens / name).write_bytes(content[:-1])
        with pytest.raises(ValueError, match=f"{name}: (damaged|{len(content) - 1} bytes, not)"):
            corpora.open(tokens)
        (tokens / name).write_bytes(content)
    assert len(corpora.open(tokens)) == len(framed(format))


def test_a_header_of_other_ids_is_refused(tmp_path: Path) -> None:
    """The file has its size."""
    for format, name in (("megatron", "train_00000.idx"), ("llmc", "train_00000_00000.bin")):
        (tmp_path / format).mkdir()
        tokens = made(tmp_path / format, format)
        content = bytearray((tokens / name).read_bytes())
        content[8] ^= 1
        (tokens / name).write_bytes(content)
        with pytest.raises(ValueError, match=f"{name}: "):
            corpora.open(tokens)[0]


def test_documents_without_their_tokens_are_refused(tmp_path: Path) -> None:
    tokens = made(tmp_path, "nanogpt")
    path = tokens / "train.bin"
    path.write_bytes(
        path.read_bytes().replace(TOKENIZER.special_tokens[END].to_bytes(2, "little"), b"aa")
    )
    with pytest.raises(ValueError, match="train has 0 documents, not 80; verify the folder"):
        corpora.open(tokens)[0]


def test_a_parquet_folder_is_unpacked_once(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    tokens = made(tmp_path, "parquet")
    expected = [ids.tolist() for ids in corpora.open(tokens)]
    (copy,) = (tokens / ".bpetite/opened").glob("*.ds")
    time = copy.stat().st_mtime_ns
    assert [ids.tolist() for ids in corpora.open(tokens)] == expected
    assert copy.stat().st_mtime_ns == time
    assert corpora.verify(tokens) == []
