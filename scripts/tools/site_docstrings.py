"""Give mkdocstrings examples as code, and the documentation of options; mkdocs.yml names this."""

from __future__ import annotations

import ast
import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^(?: *>>> .*\n(?: *\S.*\n)*)(?:\n(?= *>>> ))?", re.MULTILINE)
"""An example and its output, up to an empty line."""

OPTIONS = "Options: see [`StreamOptions`][bpetite._streaming.options.StreamOptions].\n"


class Docstrings(griffe.Extension):
    """Change docstrings for Markdown."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Put a fence around each example, which Markdown would show as a quotation."""
        if obj.docstring:
            text = f"{obj.docstring.value}\n".replace("Options:\n", OPTIONS)
            text = EXAMPLE.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", text)
            obj.docstring.value = text

    def on_attribute(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """Take the documentation from `Annotated[type, Option(check, documentation)]`."""
        match attr.annotation:
            case griffe.ExprSubscript(
                slice=griffe.ExprTuple(elements=[_, griffe.ExprCall(arguments=[_, text])])
            ):
                attr.docstring = griffe.Docstring(ast.literal_eval(str(text)))
