"""Other libraries that tokenize files: how to install and to run each of them.

Each has an environment of its own, since their requirements exclude each other.
"""

from __future__ import annotations

import subprocess
import textwrap
from dataclasses import dataclass
from pathlib import Path

from tools import venv

_PRELUDE = """
import sys
from pathlib import Path
source, tokenizer, output = map(Path, sys.argv[1:4])
end, end_id = sys.argv[4], int(sys.argv[5])
"""


@dataclass(frozen=True)
class Other:
    """A library's way from a file to a folder of token files."""

    name: str
    package: str
    """The package that names its environment and its version."""
    packages: tuple[str, ...]
    format: str
    """bpetite's format for the same readers."""
    program: str
    """Python; `source`, `tokenizer` and `output` are paths, `end` is a special token."""
    ids: str = ""
    """A glob of output files that hold only ids of two bytes; "" if there are no such files."""
    is_fast: bool = False
    """Whether it gets as large a file as bpetite."""

    @property
    def code(self) -> str:
        """The program with its arguments in variables."""
        return _PRELUDE + textwrap.dedent(self.program)


OTHERS = (
    Other(
        "datatrove, DocumentTokenizer",
        "datatrove",
        ("datatrove[io,processing]", "regex"),
        "datatrove",
        """
        from datatrove.executor import LocalPipelineExecutor
        from datatrove.pipeline.readers import JsonlReader
        from datatrove.pipeline.tokens import DocumentTokenizer
        reader = JsonlReader(str(source.parent), glob_pattern=source.name)
        writer = DocumentTokenizer(
            str(output),
            tokenizer_name_or_path=str(tokenizer),
            eos_token=end,
            shuffle_documents=False,
        )
        LocalPipelineExecutor([reader, writer], logging_dir=str(output / "logs")).run()
        """,
        ids="*.ds",
    ),
    Other(
        "dolma, tokens",
        "dolma",
        ("dolma",),
        "olmo",
        """
        from dolma.cli.__main__ import main
        main([
            "tokens", "--documents", str(source), "--destination", str(output),
            "--tokenizer.name_or_path", str(tokenizer), "--tokenizer.eos_token_id", str(end_id),
            "--tokenizer.pad_token_id", str(end_id), "--dtype", "uint16", "--processes", "1",
        ])
        """,
        ids="*.npy",
    ),
    Other(
        # No package has preprocess_data.py, so this is its loop, with one worker.
        "Megatron, the loop of preprocess_data.py",
        "megatron-core",
        ("megatron-core", "torch", "tokenizers"),
        "megatron",
        """
        import json
        from multiprocessing import Pool
        import numpy
        from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder
        from tokenizers import Tokenizer
        def load():
            global encode
            encode = Tokenizer.from_file(str(tokenizer)).encode
        def ids_of(line):
            ids = encode(json.loads(line)["text"], add_special_tokens=False).ids
            ids.append(end_id)
            return ids, [len(ids)]
        output.mkdir()
        builder = IndexedDatasetBuilder(str(output / "text.bin"), dtype=numpy.uint16)
        with Pool(1, load) as pool, source.open(encoding="utf-8") as lines:
            for ids, lengths in pool.imap(ids_of, lines, 32):
                builder.add_document(ids, lengths)
            builder.finalize(str(output / "text.idx"))
        """,
        ids="*.bin",
    ),
    Other(
        "datasets, map",
        "datasets",
        ("datasets", "tokenizers"),
        "parquet",
        """
        from datasets import load_dataset
        from tokenizers import Tokenizer
        encode = Tokenizer.from_file(str(tokenizer)).encode_batch
        def ids_of(rows):
            found = encode([text + end for text in rows["text"]])
            return {"input_ids": [one.ids for one in found]}
        data = load_dataset("json", data_files=str(source), split="train", cache_dir=str(output))
        data.map(ids_of, batched=True, remove_columns=data.column_names)
        """,
    ),
    Other(
        "gigatoken, encode_files (ids stay in memory)",
        "gigatoken",
        ("gigatoken",),
        "megatron",
        """
        import gigatoken
        files = gigatoken.JsonlFileSource([str(source)])
        gigatoken.Tokenizer(str(tokenizer)).encode_files(files, parallel=False)
        """,
        is_fast=True,
    ),
)


class NotInstalledError(Exception):
    """A library could not be installed."""


def python_of(other: Other, environments: Path) -> Path:
    """Return the Python of a library's environment, which is made if it is missing."""
    try:
        return venv.environment(environments / other.package, other.packages)
    except subprocess.CalledProcessError:
        raise NotInstalledError(f"pip install {' '.join(other.packages)} failed") from None


def version_of(other: Other, python: Path) -> str:
    """Return the version of a library."""
    program = f"import importlib.metadata as m; print(m.version({other.package!r}))"
    return subprocess.run(
        [python, "-c", program], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()
