"""Jinja with the settings of transformers, in which every string is a `Text`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import wraps
from json.encoder import encode_basestring, encode_basestring_ascii
from types import BuiltinMethodType
from typing import Any

from jinja2 import nodes, pass_environment
from jinja2.compiler import CodeGenerator, Frame
from jinja2.exceptions import FilterArgumentError, SecurityError, TemplateError
from jinja2.ext import Extension
from jinja2.filters import FILTERS, make_attrgetter
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedFormatter
from jinja2.utils import Namespace

from bpetite.chat._text import (
    GENERATED,
    TEMPLATE,
    UNTRACKED,
    Dict,
    Safe,
    Text,
    as_text,
    blend,
    escaped,
    joined,
    joined_of,
    percent,
    traced_json,
    whole,
    whole_of,
)

_DICT_NAMES = frozenset(dir(Dict))


class Generator(CodeGenerator):
    """Writes each string of the template as a `Text` of the environment, and names lines."""

    environment: ChatEnvironment

    def _output_const_repr(self, group: Iterable[Any]) -> str:
        return self.environment.constant("".join(map(str, group)))

    def visit_Const(self, node: nodes.Const, frame: Frame) -> None:  # noqa: N802
        if type(node.value) is str:
            self.write(self.environment.constant(node.value))
        else:
            super().visit_Const(node, frame)

    def visit_TemplateData(self, node: nodes.TemplateData, _: Frame) -> None:  # noqa: N802
        self.write(self.environment.constant(node.data))

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802
        self.write("environment.glue((")
        for item in node.nodes:
            self.visit(item, frame)
            self.write(", ")
        self.write("))")

    def _output_child_pre(self, node: nodes.Expr, _frame: Frame, _finalize: Any) -> None:
        self.write(f"environment.emit({node.lineno}, ")

    def visit_ScopedEvalContextModifier(self, node: Any, _: Frame) -> None:  # noqa: N802
        self.fail("autoescape is not supported in chat templates", node.lineno)


class _Generation(Extension):
    """The tag `generation`, which marks what a model is to learn."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        call = self.call_method("_mark")
        return nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _mark(self, caller: Callable[[], Text]) -> Text:
        return caller().changed(lambda origin: origin | GENERATED)


class _Namespace(Namespace):
    """A namespace without names that begin with an underscore, as in transformers."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        self, *rest = args
        attributes = dict(*rest, **kwargs)
        for name in attributes:
            check_name(name)
        Namespace.__init__(self, attributes)

    def __setitem__(self, name: str, value: Any) -> None:
        check_name(name)
        super().__setitem__(name, value)

    def __repr__(self) -> str:
        raise SecurityError("a namespace cannot be printed")


def check_name(name: Any) -> None:
    """Refuse a name that begins with an underscore, in the words of transformers."""
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(
            f"Chat templates cannot store underscore-prefixed attributes on a namespace, but got "
            f"{name!r}. Please rename the attribute."
        )


class ChatEnvironment(ImmutableSandboxedEnvironment):
    """The environment of a `ChatTemplate`; `constants` has the strings of its templates."""

    code_generator_class = Generator
    concat = staticmethod(joined)
    intercepted_binops = frozenset(("+", "*", "**", "%"))
    """Operators that Jinja must not compute while it compiles: their results are untracked."""

    def __init__(self) -> None:
        loops = "jinja2.ext.loopcontrols"
        # The optimizer would write lists of plain strings, which are untracked.
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, optimized=False, extensions=[_Generation, loops]
        )
        self.constants: list[Text] = []
        self._numbers: dict[str, int] = {}
        self.filters.update(_FILTERS)
        self.globals.update(raise_exception=_raise, strftime_now=_now, namespace=_Namespace)

    def constant(self, text: str) -> str:
        """Return the expression for a string of the template."""
        text = str.__str__(text)
        if text not in self._numbers:
            self._numbers[text] = len(self.constants)
            self.constants.append(whole(text, TEMPLATE))
        return f"environment.constants[{self._numbers[text]}]"

    # Called by compiled templates

    def emit(self, line: int, value: Any) -> Text:
        """Return a value as the text that a template prints in a line."""
        text = value if type(value) is Text else as_text(value)
        if text.has(UNTRACKED):
            return text.changed(lambda each: each - 2 * line if each == UNTRACKED else each)
        return text

    def glue(self, values: tuple[Any, ...]) -> Text:
        """Return the values joined by the operator `~`."""
        return joined([as_text(value) for value in values])

    def call_binop(self, _context: Context, symbol: str, left: Any, right: Any) -> Any:
        """Return the result of an operator: strings keep their origins."""
        return self.binop_table[symbol](Text(left) if type(left) is str else left, right)

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Return an attribute, or else an item."""
        if type(obj) is Dict and attribute not in _DICT_NAMES:
            try:
                return obj[attribute]
            except KeyError:
                return self.undefined(obj=obj, name=attribute)
        if type(obj) is _Namespace and attribute[0] != "_":
            try:
                return getattr(obj, attribute)
            except AttributeError:
                return self.undefined(obj=obj, name=attribute)
        return super().getattr(Text(obj) if type(obj) is str else obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Return an item, or else an attribute."""
        if type(obj) is Dict and isinstance(argument, str) and argument in obj:
            return obj[argument]
        return super().getitem(Text(obj) if type(obj) is str else obj, argument)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Return whether a template may use an attribute: none that tells or changes origins."""
        kinds = (kind for kind in (str, dict, list, tuple) if isinstance(obj, kind))
        return all(hasattr(kind, attr) for kind in kinds) and super().is_safe_attribute(
            obj, attr, value
        )

    def wrap_str_format(self, value: Any) -> Callable[..., Text] | None:
        """Return a replacement for the method `format` of a string."""
        is_method = isinstance(value, BuiltinMethodType) and isinstance(value.__self__, str)
        if not is_method or value.__name__ not in ("format", "format_map"):
            return None
        text, formatter = value.__self__, _Formatter(self)
        if value.__name__ == "format_map":
            return lambda mapping: formatter.vformat(text, (), mapping)
        return lambda *args, **kwargs: formatter.vformat(text, args, kwargs)


class _Formatter(SandboxedFormatter):
    """Python's own formatter: fields without a format keep their origins."""

    def vformat(self, text: Any, args: Any, kwargs: Any) -> Text:
        cls = type(text)
        self._is_safe = isinstance(text, Safe)
        self._parts: list[str] = []
        self._origin = blend(text)
        plain = super().vformat(str.__str__(text), args, kwargs)
        result: Text = joined_of(cls, self._parts)
        return result if result == plain else whole_of(cls, plain, UNTRACKED)

    def parse(self, text: Any) -> Iterator[Any]:
        for literal, name, spec, conversion in super().parse(text):
            self._parts.append(whole(literal, self._origin))
            yield literal, name, spec, conversion

    def format_field(self, value: Any, spec: str) -> Any:
        result = super().format_field(value, spec) if spec else value
        result = escaped(result) if self._is_safe else as_text(result)
        self._parts.append(result)
        return result


def _raise(message: Any) -> None:
    raise TemplateError(message)


def _now(format: str) -> str:
    return datetime.now().strftime(format)


# Filters. Those of Jinja work on a `Text` as they are unless they make a `str` of their own.


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: Any = None,
    separators: Any = None,
    sort_keys: bool = False,
) -> Text:
    plain = json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
    between = "".join((indent if isinstance(indent, str) else "", *(separators or ())))
    if '"' in between or "'" in between:
        return Text(plain)
    encode = encode_basestring_ascii if ensure_ascii else encode_basestring
    return traced_json(plain, value, encode, sort_keys)


@pass_environment
def _join(env: Any, value: Iterable[Any], d: Any = "", attribute: Any = None) -> Text:
    if attribute is not None:
        value = map(make_attrgetter(env, attribute), value)
    return as_text(d).join([as_text(item) for item in value])


def _indent(s: Any, width: Any = 4, first: bool = False, blank: bool = False) -> Text:
    if not isinstance(s, str):
        s + "\n"  # raises the usual error
    text: Text = s if isinstance(s, Safe) else as_text(s)
    origin = blend(text)
    before = as_text(width) if isinstance(width, str) else whole(" " * width, origin)
    lines = (text + "\n").splitlines()
    rest = [before + line if line or blank else line for line in lines[1:]]
    result = whole_of(type(text), "\n", origin).join([*lines[:1], *rest])
    return before + result if first else result


def _format(value: Any, *args: Any, **kwargs: Any) -> Text:
    if args and kwargs:
        raise FilterArgumentError("can't handle positional and keyword arguments at the same time")
    return percent(value if isinstance(value, Text) else as_text(value), kwargs or args)


def _replace(s: Any, old: Any, new: Any, count: int | None = None) -> Text:
    return as_text(s).replace(as_text(old), as_text(new), -1 if count is None else count)


def _center(value: Any, width: int = 80) -> Text:
    return (value if isinstance(value, Text) else as_text(value)).center(width)


def _title(s: Any) -> Text:
    text: Text = s if isinstance(s, Text) else as_text(s)
    return as_text(text).like(FILTERS["title"](str.__str__(text)))


def _string(value: Any) -> Text:
    return value if isinstance(value, Text) else as_text(value)


def _safe(value: Any) -> Text:
    return joined_of(Safe, [as_text(value)])


def _force_escape(value: Any) -> Text:
    return escaped(as_text(value))


def _untracked(filter: Callable[..., Any]) -> Callable[..., str]:
    """Return a filter that changes text so much that its result is untracked."""

    @wraps(filter)
    def run(*args: Any, **kwargs: Any) -> str:
        return str.__str__(filter(*args, **kwargs))

    return run


_FILTERS: dict[str, Callable[..., Any]] = {
    **{"tojson": _tojson, "join": _join, "indent": _indent, "format": _format, "title": _title},
    **{"replace": _replace, "center": _center, "string": _string, "safe": _safe},
    **{"escape": escaped, "e": escaped, "forceescape": _force_escape},
    **{name: _untracked(FILTERS[name]) for name in ("pprint", "striptags", "urlencode", "urlize")},
    **{name: _untracked(FILTERS[name]) for name in ("wordwrap", "xmlattr")},
}
