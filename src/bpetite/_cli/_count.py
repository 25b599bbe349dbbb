"""The verb `count`: text in, numbers of tokens out."""

from __future__ import annotations

import argparse

from bpetite._cli._common import (
    STANDARD_INPUT,
    Verbs,
    add_model,
    add_special,
    add_text_inputs,
    add_verb,
    allowed_special,
    load,
    texts,
    write,
)


def add_to(verbs: Verbs) -> None:
    """Add this verb to the parser."""
    parser = add_verb(
        verbs,
        "count",
        "count the tokens of each input, as wc counts words",
        "bpetite train README.md --vocab-size 512 --output model.json --force\n"
        "bpetite count --model model.json README.md",
    )
    add_model(parser)
    add_text_inputs(parser)
    add_special(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    tokenizer = load(options)
    counts = [
        (tokenizer.count(text, allowed_special=allowed_special(options)), name)
        for name, text in texts(options)
    ]
    if len(counts) > 1:
        counts.append((sum(count for count, _ in counts), "total"))
    width = max(len(str(count)) for count, _ in counts)
    for count, name in counts:
        label = "" if name == STANDARD_INPUT and not options.files else name
        write(f"{count:>{width}} {label}".rstrip() + "\n")
