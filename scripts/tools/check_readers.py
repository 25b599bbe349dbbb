"""Read token files with the libraries that they are written for, and compare every id.

All libraries share an environment in the folder --environments, which torch makes large (7 GB).
Since llm.c has no package, --llmc names a folder with its source. The exit code is 1 if a reader
fails or finds other ids.

PYTHONPATH=scripts python -m tools.check_readers [--llmc FOLDER] [--only READER ...]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from pydoc_data.topics import topics

from bpetite import Tokenizer
from bpetite.corpora import Corpus, tokenize
from tools.venv import ROOT, environment

END = "<|endoftext|>"

TORCH = (
    *("torch", "numpy", "datasets", "megatron-core", "mosaicml-streaming", "litdata"),
    *("datatrove[io,processing]", "regex", "tqdm"),
)
OLMO_CORE = (
    *("ai2-olmo-core", "bettermap", "cached-path", "dataclass-extensions", "omegaconf"),
    *("importlib_resources", "safetensors", "rich", "pygments"),
)
"""Installed without their dependencies, because OLMo-core needs an older torch than the others."""


@dataclass(frozen=True)
class Reader:
    """A program that reads a folder of token files and prints its ids."""

    format: str
    program: str
    """Its argument is the folder. It prints JSON: documents as lists of ids, or all ids as one."""
    has_end: bool = True
    by_document: bool = True
    is_recipe: bool = False
    """Whether the files are written by the library's own writer, in a program of the docs."""


LLMC_SOURCE = r"""
#include <stdio.h>
#include "llmc/dataloader.h"
int main(int count, char **arguments) {
    DataLoader loader;
    dataloader_init(&loader, arguments[1], 4, 16, 0, 1, 0);
    size_t batches = loader.num_tokens / 64;
    printf("[[");
    for (size_t i = 0; i < batches; i++) {
        dataloader_next_batch(&loader);
        for (int at = 0; at < 64; at++) printf("%s%d", i + at ? "," : "", loader.inputs[at]);
    }
    printf("]]");
    return 0;
}
"""

READERS = {
    "megatron": Reader(
        "megatron",
        """
        from megatron.core.datasets.indexed_dataset import IndexedDataset
        parts = [IndexedDataset(str(path.with_suffix(""))) for path in sorted(folder.glob("*.bin"))]
        show([part[i].tolist() for part in parts for i in range(len(part))])
        """,
    ),
    "megatron without an end token": Reader(
        "megatron",
        """
        from megatron.core.datasets.indexed_dataset import IndexedDataset
        parts = [IndexedDataset(str(path.with_suffix(""))) for path in sorted(folder.glob("*.bin"))]
        show([part[i].tolist() for part in parts for i in range(len(part))])
        """,
        has_end=False,
    ),
    "datatrove": Reader(
        "datatrove",
        """
        from datatrove.utils.dataset import DatatroveFolderDataset
        data = DatatroveFolderDataset(str(folder), seq_len=7, token_size=2)
        show([[id for i in range(len(data)) for id in data[i]["input_ids"].tolist()]])
        """,
        by_document=False,
    ),
    "datasets": Reader(
        "parquet",
        """
        from datasets import load_dataset
        show(load_dataset(str(folder), split="train")["input_ids"][:])
        """,
    ),
    "olmo-core": Reader(
        "olmo",
        """
        import numpy as np
        from olmo_core.data.utils import iter_document_indices, load_array_slice
        show([
            load_array_slice(path, start, end, np.uint16).tolist()
            for path in sorted(folder.glob("*.npy"))
            for start, end in iter_document_indices(path)
        ])
        """,
    ),
    "llm.c": Reader("llmc", "", has_end=False, by_document=False),
    "nanogpt": Reader(
        "nanogpt",
        """
        import numpy as np
        show([np.memmap(folder / "train.bin", dtype=np.uint16, mode="r").tolist()])
        """,
        by_document=False,
    ),
    "mosaicml-streaming": Reader(
        "mds",
        """
        from streaming import LocalDataset
        show([sample["input_ids"].tolist() for sample in LocalDataset(str(folder))])
        """,
        is_recipe=True,
    ),
    "litdata": Reader(
        "litdata",
        """
        from litdata import StreamingDataset
        from litdata.streaming.item_loader import TokensLoader
        data = StreamingDataset(str(folder), item_loader=TokensLoader(block_size=8))
        show([[id for block in data for id in block.tolist()]])
        """,
        by_document=False,
        is_recipe=True,
    ),
}

PRELUDE = """
import json, logging, os, pathlib, sys, warnings
warnings.simplefilter("ignore")
logging.disable(logging.WARNING)
folder = pathlib.Path(sys.argv[1])
def show(documents):
    sys.stdout.flush()
    os.write(result, json.dumps(documents).encode())
result = os.dup(1)
os.dup2(2, 1)  # libraries print
"""


VARIABLES = {**os.environ, "PYTHONPATH": str(ROOT / "src")}


def main() -> None:
    """Check each reader; exit with 1 if one differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environments", type=Path, default=ROOT / ".readers", metavar="FOLDER")
    parser.add_argument("--llmc", type=Path, metavar="FOLDER")
    parser.add_argument("--only", nargs="+", choices=READERS, default=[*READERS], metavar="READER")
    options = parser.parse_args()
    python = environment(options.environments, TORCH, ("--no-deps", *OLMO_CORE))
    failures = 0
    for name in options.only:
        with tempfile.TemporaryDirectory() as folder:
            try:
                problem = difference(READERS[name], options, python, Path(folder))
            except subprocess.CalledProcessError:
                problem = "the program of the library failed"
            except (OSError, ValueError) as error:
                problem = str(error)
        print(f"{name}: {problem or 'equal'}", flush=True)
        failures += problem is not None
    sys.exit(failures > 0)


def difference(
    reader: Reader, options: argparse.Namespace, python: Path, folder: Path
) -> str | None:
    """Write token files, read them with the library, and return the difference, or None."""
    texts = [*topics.values(), "one", "", "你好 🙂"]
    source = folder / "texts.jsonl"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), "utf-8")
    tokenizer = Tokenizer.train(texts, 1_000)
    tokenizer.save(folder / "model.json")
    tokens = folder / "tokens"
    if reader.is_recipe:
        subprocess.run([python, "-c", recipe(reader.format)], cwd=folder, env=VARIABLES, check=True)
    else:
        end = END if reader.has_end else None
        # These readers omit the incomplete last row of each file.
        part_bytes = 10**5 if reader.by_document else 10**9
        tokenize(Corpus(source), tokenizer, tokens, reader.format, end=end, part_bytes=part_bytes)
    command: list[str | Path]
    if reader.format == "llmc":
        compile_llmc(options.llmc, folder)
        command = [folder / "reader", tokens / "*.bin"]
    else:
        command = [python, "-c", PRELUDE + textwrap.dedent(reader.program), tokens]
    found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    expected = [*expected_documents(reader, texts, tokenizer)]
    if reader.by_document:
        return None if found == expected else first_difference(found, expected)
    ids, all_ids = [*chain(*found)], [*chain(*expected)]
    if len(ids) < 0.9 * len(all_ids):  # readers omit an incomplete last row
        return f"{len(ids)} ids of {len(all_ids)}"
    return None if ids == all_ids[: len(ids)] else first_difference([ids], [all_ids])


def recipe(format: str) -> str:
    """Return the program in docs/interoperability.md that writes files with another library."""
    page = (ROOT / "docs" / "interoperability.md").read_text("utf-8")
    found = re.search(rf"```python\n(# {format}\.py\n.*?)```", page, re.DOTALL)
    if found is None:
        raise ValueError(f"docs/interoperability.md has no program {format}.py")
    return found[1]


def compile_llmc(source: Path | None, folder: Path) -> None:
    """Compile a program around llm.c's data loader."""
    if source is None:
        raise FileNotFoundError("--llmc must name a folder with the source of llm.c")
    (folder / "reader.c").write_text(LLMC_SOURCE, "utf-8")
    files: list[str | Path] = ["-o", folder / "reader", folder / "reader.c"]
    subprocess.run(["gcc", "-O1", "-w", f"-I{source}", *files, "-lm"], check=True)


def expected_documents(
    reader: Reader, texts: list[str], tokenizer: Tokenizer
) -> Iterator[list[int]]:
    """Yield the ids that each document should have."""
    end = tokenizer.special_tokens[END]
    for text in texts:
        ids = tokenizer.encode_ordinary(text)
        if reader.format == "llmc" and text:
            yield [end, *ids]
        elif text or reader.format in ("megatron", "parquet"):
            yield [*ids, *([end] if reader.has_end else [])]


def first_difference(found: list[list[int]], expected: list[list[int]]) -> str:
    """Return a sentence about the first document that differs."""
    for number, (one, other) in enumerate(zip(found, expected, strict=False)):
        if one != other:
            return f"document {number} is {one[:9]}…, not {other[:9]}…"
    return f"{len(found)} documents, not {len(expected)}"


if __name__ == "__main__":
    main()
