"""Give mkdocstrings the docstrings of the public names as Markdown.

Examples become code, the options of streams a list, and names in backticks links.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Any

import griffe

from tools.public_names import MODULES, Name, public_names

EXAMPLE = re.compile(r"^(?: *>>> .*\n(?: *\S.*\n)*)(?:\n(?= *>>> ))?", re.MULTILINE)
"""An example and its output, up to an empty line."""

CODE = re.compile(r"(?<![\[`])`([\w.]+)(?:\(\))?`(?!`)")
"""A name in backticks that is no text of a link."""

OPTIONS = "bpetite._streaming.options.StreamOptions."


class SiteDocstrings(griffe.Extension):
    """The extension that mkdocstrings loads."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Change the docstrings of all public names."""
        names = public_names(pkg)
        targets = link_targets(names)
        options = dict(option_texts(names))
        done: set[int] = set()
        for name in names:
            docstring = name.object.docstring
            if docstring is not None and id(docstring) not in done:
                done.add(id(docstring))
                text = docstring.value.replace("Options:\n", f"Options:\n\n{listed(options)}\n")
                docstring.value = linked(fenced(text), name, targets)
            if name.kind == "option":
                option = name.path.removeprefix(OPTIONS)
                name.object.docstring = griffe.Docstring(options[option])


def fenced(text: str) -> str:
    """Return a docstring with its examples in fences."""
    return EXAMPLE.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", f"{text}\n")


def link_targets(names: list[Name]) -> Mapping[str, str]:
    """Return the path that each name in documents means: `Tokenizer.train`, `tokenize`.

    A bare name means a member of `Tokenizer`, or else a name that only one module has.
    """
    found: dict[str, str] = {}
    ambiguous: set[str] = set()
    paths = [name.path for name in names if name.module in MODULES]
    for path in dict.fromkeys(paths):
        module = max((each for each in MODULES if path.startswith(f"{each}.")), key=len)
        short = path.removeprefix(f"{module}.")
        if short in found:
            ambiguous.add(short)
        found[short] = found[path] = path
        found[path.removeprefix("bpetite.")] = path
    for short in ambiguous:
        del found[short]
    members = [path for path in paths if path.startswith("bpetite.Tokenizer.")]
    return {path.rpartition(".")[2]: path for path in members} | found


def linked(text: str, name: Name, targets: Mapping[str, str]) -> str:
    """Return a docstring whose names in backticks are links, except for its own parameters."""
    owner = name.path if name.kind == "class" else name.path.rpartition(".")[0]
    own: set[str] = {name.path.rpartition(".")[2]}
    if isinstance(name.object, griffe.Function):
        own |= {each.name for each in name.object.parameters}

    def link(found: re.Match[str]) -> str:
        path = targets.get(found[1])
        if "." not in found[1]:
            path = targets.get(f"{owner}.{found[1]}", path)
        is_plain = path is None or path == name.path or found[1] in own
        return found[0] if is_plain else f"[{found[0]}][{path}]"

    parts = re.split(r"(^```.*?^```)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else CODE.sub(link, part) for part in parts)


def option_texts(names: list[Name]) -> Iterator[tuple[str, str]]:
    """Yield each option of streams with its documentation."""
    for name in names:
        if name.kind == "option":
            assert isinstance(name.object, griffe.Attribute)
            annotation = name.object.annotation
            assert isinstance(annotation, griffe.ExprSubscript)
            assert isinstance(annotation.slice, griffe.ExprTuple)
            call = annotation.slice.elements[1]
            assert isinstance(call, griffe.ExprCall)
            yield name.path.removeprefix(OPTIONS), ast.literal_eval(str(call.arguments[1]))


def listed(options: Mapping[str, str]) -> str:
    """Return options as a list in Markdown."""
    return "".join(f"- `{name}`: {text}\n" for name, text in options.items())
