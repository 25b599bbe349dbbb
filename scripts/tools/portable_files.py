"""Write a file of every kind that bpetite writes, to compare machines and engines byte by byte.

The files follow from the arguments alone. Each TEXT is a file in UTF-8, of which the first
characters are taken. Each vocabulary is a file that `Tokenizer.load` reads. Parquet needs pyarrow,
whose version is part of the file; so the folder has the ids of that file instead. Rows of olmo are
stored without gzip, whose bytes depend on the version of zlib.

PYTHONPATH=src:scripts python -m tools.portable_files FOLDER [TEXT ...] [--vocabulary FILE ...]
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import pickle
import random
import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fuzzing.inputs import OVERLAPPING, SPECIAL, from_parts, mixed_texts

from bpetite import PATTERNS, PieceCounts, Tokenizer
from bpetite._cli import main as command_line
from bpetite.corpora import TOKEN_FORMATS, Corpus, tokenize
from tools.engines import instruction_set

VOCAB_SIZE = 1000
END = SPECIAL[0]
MORE_SEEDS = 40
"""Generated texts besides those that vocabularies are trained on."""

SHARD_IDS = 20_000
PART_BYTES = 50_000


def main() -> None:
    """Write the files to a new folder, and print the engine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("texts", type=Path, nargs="*")
    parser.add_argument("--characters", type=int, default=100_000, help="of each text")
    parser.add_argument("--vocabulary", type=Path, nargs="*", default=[])
    arguments = parser.parse_args()
    texts = generated_texts()
    for path in arguments.texts:
        text = path.read_bytes().decode("utf-8")[: arguments.characters]
        texts += documents_of(text)
    arguments.folder.mkdir(parents=True)
    vocabularies = [path.resolve() for path in arguments.vocabulary]
    os.chdir(arguments.folder)  # manifests and tables have paths as they are given
    write_all(texts, vocabularies)
    print(f"{sys.byteorder}-endian, {instruction_set() or 'Python'} engine", flush=True)


def generated_texts() -> list[str]:
    """Return texts of all kinds, equal for every Python."""
    rng = random.Random(1)
    texts = [*mixed_texts(), "", "a" * 10_000, "你好世界" * 2000, " \n" * 500]
    return texts + [from_parts(rng, 3000) for _ in range(MORE_SEEDS)]


def documents_of(text: str) -> list[str]:
    """Return a text in documents of various lengths."""
    rng = random.Random(len(text))
    documents = []
    start = 0
    while start < len(text):
        end = start + rng.choice((1, 10, 100, 1000, 10_000))
        documents.append(text[start:end])
        start = end
    return documents


def write_all(texts: Sequence[str], vocabularies: Iterable[Path]) -> None:
    """Write all files to the current folder."""
    write_counts(texts)
    tokenizers: dict[str, Tokenizer] = {}
    for name in PATTERNS:
        trained = Tokenizer.train(texts, VOCAB_SIZE, pattern=name, special_tokens=SPECIAL)
        trained.save(f"{name}.json", format="bpetite")
        tokenizers[name] = trained
    gpt2 = tokenizers["gpt2"]
    overlapping = Tokenizer.train(texts, VOCAB_SIZE, special_tokens=OVERLAPPING)
    tokenizers["overlapping"] = overlapping
    tokenizers["whole characters"] = Tokenizer.train(texts, 4000, whole_characters=True)
    for path in vocabularies:
        tokenizers[path.name] = Tokenizer.load(path)
    for name, tokenizer in tokenizers.items():
        write_ids(name, tokenizer, texts)
    Tokenizer.train(texts, VOCAB_SIZE, checkpoint="checkpoint.json")
    Tokenizer.train(texts, VOCAB_SIZE, special_tokens=[]).save("gpt2.tiktoken")
    Path("gpt2").mkdir()
    Tokenizer.train(texts, VOCAB_SIZE).save("gpt2/vocab.json")
    gpt2.save("huggingface/", format="huggingface")
    fingerprints = {name: tokenizer.fingerprint for name, tokenizer in tokenizers.items()}
    write_json("fingerprints.json", fingerprints)
    write_json("states.json", states_of(gpt2))
    Path("tokenizer.pickle").write_bytes(pickle.dumps(gpt2, protocol=4))
    lines = "".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts)
    Path("corpus.jsonl").write_text(lines, "utf-8", newline="")
    write_token_files(gpt2)
    write_by_command("gpt2.json")


def write_counts(texts: Sequence[str]) -> None:
    """Write files of piece counts."""
    counts = PieceCounts.from_corpus(texts)
    counts.save("all.counts")
    counts.prune(3).save("pruned.counts")
    (counts * 200 + PieceCounts.from_corpus(texts[:50])).save("sum.counts")
    for number, part in enumerate(counts.partition(3)):
        part.save(f"part-{number}.counts")
    PieceCounts.merge([f"part-{number}.counts" for number in range(3)], "merged.counts")


def write_ids(name: str, tokenizer: Tokenizer, texts: Sequence[str]) -> None:
    """Write the ids of all texts, and where each text and each token ends.

    Exits with 1 if the results of this engine contradict each other.
    """
    ids, ends = tokenizer.encode_batch_arrays(texts)
    write_numbers(f"ids of {name}.u32", ids)
    write_numbers(f"ends of {name}.u64", ends)
    joined = "".join(texts)
    whole = tokenizer.encode_array(joined)
    write_numbers(f"ids of {name}, joined.u32", whole)
    write_numbers(f"starts of {name}.u64", array("Q", tokenizer.decode_with_offsets(whole)[1]))
    facts = {
        "decode": tokenizer.decode(whole) == joined,
        "decode_bytes": tokenizer.decode_bytes(ids) == joined.encode(),
        "encode": tokenizer.encode(joined) == whole.tolist(),
        "encode of bytes": tokenizer.encode(joined.encode()) == whole.tolist(),
        "count": tokenizer.count(joined) == len(whole),
        "stream": "".join(tokenizer.decode_stream().texts(whole.tolist())) == joined,
    }
    if wrong := [fact for fact, is_true in facts.items() if not is_true]:
        sys.exit(f"bpetite: {name}: wrong result of {', '.join(wrong)}")


def write_numbers(name: str, numbers: memoryview | array[int]) -> None:
    """Write integers, little-endian."""
    copy = array(memoryview(numbers).format, numbers)
    if sys.byteorder == "big":
        copy.byteswap()
    Path(name).write_bytes(copy.tobytes())


def write_json(name: str, document: object) -> None:
    """Write a document."""
    Path(name).write_text(json.dumps(document, indent=1), "utf-8", newline="")


def states_of(tokenizer: Tokenizer) -> Sequence[Mapping[str, object]]:
    """Return the states of a stream after each id of a text with long characters."""
    stream = tokenizer.decode_stream(stop="END", tags=["<b>"])
    states = []
    for id in tokenizer.encode("🙂 𝔘 <b> E EN <b"):
        stream.step(id)
        states.append(stream.to_state())
    return states


def write_token_files(tokenizer: Tokenizer) -> None:
    """Write a folder of token files in each format."""
    for name in TOKEN_FORMATS:
        if name == "parquet" and not find_spec("pyarrow"):
            continue
        folder = Path(f"tokens {name}")
        tokenize(
            Corpus("corpus.jsonl"),
            tokenizer,
            folder,
            name,
            end=END,
            begin=END if name == "llmc" else None,
            shard_tokens=None if name == "nanogpt" else SHARD_IDS,
            validation=0.05,
            shuffle=7,
            part_bytes=PART_BYTES,
        )
        if name in ("olmo", "parquet"):
            # Manifest and receipts have the size and the CRC-32 of each file.
            for path in [folder / "manifest.json", *folder.glob(".bpetite/**/*.json")]:
                path.unlink()
        for path in folder.glob("*.gz"):
            path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
            path.unlink()
        for path in folder.glob("*.parquet"):
            parquet: Any = import_module("pyarrow.parquet")
            ids = parquet.read_table(path).column("input_ids").to_pylist()
            write_json(f"{path}.json", ids)
            path.unlink()


def write_by_command(model: str) -> None:
    """Write ids and piece counts by the command line, and read the ids back."""
    for name in ("u16", "u32", "npy", "json", "lines", "text"):
        ids = f"command.{name}"
        command_line(["encode", "corpus.jsonl", "--model", model, "--format", name, "-o", ids])
    for name in ("u16", "u32", "npy"):
        ids = f"command.{name}"
        command_line(["decode", ids, "--model", model, "--format", name, "-o", f"{ids}.txt"])


if __name__ == "__main__":
    main()
