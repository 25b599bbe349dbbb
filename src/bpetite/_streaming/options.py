"""The options of a stream: the one module that declares them.

To add an option, add it to `StreamOptions` (type, check and documentation) and to `Options`
(checked type and default). Type checkers need both types: callers pass one, streams read the other.
All methods that take options, and `to_state`, read it here. If it needs a count or the text, add it
to `are_plain` too, and implement it in `watching.py`, since `plain.py` only decodes.

Describe it in `docs/streaming.md`, and write `docs/public-names.txt` again with
`scripts/tools/public_names.py`. If it changes the text, `streamed` in `tests/support/reference.py`
has it too, and `scripts/tools/make_conformance.py` passes it on. The command line takes only what
`_cli/decode.py` passes.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from inspect import Parameter, signature
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypedDict,
    TypeGuard,
    TypeVar,
    get_type_hints,
)

from bpetite._arguments import check_at_least, check_errors, check_order, unknown_argument
from bpetite._streaming.tables import StreamTable, TokenSource
from bpetite._vocabulary import as_id

Ids = int | Iterable[int]

F = TypeVar("F", bound=Callable[..., Any])


class Option(NamedTuple):
    """How an option is checked, and its documentation.

    `check` takes the value of a user, or of a state in JSON, and the name of the option. It
    returns the value of `Options`, or raises TypeError or ValueError.
    """

    check: Callable[[Any, str], Any]
    doc: str


def _checked_errors(errors: object, _name: str) -> object:
    check_errors(errors)
    return errors


def _checked_unknown(unknown: object, name: str) -> object:
    if unknown not in ("raise", "skip"):
        raise ValueError(f"{name} must be raise or skip, got {unknown!r}")
    return unknown


def _checked_flag(flag: object, name: str) -> object:
    if type(flag) is not bool:
        raise TypeError(f"{name} must be a bool, got {type(flag).__name__}")
    return flag


def _checked_number(number: object, name: str) -> object:
    return check_at_least(0, number, name)


def _checked_bound(number: object, name: str) -> object:
    if number is None:
        return None
    checked = _checked_number(number, name)
    if checked == 0:
        raise ValueError(f"{name} must be at least 1, or None, got 0")
    return checked


def _checked_strings(strings: str | Iterable[str] | None, name: str) -> tuple[str, ...]:
    """Return stop strings or tags, each once; a string may stand alone."""
    if strings is None:
        return ()
    if isinstance(strings, str):
        strings = [strings]
    elif isinstance(strings, (bytes, bytearray)) or not isinstance(strings, Iterable):
        raise TypeError(f"{name} must be a str or several, got {type(strings).__name__}")
    checked: dict[str, None] = {}
    for string in strings:
        if not isinstance(string, str):
            raise TypeError(f"{name} must be a str or several, got {type(string).__name__}")
        if not string:
            raise ValueError(f"{name} must not have an empty string")
        try:
            string.encode("utf-8")
        except UnicodeEncodeError as error:
            error.reason += f", in {name}"
            raise
        checked[str(string)] = None
    return tuple(checked)


def _checked_ids(ids: object, name: str) -> frozenset[int]:
    if ids is None:
        return frozenset()
    if isinstance(ids, (set, frozenset)):
        ids = [*ids]  # they need no order
    try:
        return frozenset(map(as_id, ids)) if are_several(ids) else frozenset([as_id(ids)])
    except TypeError as error:
        raise TypeError(f"{name}: {error}") from None


class StreamOptions(TypedDict, total=False):
    """The options of a stream, as keyword arguments."""

    errors: Annotated[str, Option(_checked_errors, (
        'How to handle bytes that are not UTF-8, as in `bytes.decode`: "replace", "ignore", '
        '"backslashreplace" or "strict".'
    ))]  # fmt: skip
    skip_special_tokens: Annotated[bool, Option(_checked_flag, (
        "Whether special tokens have no text, instead of their literals."
    ))]  # fmt: skip
    unknown: Annotated[Literal["raise", "skip"], Option(_checked_unknown, (
        'How to handle an id that the vocabulary lacks: "raise" for a KeyError, "skip" for no '
        "text. A model that is padded to more ids may sample such an id."
    ))]  # fmt: skip
    stop: Annotated[str | Iterable[str] | None, Option(_checked_strings, (
        "A string, or several, that end the stream. The text ends before the first of them; if "
        "several end at the same character, the longest counts."
    ))]  # fmt: skip
    include_stop: Annotated[bool, Option(_checked_flag, (
        "Whether the text ends with the stop string, or with the text of the stop id, instead of "
        "before it."
    ))]  # fmt: skip
    stop_ids: Annotated[Ids | None, Option(_checked_ids, (
        "An id, or several, that end the stream. A stop id has no text, unless include_stop."
    ))]  # fmt: skip
    min_tokens: Annotated[int, Option(_checked_number, (
        "The number of ids within which no stop counts."
    ))]  # fmt: skip
    max_tokens: Annotated[int | None, Option(_checked_bound, (
        'The most ids, not counting the prompt: after them, the stream ends with the '
        '`finish_reason` "length". None for no bound.'
    ))]  # fmt: skip
    tags: Annotated[str | Iterable[str] | None, Option(_checked_strings, (
        "A string, or several, that `step_event` returns apart from text, each as a `Tag`."
    ))]  # fmt: skip
    max_stop_bytes: Annotated[int, Option(_checked_number, (
        "The number of bytes, in UTF-8, that all strings of `stop` and `tags` may have together. "
        "Each takes some 300 bytes of memory."
    ))]  # fmt: skip


class Options(NamedTuple):
    """The options of a stream, checked, and their defaults."""

    errors: str = "replace"
    skip_special_tokens: bool = False
    unknown: str = "raise"
    stop: tuple[str, ...] = ()
    include_stop: bool = False
    stop_ids: frozenset[int] = frozenset()
    min_tokens: int = 0
    max_tokens: int | None = None
    tags: tuple[str, ...] = ()
    max_stop_bytes: int = 65_536

    @classmethod
    def checked(cls, source: TokenSource, options: Mapping[str, Any]) -> Options:
        """Return the options that keyword arguments mean; TypeError or ValueError if wrong."""
        if not options:
            return _DEFAULTS
        values = {}
        for name, value in options.items():
            if name not in OPTIONS:
                raise unknown_argument("decode_stream", name, OPTIONS)
            values[name] = OPTIONS[name].check(value, name)
        checked = cls(**values)
        if checked.max_tokens is not None and checked.min_tokens > checked.max_tokens:
            raise ValueError(
                f"min_tokens ({checked.min_tokens}) is above max_tokens ({checked.max_tokens})"
            )
        if checked.stop or checked.tags:
            checked._check_strings(source)
        return checked

    def _check_strings(self, source: TokenSource) -> None:
        size = len("".join((*self.stop, *self.tags)).encode("utf-8"))
        if size > self.max_stop_bytes:
            raise ValueError(
                f"stop and tags have {size:,} bytes together, more than "
                f"{self.max_stop_bytes:,}; give shorter ones, or a larger max_stop_bytes"
            )
        if self.skip_special_tokens:
            id_of = source.table(True).skipped_id_of
            stops = [("stop", literal) for literal in self.stop]
            for name, literal in [*stops, *(("tags", literal) for literal in self.tags)]:
                id = id_of.get(literal.encode("utf-8"))
                if id is None or (name == "stop" and id in self.stop_ids):
                    continue
                remedy = f"stop_ids=[{id}]" if name == "stop" else "skip_special_tokens=False"
                raise ValueError(
                    f"{name} has {literal!r}, the literal of a special token that "
                    f"skip_special_tokens leaves out of the text; use {remedy}"
                )

    @property
    def are_plain(self) -> bool:
        """Whether a stream need neither count nor search its text."""
        watches = self.stop or self.stop_ids or self.tags or self.max_tokens is not None
        return not watches and self.errors != "strict"

    def skips(self, id: int, table: StreamTable) -> bool:
        """Return whether an id is skipped since the vocabulary lacks it."""
        return self.unknown == "skip" and id not in table.tokens.bytes_of

    def to_json(self) -> dict[str, Any]:
        """Return the options that differ from the defaults, as JSON has them."""
        return {
            name: _to_json(value)
            for name, value, default in zip(self._fields, self, _DEFAULTS, strict=True)
            if value != default
        }


_DEFAULTS = Options()
_HINTS = get_type_hints(StreamOptions, include_extras=True)

OPTIONS: dict[str, Option] = {name: hint.__metadata__[0] for name, hint in _HINTS.items()}


def _to_json(value: Any) -> Any:
    if isinstance(value, frozenset):
        return sorted(value)
    return list(value) if isinstance(value, tuple) else value


def takes_options(method: F) -> F:
    """Give a method with `**options` the signature that has each option.

    A docstring with a line `Options:` gets the documentation of all options below it.
    """
    own = signature(method, eval_str=True)  # `help` shows all annotations alike
    parameters = [each for each in own.parameters.values() if each.kind is not each.VAR_KEYWORD]
    parameters += [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=default if isinstance(default, (str, int)) else None,
            annotation=_HINTS[name].__origin__,
        )
        for name, default in _DEFAULTS._asdict().items()
    ]
    method.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    if method.__doc__ and "Options:\n" in method.__doc__:
        before, after = method.__doc__.split("Options:\n")
        # Importing `textwrap` would be slower.
        texts = [
            " " * 12 + ("\n" + " " * 16).join(re.findall("(.{1,72})(?: |$)", f"{name}: {each.doc}"))
            for name, each in OPTIONS.items()
        ]
        method.__doc__ = "\n".join([before + "Options:", *texts, after])
    return method


def are_several(ids: object) -> TypeGuard[Iterable[Any]]:
    """Return whether a value is several ids: an iterable that is no number itself.

    >>> are_several([97]), are_several(97)
    (True, False)
    """
    if isinstance(ids, (list, tuple)):
        return True
    if isinstance(ids, (int, str, bytes, bytearray)) or not isinstance(ids, Iterable):
        return False
    try:
        operator.index(ids)  # type: ignore[arg-type]
    except TypeError:
        check_order(ids, "ids", "int")
        return True
    return False
