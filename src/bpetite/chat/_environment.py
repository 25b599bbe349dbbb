"""Jinja with the settings of transformers, in which every string is a `Text`."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import wraps
from json.encoder import encode_basestring, encode_basestring_ascii
from types import BuiltinMethodType
from typing import Any

from jinja2 import nodes, pass_environment, pass_eval_context
from jinja2.compiler import CodeGenerator, Frame
from jinja2.exceptions import FilterArgumentError, SecurityError, TemplateError
from jinja2.ext import Extension
from jinja2.filters import FILTERS, make_attrgetter
from jinja2.parser import Parser
from jinja2.runtime import Context, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedFormatter
from jinja2.utils import Namespace

from bpetite.chat._limits import WORK, LimitError, check_power, check_product
from bpetite.chat._text import (
    GENERATED,
    TEMPLATE,
    UNTRACKED,
    Dict,
    Safe,
    Text,
    as_text,
    blend,
    check_widths,
    escaped,
    joined,
    joined_of,
    packed,
    percent,
    traced_json,
    weight,
    whole,
    whole_of,
)

_ITEM_COST = 8  # the bytes of an item in a list, counted as characters

_MAX_ITEMS = 100_000
"""The most slices, and the most items that fill a batch: the limit of Jinja's `range`."""

_MAX_RARE_CHARACTERS = 10_000
"""The most characters for filters whose time or result may be quadratic."""

_MAX_PRECISION = 300
_MAX_TIME_FORMAT = 1_000

_NO_METHODS = ("encode", "expandtabs", "maketrans", "translate")

_METHODS: dict[type, frozenset[str]] = {
    str: frozenset(name for name in dir(str) if name[0] != "_") - {*_NO_METHODS},
    bytes: frozenset(),
    dict: frozenset(("copy", "get", "items", "keys", "values")),
    int: frozenset(("bit_length", "is_integer", "real", "imag")),
    float: frozenset(("is_integer", "real", "imag")),
}
"""The methods that a template may call. Other methods of these types may allocate freely."""

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

    def visit_Add(self, node: nodes.BinExpr, frame: Frame) -> None:  # noqa: N802
        self.write("environment.add(")
        self.visit(node.left, frame)
        self.write(", ")
        self.visit(node.right, frame)
        self.write(")")

    def _output_child_pre(self, node: nodes.Expr, _frame: Frame, _finalize: Any) -> None:
        self.write(f"environment.emit({node.lineno}, ")

    def _packed(self, visit: Callable[[Any, Frame], None], node: Any, frame: Frame) -> None:
        self.write("environment.pack(")
        visit(node, frame)
        self.write(")")

    def visit_List(self, node: nodes.List, frame: Frame) -> None:  # noqa: N802
        self._packed(super().visit_List, node, frame)

    def visit_Dict(self, node: nodes.Dict, frame: Frame) -> None:  # noqa: N802
        self._packed(super().visit_Dict, node, frame)

    def visit_Tuple(self, node: nodes.Tuple, frame: Frame) -> None:  # noqa: N802
        if node.ctx == "load":
            self._packed(super().visit_Tuple, node, frame)
        else:
            super().visit_Tuple(node, frame)

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:  # noqa: N802
        if isinstance(node.arg, nodes.Slice):
            self.write("environment.charge(")
            super().visit_Getitem(node, frame)
            self.write(")")
        else:
            super().visit_Getitem(node, frame)

    def visit_For(self, node: nodes.For, frame: Frame) -> None:  # noqa: N802
        turn = nodes.ExprStmt(nodes.EnvironmentAttribute("turn", lineno=node.lineno))
        node.body.insert(0, turn.set_lineno(node.lineno))
        super().visit_For(node, frame)

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


class _DictMaker:
    """The global `dict`, as in transformers: a class would have attributes that lead elsewhere."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return packed(dict(*args, **kwargs))

    def fromkeys(self, *args: Any, **kwargs: Any) -> Any:
        return packed(dict.fromkeys(*args, **kwargs))


class ChatEnvironment(ImmutableSandboxedEnvironment):
    """The environment of a `ChatTemplate`; `constants` has the strings of its templates."""

    code_generator_class = Generator
    concat = staticmethod(joined)
    intercepted_binops = frozenset(("+", "*", "**", "%"))
    """Operators that Jinja must not compute while it compiles. `Generator` writes `+` itself."""

    def __init__(self) -> None:
        loops = "jinja2.ext.loopcontrols"
        # The optimizer would write lists of plain strings, which are untracked.
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, optimized=False, extensions=[_Generation, loops]
        )
        self.constants: list[Text] = []
        self._numbers: dict[str, int] = {}
        self.filters.update(_FILTERS)
        self.globals.update(
            raise_exception=_raise, strftime_now=_now, dict=_DictMaker(), namespace=_Namespace
        )
        del self.globals["lipsum"]

    def constant(self, text: str) -> str:
        """Return the expression for a string of the template."""
        text = str.__str__(text)
        if text not in self._numbers:
            self._numbers[text] = len(self.constants)
            self.constants.append(whole(text, TEMPLATE))
        return f"environment.constants[{self._numbers[text]}]"

    # Called by compiled templates

    @property
    def turn(self) -> None:
        """Count a turn of a loop. As a property, it is called by the shortest statement."""
        WORK.get().turn()

    def emit(self, line: int, value: Any) -> Text:
        """Return a value as the text that a template prints in a line."""
        text = value if type(value) is Text else as_text(value)
        if text.has(UNTRACKED):
            return text.changed(lambda each: each - 2 * line if each == UNTRACKED else each)
        return text

    def add(self, left: Any, right: Any) -> Any:
        """Return `left + right`."""
        if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
            WORK.get().check(len(left) + len(right))
            return packed(operator.add(left, right))
        return (Text(left) if type(left) is str else left) + right

    def glue(self, values: tuple[Any, ...]) -> Text:
        """Return the values joined by the operator `~`."""
        return joined([as_text(value) for value in values])

    def pack(self, value: Any) -> Any:
        """Return a list, tuple or dictionary that the template writes."""
        return packed(value)

    def charge(self, value: Any) -> Any:
        """Return a new list after counting its items."""
        if isinstance(value, (list, tuple)):
            WORK.get().make(_ITEM_COST * len(value))
        return value

    def call_binop(self, _context: Context, symbol: str, left: Any, right: Any) -> Any:
        """Return the result of an operator whose result may be long."""
        if symbol == "*":
            check_product(left, right)
        elif symbol == "**":
            check_power(left, right)
        elif symbol == "%" and isinstance(left, bytes):
            raise SecurityError("a template cannot format bytes")
        if type(left) is str:
            left = Text(left)
        result = self.binop_table[symbol](left, right)
        return packed(result) if isinstance(result, (list, tuple)) else result

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        WORK.get().turn()
        if isinstance(__obj, Macro):
            weight((*args, *kwargs.values()))  # a macro gets them in a tuple
        return super().call(__context, __obj, *args, **kwargs)

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Return an attribute, or else an item."""
        if type(obj) is Dict and attribute not in _DICT_NAMES:
            try:
                return obj[attribute]
            except KeyError:
                return self.undefined(obj=obj, name=attribute)
        if type(obj) is _Namespace and attribute[0] != "_":
            found = getattr(obj, attribute, WORK)
            return self.undefined(obj=obj, name=attribute) if found is WORK else found
        return super().getattr(Text(obj) if type(obj) is str else obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Return an item, or else an attribute."""
        if type(obj) is Dict and isinstance(argument, str) and argument in obj:
            return obj[argument]
        return super().getitem(Text(obj) if type(obj) is str else obj, argument)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Return whether a template may use an attribute."""
        for kind, names in _METHODS.items():
            if isinstance(obj, kind):
                return attr in names
        return super().is_safe_attribute(obj, attr, value)

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
        values = (*args, *kwargs.values())
        WORK.get().check(len(text) + text.count("{") * max(map(weight, values), default=0))
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
        check_widths(spec)
        result = super().format_field(value, spec) if spec else value
        result = escaped(result) if self._is_safe else as_text(result)
        self._parts.append(result)
        return result


def _raise(message: Any) -> None:
    raise TemplateError(message)


def _now(format: str) -> str:
    if len(format) > _MAX_TIME_FORMAT:
        raise LimitError(f"the template has a time format of {len(format):,} characters")
    return datetime.now().strftime(format)


# Filters. Those of Jinja work on a `Text` as they are unless they make a `str` of their own.


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: Any = None,
    separators: Any = None,
    sort_keys: bool = False,
) -> Text:
    spaces = indent if isinstance(indent, int) else len(indent or "")
    longest = max(spaces, *map(len, separators or ("",)))
    # Items are bounded by the characters, and their depth by Python's stack of a thousand calls.
    deep = min(weight(value), 1_000)
    WORK.get().check(weight(value) * (1 + max(0, longest) * (deep if longest > 16 else 1)))
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
    count = len(width) if isinstance(width, str) else width
    WORK.get().check(len(text) + max(0, count) * (1 + len(str.splitlines(text))))
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


def _round(value: Any, precision: int = 0, method: Any = "common") -> Any:
    if abs(precision) > _MAX_PRECISION:
        raise LimitError(f"the template rounds to {precision:,} digits")
    return FILTERS["round"](value, precision, method)


@pass_environment
def _sum(env: Any, iterable: Any, attribute: Any = None, start: Any = 0) -> Any:
    if not isinstance(start, (int, float)):
        raise LimitError("the template adds up values that are no numbers")
    return FILTERS["sum"](env, iterable, attribute, start)


def _batch(value: Any, linecount: int, fill_with: Any = None) -> Iterator[Any]:
    if fill_with is not None and isinstance(linecount, int) and linecount > _MAX_ITEMS:
        raise LimitError(f"the template fills batches of {linecount:,} items")
    for batch in FILTERS["batch"](value, linecount, fill_with):
        WORK.get().make(_ITEM_COST * len(batch))
        yield batch


@pass_eval_context
def _slice(context: Any, value: Any, slices: int, fill_with: Any = None) -> Iterator[Any]:
    if slices > _MAX_ITEMS:
        raise LimitError(f"the template makes {slices:,} slices")
    for part in FILTERS["slice"](context, value, slices, fill_with):
        WORK.get().make(_ITEM_COST * len(part))
        yield part


def _charged(filter: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter that counts the items of its result."""

    @wraps(filter)
    def run(*args: Any, **kwargs: Any) -> Any:
        result = filter(*args, **kwargs)
        WORK.get().make(_ITEM_COST * len(result))
        return result

    return run


def _rare(filter: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter for short values only. Its result is untracked."""

    @wraps(filter)
    def run(*args: Any, **kwargs: Any) -> Any:
        if sum(map(weight, (*args, *kwargs.values()))) > _MAX_RARE_CHARACTERS:
            raise LimitError(
                f"the filter {filter.__name__.removeprefix('do_')} takes at most "
                f"{_MAX_RARE_CHARACTERS:,} characters"
            )
        return str.__str__(filter(*args, **kwargs))

    return run


_FILTERS: dict[str, Callable[..., Any]] = {
    **{"tojson": _tojson, "join": _join, "indent": _indent, "format": _format, "title": _title},
    **{"replace": _replace, "center": _center, "string": _string, "safe": _safe},
    **{"escape": escaped, "e": escaped, "forceescape": _force_escape},
    **{"round": _round, "sum": _sum, "batch": _batch, "slice": _slice},
    **{name: _charged(FILTERS[name]) for name in ("list", "sort", "dictsort", "groupby")},
    **{name: _rare(FILTERS[name]) for name in ("pprint", "striptags", "urlencode", "urlize")},
    **{name: _rare(FILTERS[name]) for name in ("wordwrap", "xmlattr")},
}
