"""Files to token files, compared with the same work in memory and with other libraries.

A figure is the time of a whole process without its start: the same command also runs on a file of
one document, and this time is subtracted.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import tempfile
import textwrap
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from io import BytesIO
from itertools import cycle
from pathlib import Path
from string import ascii_lowercase
from typing import NamedTuple

from tools import venv

from benchmarks import data
from benchmarks.cases import MB, NATIVE, Case, Job, Target
from benchmarks.measure import Usage, bpetite, run, say
from bpetite import PieceCounts, Tokenizer
from bpetite.corpora import Corpus

CORPUS_BYTES, LIBRARY_BYTES = 100 * MB, 8 * MB  # of text for bpetite, and for slow libraries
END = "<|endoftext|>"


class Files(NamedTuple):
    """Two files of documents, with model.json and tokenizer.json next to them."""

    many: Path
    one: Path  # the first document
    megabytes: float  # of all others

    def net(self, run_on: Callable[[Path], Usage]) -> Job:
        """Return the seconds for a megabyte, without the start, and the peak memory."""
        whole, start = map(run_on, (self.many, self.one))
        return Job([(whole.cpu - start.cpu) / self.megabytes, whole.peak])

    def tokenize(self, source: Path, format: str = "megatron") -> Usage:
        """Run `bpetite tokenize`; its output remains."""
        model, output = (self.many.with_name(name) for name in ("model.json", "tokens"))
        shutil.rmtree(output, ignore_errors=True)
        options = ("--model", model, "--format", format, "--end", END, "--output", output)
        return bpetite("tokenize", source, *options, "--quiet")


@contextmanager
def files_of(vocabulary: str, text: str, size: int, kind: str) -> Iterator[Files]:
    """Yield new files, and remove them."""
    with tempfile.TemporaryDirectory(dir=data.settings().scratch) as name:
        many, one = Path(name, f"many.{kind}"), Path(name, f"one.{kind}")
        texts = [*documents(text, size)]
        many.write_bytes(content(texts, kind))
        one.write_bytes(content(texts[:1], kind))
        data.tokenizer(vocabulary).save(Path(name, "model.json"))
        Path(name, "tokenizer.json").write_bytes(data.json_of(vocabulary))
        yield Files(many, one, sum(map(data.megabytes, texts[1:])))


def documents(text: str, size: int) -> Iterator[str]:
    """Yield documents of 2,500 characters, which have `size` bytes or a little more together.

    They repeat the text. The last word of each is random, so that every document has a new word.
    """
    rng, done = random.Random(7), 0.0
    for start in cycle(range(0, len(text), 2_490)):
        word = "".join(rng.choices(ascii_lowercase, k=9))
        yield f"{text[start : start + 2_490].strip()} {word}"
        done += data.megabytes(text[start : start + 2_490]) + len(word) / MB
        if done * MB > size:
            break


FIELDS = {
    **{"dump": "CC-MAIN-2013-20", "date": "2013-05-18T05:48:59Z", "language": "en"},
    **{"language_score": 0.972148203718, "token_count": 1234},
    "url": "https://www.example.com/2013/05/words-of-a-title.html",
    "file_path": "s3://commoncrawl/crawl-data/CC-MAIN-2013-20/00000.warc.gz",
}
"""Fields of each document, as FineWeb has them, besides the text and an id."""


def content(texts: Iterable[str], kind: str) -> bytes:
    """Return the content of a file of documents."""
    rng = random.Random(7)
    rows = ({"text": text, "id": f"{rng.getrandbits(128):032x}", **FIELDS} for text in texts)
    lines = b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)
    if kind == "parquet":
        file, table = BytesIO(), import_module("pyarrow.json").read_json(BytesIO(lines))
        write = import_module("pyarrow.parquet").write_table
        write(table, file, compression="zstd", row_group_size=10_000)
        return file.getvalue()
    compress = import_module("zstandard").compress if kind == "jsonl.zst" else bytes
    return bytes(compress(lines))


ALONE = "alone"  # the column of the same work on documents in memory


def corpus_cases() -> Iterator[Case]:
    """Yield commands on one core, for each kind of file and its limits of speed and memory."""
    kinds = {"jsonl": (0.55, 100), "jsonl.zst": (0.4, 100), "parquet": (0.4, 250)}
    for name in [name for name in ("english", "multilingual") if name in data.texts()]:
        for kind, (low, peak) in kinds.items():
            size, both = data.settings().limit or CORPUS_BYTES, {NATIVE: NATIVE, ALONE: NATIVE}
            with files_of(data.main(), data.text(name), size, kind) as files:
                for verb, least in (("tokenize", low), ("count-pieces", 0.4)):
                    targets = [Target(least, than=ALONE), Target(high=peak, state=1)]
                    what, work = f"{name}, .{kind}, {verb}", partial(command, verb, files)
                    yield Case(what, work, both, ["MB/s", "MB"], targets, is_fresh=True)


def command(verb: str, files: Files, column: str, _turn: int) -> Job:
    if column == ALONE:
        work: Callable[..., object] = partial(PieceCounts.from_corpus, threads=1)
        if verb == "tokenize":
            encode = Tokenizer.load(files.many.with_name("model.json")).encode_batch
            work = partial(encode, threads=1, dtype="uint32")
        return Job([partial(work, [*Corpus(files.many)])], files.megabytes)
    options = ("--output", files.many.with_name("counts"), "--force", "--quiet")
    count = partial(bpetite, verb)
    return files.net(files.tokenize if verb == "tokenize" else lambda path: count(path, *options))


LIBRARY = "library"

PRELUDE = """
import sys
from pathlib import Path
source, tokenizer, output = map(Path, sys.argv[1:4])
end, end_id = sys.argv[4], int(sys.argv[5])
"""

FAST = "encode_files (ids stay in memory)"  # which gets as large a file as bpetite

OTHERS: dict[str, tuple[list[str], str, str]] = {
    "DocumentTokenizer": (
        ["datatrove[io,processing]", "regex"],
        "datatrove",
        """
        from datatrove.executor import LocalPipelineExecutor
        from datatrove.pipeline.readers import JsonlReader
        from datatrove.pipeline.tokens import DocumentTokenizer
        reader = JsonlReader(str(source.parent), glob_pattern=source.name)
        options = {"eos_token": end, "shuffle_documents": False}
        writer = DocumentTokenizer(str(output), tokenizer_name_or_path=str(tokenizer), **options)
        LocalPipelineExecutor([reader, writer], logging_dir=str(output / "logs")).run()
        """,
    ),
    "the loop of preprocess_data.py": (  # which no package has, with one worker
        ["megatron-core", "torch", "tokenizers"],
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
            return [*ids, end_id]
        output.mkdir()
        builder = IndexedDatasetBuilder(str(output / "text.bin"), dtype=numpy.uint16)
        with Pool(1, load) as pool, source.open(encoding="utf-8") as lines:
            for ids in pool.imap(ids_of, lines, 32):
                builder.add_document(ids, [len(ids)])
            builder.finalize(str(output / "text.idx"))
        """,
    ),
    FAST: (
        ["gigatoken"],
        "megatron",
        """
        import gigatoken
        files = gigatoken.JsonlFileSource([str(source)])
        gigatoken.Tokenizer(str(tokenizer)).encode_files(files, parallel=False)
        """,
    ),
}
"""Packages, bpetite's format for the same readers, and programs. The first package is the library.

In a program, `source`, `tokenizer` and `output` are paths, and `end` is a special token. Each
library has an environment of its own, since their requirements exclude each other.
"""


def library_cases() -> Iterator[Case]:
    """Yield libraries, which write the same documents to the same kind of files."""
    size, both = data.settings().limit or CORPUS_BYTES, {NATIVE: NATIVE, LIBRARY: NATIVE}
    files = partial(files_of, data.main("GPT-2"), data.text("english"), kind="jsonl")
    with files(size=size) as large, files(size=min(LIBRARY_BYTES, size)) as small:
        for name, (packages, _, _) in OTHERS.items():
            package = packages[0].partition("[")[0]
            try:
                python = venv.environment(venv.ROOT / ".libraries" / package, packages)
            except subprocess.CalledProcessError:
                say(f"{name}: pip install {' '.join(packages)} failed")
                continue
            program = f"import importlib.metadata as m; print(m.version({package!r}), end='')"
            version = subprocess.check_output([python, "-c", program], text=True)
            targets = [Target(15, than=LIBRARY)] if name != FAST else []
            work = partial(by_library, name, python, large, large if name == FAST else small)
            what = f"english, .jsonl, {package} {version}, {name}"
            yield Case(what, work, both, ["MB/s", "MB"], targets)


def by_library(name: str, python: Path, large: Files, files: Files, column: str, turn: int) -> Job:
    (_, format, program), output = OTHERS[name], files.many.with_name("tokens of library")
    end_id = data.tokenizer(data.main("GPT-2")).special_tokens[END]
    code, model = PRELUDE + textwrap.dedent(program), files.many.with_name("tokenizer.json")

    def run_library(source: Path) -> Usage:
        shutil.rmtree(output, ignore_errors=True)
        return run(python, "-c", code, source, model, output, END, f"{end_id}")

    if not turn:
        return Job([])
    own = partial(large.tokenize, format=format)
    return large.net(own) if column == NATIVE else files.net(run_library)
