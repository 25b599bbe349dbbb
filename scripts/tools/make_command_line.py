"""Write the site's page on the command line from the help of every verb, for `scripts/docs`."""

import io
import os
import re
import textwrap
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from unittest.mock import patch

from bpetite._cli import main

PAGE = Path(__file__).resolve().parents[2] / "build" / "pages" / "docs" / "command-line.md"

WIDTH = 100

BEGINNING = """\
# Command line

```sh
bpetite train README.md --vocab-size 512 --output model.json
bpetite encode --model model.json --text "Hello world"
```

- Results go to standard output, messages and progress to standard error.
- Text is UTF-8 on every system. `bpetite` neither adds nor removes a byte.
- The exit code is 0 for success, 1 for a failure with a line on standard error, 2 for wrong
  usage, and 130 for Ctrl-C.
- A value that begins with a hyphen needs an equals sign: `--text=--help`.
- If a verb requires `--model`, the environment variable `BPETITE_MODEL` may name the vocabulary
  file instead. The option overrides the variable, and an empty value counts as unset.

This page has the text of `bpetite VERB --help` for every verb.
"""

ENTRY = re.compile(r"^  (\S.*?)(?:\n {8,}|  +)(\S.*)$", re.MULTILINE)
"""An argument or option and its help, on one line or on two."""


def page() -> str:
    """Return the text of the page, which is the same for every Python."""
    listing = help_of()
    verbs = re.findall(r"^    ([\w-]+)\b", listing, re.MULTILINE)
    return "\n".join([BEGINNING, *(section(verb) for verb in verbs)])


def section(verb: str) -> str:
    """Return the part of the page on one verb: example, description, arguments."""
    usage, _, rest = help_of(verb).partition("\n\n")
    rest, _, example = rest.partition("\n\nexample:\n")
    description, *groups = re.split(r"\n\n(?:positional arguments|options):\n", rest)
    code = f"```sh\n{textwrap.dedent(example).strip()}\n```"
    entries = [entry for group in groups for entry in arguments(group, usage)]
    return "\n\n".join([f"## {verb}", code, description.strip(), "\n".join(entries)]) + "\n"


def arguments(group: str, usage: str) -> Iterator[str]:
    """Yield a list item for each argument or option of a group, except --help."""
    required = usage
    while "[" in required:
        required = re.sub(r"\[[^\[\]]*\]", "", required)
    required = re.sub(r"(--[\w-]+) \S+", r"\1", required)  # without the values
    for names, help in ENTRY.findall(group):
        # Python 3.13 no longer repeats the value after each name: "--model, -m FILE".
        names = re.sub(r"^(--[\w-]+) (\S+), (-\w) \2$", r"\1, \3 \2", names)
        if names == "-h, --help":
            continue
        name = re.split(r"[, ]", names)[0]
        note = " (required)" if re.search(rf" {re.escape(name)}(?= |$)", required) else ""
        item = f"- `{names}`{note}: {help.replace('; - is', '; `-` is')}"
        yield textwrap.fill(
            item, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        )


def help_of(*verb: str) -> str:
    """Return the help of a verb, or of the command, with each paragraph on one line."""
    plain = {"COLUMNS": "1000", "PYTHON_COLORS": "0", "BPETITE_MODEL": ""}
    with redirect_stdout(io.StringIO()) as out, patch.dict(os.environ, plain):
        main([*verb, "--help"])
    return out.getvalue()


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8", newline="\n")
