"""What a stream is asked to do, and where it is: arguments, checked, and as JSON has them."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, TypedDict, TypeGuard, cast

from bpetite._stop import matcher_of
from bpetite._stream_readers import reader_of
from bpetite._stream_states import Places, check_errors, memory_of
from bpetite._vocabulary import TokenTable, as_id

Ids = int | Iterable[int]
"""An id or several."""

_VERSION = 1  # of the JSON value

# What most streams are given; this one is not looked through.
_NOTHING = ()
_NO_IDS: frozenset[int] = frozenset()


class OptionsBesideTokens(TypedDict, total=False):
    """The keyword arguments of `Tokenizer.decode_stream` beside what picks the tokens."""

    errors: str
    unknown: Literal["raise", "skip"]
    stop: str | Iterable[str]
    include_stop: bool
    stop_ids: Ids
    min_tokens: int
    tags: str | Iterable[str]


class StreamOptions(OptionsBesideTokens, total=False):
    """The keyword arguments of `Tokenizer.decode_stream`."""

    skip_special_tokens: bool


class Options(NamedTuple):
    """What a stream was asked to do; the table tells whether special tokens are skipped."""

    table: TokenTable
    errors: str
    unknown: str
    stop: tuple[str, ...]
    include_stop: bool
    stop_ids: frozenset[int]
    min_tokens: int
    tags: tuple[str, ...]

    @classmethod
    def checked(
        cls,
        table: TokenTable,
        errors: str,
        unknown: str,
        stop: str | Iterable[str],
        include_stop: bool,
        stop_ids: Ids,
        min_tokens: int,
        tags: str | Iterable[str],
    ) -> Options:
        """Return the options that arguments mean; TypeError or ValueError for wrong ones."""
        check_errors(errors)
        if unknown not in ("raise", "skip"):
            raise ValueError(f"unknown must be raise or skip, got {unknown!r}")
        if type(min_tokens) is not int:
            raise TypeError(f"min_tokens must be an int, got {type(min_tokens).__name__}")
        if min_tokens < 0:
            raise ValueError(f"min_tokens must be at least 0, got {min_tokens}")
        if type(include_stop) is not bool:
            raise TypeError(f"include_stop must be a bool, got {type(include_stop).__name__}")
        return cls(
            table,
            errors,
            unknown,
            () if stop is _NOTHING else _checked_strings(stop, "stop"),
            include_stop,
            _NO_IDS if stop_ids is _NOTHING else _checked_ids(stop_ids, "stop_ids"),
            min_tokens,
            () if tags is _NOTHING else _checked_strings(tags, "tags"),
        )

    @property
    def are_for_text_alone(self) -> bool:
        """Whether neither a count nor anything in the text matters."""
        return not (self.stop or self.stop_ids or self.tags) and self.errors != "strict"

    def skips(self, id: int) -> bool:
        """Return whether an id is to be skipped since the vocabulary lacks it."""
        return id not in self.table.bytes_of and self.unknown == "skip"

    def places(self, armed: bool, tokens: int) -> Places:
        """Return where a stream can be, now that so many tokens have come."""
        stops = self.stop if armed else ()
        finds_stops = tokens >= self.min_tokens or not stops
        return memory_of(self.table).shared(
            (self.errors, stops, finds_stops, self.tags, self.stop_ids),
            lambda: Places(self.table, self.errors, matcher_of(stops, self.tags, finds_stops)),
        )

    def to_state(self) -> dict[str, Any]:
        """Return them as JSON has them; those that are the defaults are left out."""
        options = {
            "errors": self.errors,
            "skip_special_tokens": self.table.skips_special_tokens,
            "unknown": self.unknown,
            "stop": list(self.stop),
            "include_stop": self.include_stop,
            "stop_ids": sorted(self.stop_ids),
            "min_tokens": self.min_tokens,
            "tags": list(self.tags),
        }
        return {name: value for name, value in options.items() if value != _DEFAULTS[name]}


_DEFAULTS: dict[str, Any] = {
    "errors": "replace",
    "skip_special_tokens": False,
    "unknown": "raise",
    "stop": [],
    "include_stop": False,
    "stop_ids": [],
    "min_tokens": 0,
    "tags": [],
}


class Position(NamedTuple):
    """Where a stream is, whatever its options are."""

    pending: bytes = b""
    mark: str = ""  # what more there is to the pending bytes
    held: str = ""  # and what is held no longer, but was not returned
    tokens: int | None = None  # None if they were not counted
    characters: int = 0
    stopped: str | int | None = None
    rest: str = ""
    failed: bool = False
    armed: bool = True

    def to_state(self) -> dict[str, Any]:
        """Return it as JSON has it; what is so at the beginning is left out."""
        values = {
            name: value
            for name, value in self._asdict().items()
            if value != Position._field_defaults[name]
        }
        return values | {"pending": self.pending.hex()} if self.pending else values


_TYPES: dict[str, tuple[type, ...]] = {
    "pending": (str,),
    "mark": (str,),
    "held": (str,),
    "tokens": (int,),
    "characters": (int,),
    "stopped": (str, int),
    "rest": (str,),
    "failed": (bool,),
    "armed": (bool,),
}


def to_state(options: Options, position: Position) -> dict[str, Any]:
    """Return a stream as JSON has it."""
    return {"version": _VERSION, **options.to_state(), **position.to_state()}


def options_in(state: Mapping[str, Any]) -> StreamOptions:
    """Return the options in what `to_state` returned; a wrong value is for `checked` to find."""
    if not isinstance(state, Mapping):
        raise TypeError(f"state must be a dict, got {type(state).__name__}")
    version = state["version"]
    if type(version) is not int or version != _VERSION:
        raise ValueError(f"state must have version {_VERSION}, got {version!r}")
    if others := state.keys() - {"version", *_DEFAULTS, *_TYPES}:
        raise ValueError(f"state has keys that no stream has: {', '.join(map(repr, others))}")
    skips = state.get("skip_special_tokens", False)
    if type(skips) is not bool:
        raise TypeError(f"state has a {type(skips).__name__} as 'skip_special_tokens': {skips!r}")
    return cast(StreamOptions, {name: state[name] for name in _DEFAULTS if name in state})


def position_in(state: Mapping[str, Any], options: Options) -> Position:
    """Return the position in what `to_state` returned; TypeError or ValueError for a wrong one."""
    values = {name: state[name] for name in _TYPES if name in state}
    for name, value in values.items():
        if type(value) not in _TYPES[name]:
            raise TypeError(f"state has a {type(value).__name__} as {name!r}: {value!r}")
        if name in ("tokens", "characters") and value < 0:
            raise ValueError(f"state has a negative number as {name!r}: {value}")
        if isinstance(value, str):
            value.encode("utf-8")  # a lone surrogate is no text that a stream has
    if "tokens" not in values and (others := values.keys() - {"pending", "mark"}):
        raise ValueError(
            f"state has no count of tokens, but {', '.join(map(repr, sorted(others)))}"
        )
    if "pending" in values:
        values["pending"] = bytes.fromhex(values["pending"])
    position = Position(**values)
    if position.rest and not isinstance(position.stopped, str):
        raise ValueError(f"state has text behind a stop, and no stop: {position.rest!r}")
    if position.failed and position.stopped is not None:
        raise ValueError(f"state has failed and has stopped at {position.stopped!r}")
    reader_of(options.table, options.errors).held(position.pending, position.mark)
    if position.stopped not in (None, *options.stop, *options.stop_ids):
        raise ValueError(f"state has stopped at {position.stopped!r}, no stop of its stream")
    return position


def are_several(ids: object) -> TypeGuard[Iterable[Any]]:
    """Return whether a value is several ids: an iterable, and no number itself.

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
        return True
    return False


def _checked_strings(strings: str | Iterable[str], name: str) -> tuple[str, ...]:
    """Return stop strings or tags, each once; one may stand alone."""
    if isinstance(strings, str):
        strings = [strings]
    if isinstance(strings, (bytes, bytearray)) or not isinstance(strings, Iterable):
        raise TypeError(f"{name} must be a str or several, got {type(strings).__name__}")
    checked: dict[str, None] = {}
    for string in strings:
        if not isinstance(string, str):
            raise TypeError(f"{name} must be a str or several, got {type(string).__name__}")
        if not string:
            raise ValueError(f"{name} must not have an empty string")
        string.encode("utf-8")
        checked[str(string)] = None
    return tuple(checked)


def _checked_ids(ids: object, name: str) -> frozenset[int]:
    if isinstance(ids, (str, bytes, bytearray)):
        raise TypeError(f"{name} must be an id or several, got {type(ids).__name__}")
    return frozenset(map(as_id, ids)) if are_several(ids) else frozenset([as_id(ids)])
