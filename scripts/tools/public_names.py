"""Write docs/public-names.txt: the public names of bpetite, each with its signature.

Run it with `.venv/bin/python scripts/tools/public_names.py` after a change of a public signature.
griffe reads the source without importing it, so the listing is the same for every engine and every
Python version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import griffe

ROOT = Path(__file__).resolve().parents[2]

LISTING = ROOT / "docs" / "public-names.txt"

MODULES = (
    "bpetite",
    "bpetite.corpora",
    "bpetite.arrow",
    "bpetite.analysis",
    "bpetite.formats",
    "bpetite.tiktoken",
    "bpetite.chat",
    "bpetite.transformers",
)
"""The public modules: the names in `__all__` of each are public."""

TYPES = "types"
"""Takes the place of a module for the private types that signatures name."""

MADE_BY_CALLERS = {
    "bpetite.DecodeStreamBatch",
    "bpetite.StreamVocabulary",
    "bpetite.corpora.Corpus",
    "bpetite.analysis.Verifier",
    "bpetite.tiktoken.Encoding",
    "bpetite.chat.ChatTemplate",
}
"""Classes with a public constructor. Objects of other classes come from functions and methods."""

FOR_OTHER_MODULES = {
    "bpetite.PieceCounts.checked_pattern",
    "bpetite.corpora.Corpus.items",
    "bpetite.corpora.CorpusFile.rows_before",
    "bpetite.corpora.CorpusFile.skips_bad",
    "bpetite.corpora.CorpusReport.count",
    "bpetite.transformers.Tokenizer.decode",
    "bpetite.transformers.Tokenizer.encode",
    "bpetite.corpora.CorpusReport.count_bad",
}
"""Members that other modules of bpetite call. They are not public, and may change."""

OPERATORS = {"__add__", "__contains__", "__eq__", "__getitem__", "__iter__", "__len__", "__mul__"}
"""Special methods that callers use. Python itself calls all others."""


@dataclass(frozen=True)
class Name:
    """A public name, or a type that its signature names."""

    module: str
    """One of MODULES, or TYPES."""
    path: str
    kind: str
    """class, constructor, function, classmethod, staticmethod, method, property, field, value, type
    or option."""
    object: griffe.Object

    @property
    def line(self) -> str:
        """The name with its signature, on one line."""
        found = self.object
        if isinstance(found, griffe.Class):
            bases = ", ".join(map(str, found.bases))
            return f"class {self.path}({bases})" if bases else f"class {self.path}"
        if isinstance(found, griffe.Function):
            returns = "" if self.kind == "constructor" else f" -> {found.returns}"
            return f"{self.kind} {self.path}{parameters(found, self.skips_first)}{returns}"
        assert isinstance(found, griffe.Attribute)
        if self.kind == "type":
            return f"type {self.path} = {found.value}"
        annotation = "" if found.annotation is None else f": {bare(found.annotation)}"
        # Other values are constants, or are set by a constructor.
        has_default = self.kind == "field" and "class-attribute" in found.labels
        default = f" = {found.value}" if has_default and found.value is not None else ""
        return f"{self.kind} {self.path}{annotation}{default}"

    @property
    def skips_first(self) -> bool:
        """Whether the first parameter is `self` or `cls`, which callers do not pass."""
        return self.kind in ("constructor", "classmethod", "method")


def load(folder: Path) -> griffe.Module:
    """Return the package `bpetite` of a folder."""
    package = griffe.load("bpetite", search_paths=[folder], resolve_aliases=True)
    assert isinstance(package, griffe.Module)
    return package


def public_names(package: griffe.Module) -> list[Name]:
    """Return all public names, each class before its members, and the types last."""
    names = [
        Name(module, path, kind, found)
        for module in MODULES
        for top in sorted(exports(package, module), key=str.lower)
        for path, kind, found in _with_members(f"{module}.{top}", package)
    ]
    return [*names, *_types_of(names, package)]


def exports(package: griffe.Module, module: str) -> list[str]:
    """Return the names in `__all__` of a module."""
    found = definition(module, package)
    assert found.exports
    return [str(each) for each in found.exports]


def definition(path: str, package: griffe.Module) -> griffe.Object:
    """Return the object of a path such as bpetite.corpora.Corpus."""
    found: griffe.Object | griffe.Alias = package
    for name in path.split(".")[1:]:
        found = found.members[name]
    return _target(found)


def _target(found: griffe.Object | griffe.Alias) -> griffe.Object:
    return found.final_target if isinstance(found, griffe.Alias) else found


def _with_members(path: str, package: griffe.Module) -> Iterator[tuple[str, str, griffe.Object]]:
    """Yield the path, the kind and the object of a name and of its public members."""
    found = definition(path, package)
    yield path, _kind(found), found
    if not isinstance(found, griffe.Class):
        return
    for name, each in sorted(found.all_members.items()):
        member, full = _target(each), f"{path}.{name}"
        if name == "__init__" and path in MADE_BY_CALLERS:
            yield path, "constructor", member
        elif name in OPERATORS and isinstance(member, griffe.Function):
            yield full, "method", member
        elif not name.startswith("_") and full not in FOR_OTHER_MODULES:
            yield full, _kind(member, is_member=True), member


def _kind(found: griffe.Object, is_member: bool = False) -> str:
    if isinstance(found, griffe.Class):
        return "class"
    if isinstance(found, griffe.Function):
        labels = found.labels & {"classmethod", "staticmethod"}
        return "function" if not is_member else labels.pop() if labels else "method"
    if "property" in found.labels:
        return "property"
    return "field" if is_member else "value"


def parameters(function: griffe.Function, skips_first: bool) -> str:
    """Return the parameters of a function as the source has them."""
    kinds = griffe.ParameterKind
    stars = {kinds.var_positional: "*", kinds.var_keyword: "**"}
    parts: list[str] = []
    last = None
    for each in [*function.parameters][1 if skips_first else 0 :]:
        if last is kinds.positional_only and each.kind is not last:
            parts.append("/")
        if each.kind is kinds.keyword_only and last not in (each.kind, kinds.var_positional):
            parts.append("*")
        last = each.kind
        star = stars.get(last, "") if last else ""
        default = "" if each.default is None or star else f" = {_value(each.default)}"
        parts.append(f"{star}{each.name}: {each.annotation}{default}")
    if last is kinds.positional_only:
        parts.append("/")
    return f"({', '.join(parts)})"


def _value(default: str | griffe.Expr) -> str:
    """Return the source of a default, with the values of bpetite's private constants."""
    text = str(default)
    names = default.iterate(flat=True) if isinstance(default, griffe.Expr) else ()
    for name in names:
        if isinstance(name, griffe.ExprName) and isinstance(name.parent, griffe.Object):
            constant = name.parent.package.get_member(name.canonical_path.partition(".")[2])
            value = getattr(_target(constant), "value", None)
            if value is not None:
                text = text.replace(name.name, str(value))
    return text


def bare(annotation: str | griffe.Expr | None) -> str | griffe.Expr | None:
    """Return the type in `Annotated[type, ...]`; any other annotation as it is."""
    if isinstance(annotation, griffe.ExprSubscript) and str(annotation.left) == "Annotated":
        assert isinstance(annotation.slice, griffe.ExprTuple)
        return annotation.slice.elements[0]
    return annotation


def _types_of(names: Iterable[Name], package: griffe.Module) -> list[Name]:
    """Return the private types in signatures that callers may write.

    These are aliases, protocols and dictionaries of options, which may name others in turn.
    """
    found: dict[str, list[Name]] = {}
    waiting = [*names]
    public = {name.object.canonical_path for name in waiting}
    while waiting:
        for path in _paths_in(*_expressions(waiting.pop())):
            type = definition(path, package)
            path = type.canonical_path
            if path in public or path in found:
                continue
            if isinstance(type, griffe.Attribute):
                found[path] = [Name(TYPES, path, "type", type)]
            elif isinstance(type, griffe.Class) and is_structural(type):
                found[path] = [Name(TYPES, path, "class", type), *_structure(path, type)]
            waiting += found.get(path, [])
    return [name for path in sorted(found) for name in found[path]]


def is_structural(type: griffe.Class) -> bool:
    """Whether callers write such an object themselves, so that its members matter."""
    return not {"Protocol", "TypedDict"}.isdisjoint(map(str, type.bases))


def _structure(path: str, type: griffe.Class) -> Iterator[Name]:
    """Yield the members of a protocol, or the keys of a dictionary of options."""
    is_options = "TypedDict" in map(str, type.bases)
    for name, member in sorted(type.members.items()):
        if name == "__call__" or not name.startswith("_"):
            target = _target(member)
            kind = "option" if is_options else _kind(target, is_member=True)
            yield Name(TYPES, f"{path}.{name}", kind, target)


def _expressions(name: Name) -> Iterator[str | griffe.Expr | None]:
    """Yield the annotations in a signature, or the value of an alias."""
    found = name.object
    if isinstance(found, griffe.Function):
        yield from (each.annotation for each in found.parameters)
        yield found.returns
    elif isinstance(found, griffe.Attribute):
        yield found.value if name.kind == "type" else bare(found.annotation)


def _paths_in(*expressions: str | griffe.Expr | None) -> Iterator[str]:
    """Yield the full path of each name of bpetite in expressions."""
    for expression in expressions:
        if isinstance(expression, griffe.Expr):
            for each in expression.iterate(flat=True):
                if isinstance(each, griffe.ExprName):
                    path = each.canonical_path
                    if path.startswith("bpetite."):
                        yield path


def listing(package: griffe.Module) -> str:
    """Return the text of the listing: for each module, a line for each name.

    A class has its fields in its line, as a function has its parameters.
    """
    names = public_names(package)
    modules = [[name for name in names if name.module == module] for module in (*MODULES, TYPES)]
    return "\n".join("".join(_lines(each)) for each in modules)


def _lines(names: list[Name]) -> Iterator[str]:
    fields: dict[str, list[str]] = {}
    for name in names:
        if name.kind == "field":
            owner = name.path.rpartition(".")[0]
            fields.setdefault(owner, []).append(name.line.replace(f"field {owner}.", "", 1))
    for name in names:
        if name.kind != "field":
            own = fields.get(name.path) if name.kind == "class" else None
            yield f"{name.line} of {', '.join(own)}\n" if own else f"{name.line}\n"


if __name__ == "__main__":
    LISTING.write_text(listing(load(ROOT / "src")), encoding="utf-8", newline="\n")
