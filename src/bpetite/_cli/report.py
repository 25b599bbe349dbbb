"""The verb `report`: models and texts in, tables or a page of figures out."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from typing import TYPE_CHECKING

from bpetite import Tokenizer
from bpetite._cli import common
from bpetite._cli.progress import ByteBar, Watched, stored_bytes
from bpetite.corpora import Corpus
from bpetite.corpora._storage import public
from bpetite.formats._files import new_file

if TYPE_CHECKING:
    from bpetite.analysis import Report

HELP = """\
judge vocabularies on texts: compression by size, unused ids, parity, next merges

A text may be larger than memory. Special tokens in a text are ordinary text.
docs/judging.md defines each figure. --html needs Jinja: pip install jinja2
To know whether two models give equal ids, use bpetite check --against."""
EXAMPLE = """\
bpetite train README.md --vocab-size 300 --output small.json --force
bpetite report model.json small.json README.md --differences 3
bpetite report model.json README.md --html report.html --force"""

_NEXT_MERGES = 1000


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help=common.ANY_MODEL)
    parser.add_argument(
        "others",
        metavar="TEXT",
        nargs="*",
        help="more models, then texts (the first file that is not a model is the first text): "
        + common.FILES_HELP,
    )
    parser.add_argument(
        "--parallel",
        metavar="TEXT",
        nargs="+",
        default=[],
        help="one text in several languages, a file for each: adds parity, relative to the first "
        "file, and the Gini coefficient",
    )
    parser.add_argument(
        "--next",
        metavar="N",
        type=common.number(0, sys.maxsize),
        default=_NEXT_MERGES,
        help="learn N more merges on the first MiB of each text, and show what they would save; "
        f"0 learns none (default: {_NEXT_MERGES})",
    )
    parser.add_argument(
        "--differences",
        metavar="N",
        type=common.number(0, sys.maxsize),
        help="count the cuts between tokens that each model shares with the first, and show the "
        "first N stretches between shared cuts that both divide differently; loads each document "
        "into memory",
    )
    parser.add_argument(
        "--json", action="store_true", help="write all figures as a JSON object instead of tables"
    )
    parser.add_argument(
        "--html", metavar="FILE", help="write a page that needs no other file; it prints on A4"
    )
    parser.add_argument("--force", action="store_true", help="replace the page if it exists")
    parser.add_argument("--quiet", action="store_true", help="show neither progress nor notes")
    common.add_corpus(parser, has_log=False)


def run(options: argparse.Namespace) -> None:
    # No other verb needs this package.
    from bpetite.analysis import page, report
    from bpetite.analysis._page import MAX_VOCABULARIES

    models, texts = [options.model], [*options.others]
    while texts and common.is_model(texts[0]):
        models.append(texts.pop(0))
    if options.html is not None:
        common.check_output(options.html, options.force)
        if find_spec("jinja2") is None:
            raise ValueError("--html needs Jinja, which is not installed: pip install jinja2")
        if len(models) > MAX_VOCABULARIES:
            raise ValueError(
                f"--html shows at most {MAX_VOCABULARIES} vocabularies side by side, got "
                f"{len(models)}; leave some out, or use --json"
            )
    if not texts and not options.parallel:
        texts.append(common.STANDARD_INPUT)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        corpora = [_corpus(name, options, folder) for name in texts]
        languages = [_corpus(name, options, folder) for name in options.parallel]
        size = stored_bytes([*corpora, *languages])
        bar = ByteBar(options.quiet, None if size is None else size * len(models))
        for corpus in (*corpora, *languages):
            stack.enter_context(common.reading(corpus, options))
        tokenizers = dict(zip(_labels(models), map(Tokenizer.load, models), strict=True))
        with bar:
            found = report(
                tokenizers,
                _watched(texts, corpora, bar),
                parallel=_watched(options.parallel, languages, bar),
                next_merges=options.next,
                differences=options.differences,
            )
    if options.html is not None:
        with new_file(options.html, options.force) as file:
            file.write(page(found, _command(options)).encode("utf-8"))
    if options.json:
        common.write(json.dumps(found.to_dict(), ensure_ascii=False) + "\n")
    else:
        tables = (_texts(found), _vocabularies(found), _curves(found), _languages(found))
        cuts = (_cuts(found), _differences(found, tokenizers))
        common.write("\n".join(table for table in tables + cuts if table))


def _corpus(name: str, options: argparse.Namespace, folder: str) -> Corpus:
    """Return a corpus that can be reread; a pipe is first copied to a temporary file."""
    common.check_inputs([name], options.quiet)
    if name != common.STANDARD_INPUT and not stat.S_ISFIFO(_mode(name)):
        return common.corpus(options, [name])
    descriptor, copy = tempfile.mkstemp(dir=folder)
    source = common.standard_input() if name == common.STANDARD_INPUT else open(name, "rb")  # noqa: SIM115
    with open(descriptor, "wb") as file, source:
        shutil.copyfileobj(source, file)
    return common.corpus(options, [copy])


def _mode(name: str) -> int:
    try:
        return os.stat(name).st_mode
    except OSError:  # a glob or a URL; the corpus words the error of a missing file
        return 0


def _labels(paths: list[str]) -> list[str]:
    """Return short names of files: without folder and suffix, if these names differ.

    >>> _labels(["a/en.txt", "a/de.txt"]), _labels(["a.json", "a.tiktoken", "-"])
    (['en', 'de'], ['a.json', 'a.tiktoken', 'standard input'])

    The query of a URL may be a secret, so files that differ only there have numbers:

    >>> _labels(["http://me:secret@host/a.txt?sig=b/c", "http://host/a.txt?sig=d"])
    ['http://host/a.txt', 'http://host/a.txt (2)']
    """
    names = common.file_names([public(common.shown(path)) for path in paths])
    split = [os.path.split(name) for name in names]
    stems = [os.path.join(folder, file.partition(".")[0] or file) for folder, file in split]
    if len({*stems}) == len(stems):
        return stems
    numbers = [names[: place + 1].count(name) for place, name in enumerate(names)]
    return [
        name if number == 1 else f"{name} ({number})"
        for name, number in zip(names, numbers, strict=True)
    ]


def _watched(names: list[str], corpora: list[Corpus], bar: ByteBar) -> dict[str, Watched]:
    return {
        name: Watched(corpus, bar) for name, corpus in zip(_labels(names), corpora, strict=True)
    }


def _command(options: argparse.Namespace) -> str:
    """Return the command that writes the same page."""
    words = ["bpetite", "report", *map(public, (options.model, *options.others))]
    if options.parallel:
        words += ["--parallel", *map(public, options.parallel)]
    for option, value, default in (
        ("--next", options.next, _NEXT_MERGES),
        ("--input-format", options.input_format, None),
        ("--text-field", options.text_field, "text"),
        ("--html", options.html, None),
    ):
        if value != default:
            words += [option, str(value)]
    return common.command_line(words)


def _texts(found: Report) -> str:
    figures = ("bytes/token", "characters/token", "words/token", "never", "rare", "next merges")
    lines = [("text", "vocabulary", "tokens", *figures)]
    for place, text in enumerate(found.texts):
        for vocabulary in found.vocabularies:
            use = vocabulary.uses[place]
            lines.append(
                (
                    text.name,
                    vocabulary.name,
                    f"{use.tokens:,}",
                    f"{use.bytes_per_token:.2f}",
                    f"{use.characters_per_token:.2f}",
                    f"{use.words_per_token:.2f}",
                    f"{use.never / vocabulary.size:.1%}",
                    f"{use.rare_share:.1%}",
                    "-" if use.next is None else f"{-use.next.saved:+.1%}",
                )
            )
    return common.table(lines, 2) if found.texts else ""


def _vocabularies(found: Report) -> str:
    rows = [("vocabulary", "ids", "never", "unreachable", "partial", "shared", "longest")]
    shared = ["-", *(f"{comparison.common:,}" for comparison in found.comparisons)]
    for vocabulary, common_tokens in zip(found.vocabularies, shared, strict=True):
        rows.append(
            (
                vocabulary.name,
                f"{vocabulary.size:,}",
                f"{len(vocabulary.never):,}" if found.texts else "-",
                f"{len(vocabulary.unreachable):,}",
                f"{len(vocabulary.partial):,}",
                common_tokens,
                f"{len(vocabulary.longest[0].token)} bytes",
            )
        )
    return common.table(rows)


def _curves(found: Report) -> str:
    """Return the table of bytes per token if each vocabulary were cut at a size."""
    curves = {
        (text.name, vocabulary.name): {
            size: text.bytes / tokens if tokens else 0.0
            for size, tokens in vocabulary.uses[place].curve
        }
        for place, text in enumerate(found.texts)
        for vocabulary in found.vocabularies
    }
    sizes = sorted({size for curve in curves.values() for size in curve if not size & (size - 1)})
    rows = [("bytes/token", "at ids", *(f"{size:,}" for size in sizes))]
    for names, curve in curves.items():
        rows.append((*names, *(f"{curve[size]:.2f}" if size in curve else "-" for size in sizes)))
    return common.table(rows, 2) if curves else ""


def _languages(found: Report) -> str:
    """Return the table of parallel texts: tokens relative to the first, and the coefficient."""
    if not found.parallel:
        return ""
    rows = [("parity", *(vocabulary.name for vocabulary in found.vocabularies))]
    for place, name in enumerate(found.parallel):
        figures = (vocabulary.parity[place] for vocabulary in found.vocabularies)
        rows.append((name, *(f"{figure:.2f}" for figure in figures)))
    rows.append(("Gini", *(f"{vocabulary.gini:.3f}" for vocabulary in found.vocabularies)))
    return common.table(rows)


def _cuts(found: Report) -> str:
    """Return the table of cuts that each vocabulary shares with the first one."""
    rows: list[Sequence[str]] = [
        ("shared cuts", "vocabulary", "cuts", "shared", "of its own", "of the first's", "equal")
    ]
    for other in found.comparisons:
        for text, cuts in zip(found.texts, other.cuts, strict=False):
            cells = ["-"] * 5
            if cuts is not None:
                shares = (cuts.share, cuts.first_share, cuts.equal)
                cells = [f"{cuts.other:,}", f"{cuts.common:,}", *map(_percent, shares)]
            rows.append((text.name, other.name, *cells))
    return common.table(rows, 2) if len(rows) > 1 else ""


def _percent(share: float) -> str:
    return f"{int(share * 1000) / 10:.1f}%"  # 100.0% is exact


def _differences(found: Report, tokenizers: Mapping[str, Tokenizer]) -> str:
    """Return the stretches that the first vocabulary and another one divide differently."""
    lines = []
    first, *_ = tokenizers
    for other in found.comparisons:
        width = max(len(first), len(other.name))
        for each in other.differences:
            document = f", document {each.document}" if each.document else ""
            lines.append(f"{each.text}{document}, byte {each.byte}")
            for name, ids in ((first, each.first_ids), (other.name, each.ids)):
                tokens = map(tokenizers[name].token_bytes, ids)
                shown = (repr(token.decode("utf-8", "backslashreplace")) for token in tokens)
                lines.append(f"  {name:<{width}}  {' '.join(shown)}")
    return "".join(f"{line}\n" for line in lines)
