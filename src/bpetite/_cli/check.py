"""The verb `check`: a model and texts in, the first difference from another library out."""

from __future__ import annotations

import argparse
import os
from importlib.metadata import PackageNotFoundError, version

from bpetite import Tokenizer
from bpetite._cli import common
from bpetite.analysis import Verifier
from bpetite.analysis._verifier import LIBRARIES
from bpetite.formats._model_names import model_path

HELP = """\
show the first id in which a model differs from another library or model, and why

The texts are tokens of the vocabulary, white space, characters of every script
and all special tokens, then TEXT. Known causes are a class of transformers that
replaces a stage of the file, added tokens with other ids, tokens around a text,
and another version of Unicode. The exit code is 1 for a difference."""
EXAMPLE = """\
bpetite convert model.json tokenizer.json --force
bpetite check tokenizer.json README.md
bpetite check tokenizer.json README.md --against model.json --only-texts"""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help=common.ANY_MODEL)
    parser.add_argument(
        "texts",
        metavar="TEXT",
        nargs="*",
        help="files of UTF-8, each loaded into memory; - is standard input",
    )
    parser.add_argument(
        "--against",
        metavar="OTHER",
        help=f"{', '.join(LIBRARIES)}, or another model (default: the library that owns MODEL's "
        "format)",
    )
    parser.add_argument(
        "--only-texts", action="store_true", help="compare the ids of TEXT alone, not of the rest"
    )


def run(options: argparse.Namespace) -> None:
    """Compare all texts, and write what was compared. Raises ValueError for a difference."""
    if options.only_texts and not options.texts:
        options.parser.error("--only-texts needs a TEXT")
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")  # it warns of what nobody asked for
    tokenizer, path = Tokenizer.load(options.model), model_path(options.model)
    against = options.against
    is_library = against is None or against in LIBRARIES
    verifier = Verifier(
        tokenizer,
        options.model if path is None else path,
        against=against if is_library else Tokenizer.load(against),
    )
    library = verifier.reference_library
    if library is None:
        raise ValueError(
            f"{options.model}: no other library owns this format, or it leaves text out; say what "
            f"to compare with, for example --against tokenizers"
        )
    try:
        if not options.only_texts and (found := verifier.check()):
            raise ValueError(f"{options.model}: {found}")
        for name in options.texts:
            text = common.read_text(name)
            for start, part in common.slices(text):
                if found := verifier.difference(part):
                    line = text.count("\n", 0, start) + 1
                    place = f"in the slice from line {line} on, " if start else ""
                    raise ValueError(f"{common.shown(name)}: {place}{found}")
    except ImportError as error:
        raise ValueError(f"{library} is not installed ({error}): pip install {library}") from None
    other = f"{library} {_version(library)}" if is_library else against
    common.write(f"equal to {other}: {verifier.n_texts:,} texts, {verifier.n_ids:,} ids\n")


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "of an unknown version"
