"""The state of a stream as JSON: its options, its position, and a hash of its vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from bpetite._streaming.options import OPTIONS, Options, StreamOptions
from bpetite._streaming.tables import StreamTable
from bpetite._vocabulary import is_encodable

_VERSION = 1

MAX_COUNT = 1 << 62
"""The most ids or characters that a stream counts; both engines have room for it."""


class Position(NamedTuple):
    """The position of a stream, whatever its options are."""

    pending: bytes = b""
    decoder_state: str = ""  # what the byte decoder knows apart from the pending bytes
    withheld: str = ""  # and text that was released but not returned yet
    tokens: int | None = None  # None if they were not counted
    characters: int = 0
    stop_reason: str | int | None = None
    text_after_stop: str = ""
    failed: bool = False
    stops_paused: bool = False


# The types that each field of a position may have in JSON.
_TYPES: dict[str, tuple[type, ...]] = {
    "pending": (str,),  # in hexadecimal
    "decoder_state": (str,),
    "withheld": (str,),
    "tokens": (int,),
    "characters": (int,),
    "stop_reason": (str, int),
    "text_after_stop": (str,),
    "failed": (bool,),
    "stops_paused": (bool,),
}
_KEYS = {"version", "vocabulary", *OPTIONS, *_TYPES}


def to_state(options: Options, position: Position, vocabulary: str | None = None) -> dict[str, Any]:
    """Return the state of a stream. Values that are the defaults are left out."""
    state: dict[str, Any] = {"version": _VERSION}
    if vocabulary is not None:
        state["vocabulary"] = vocabulary
    state |= options.to_json()
    for name, value, default in zip(Position._fields, position, Position(), strict=True):
        if value != default:
            state[name] = value
    if position.pending:
        state["pending"] = position.pending.hex()
    return state


def options_in(state: Mapping[str, Any]) -> StreamOptions:
    """Return the options of a state. A stream that is made with them checks them."""
    if not isinstance(state, Mapping):
        raise TypeError(f"state must be a dict, got {type(state).__name__}")
    version = state["version"]
    if type(version) is not int or version != _VERSION:
        raise ValueError(f"state must have version {_VERSION}, got {version!r}")
    if others := state.keys() - _KEYS:
        raise ValueError(f"state has keys that no stream has: {', '.join(map(repr, others))}")
    return cast(StreamOptions, {name: state[name] for name in OPTIONS if name in state})


def check_vocabulary(state: Mapping[str, Any], table: StreamTable) -> None:
    """Raise ValueError for the state of a stream of another vocabulary."""
    if "vocabulary" in state and state["vocabulary"] != table.fingerprint:
        raise ValueError(
            f"state is of another vocabulary: its 'vocabulary' is {state['vocabulary']!r}, but "
            f"this one is {table.fingerprint!r}; use the tokenizer that made the stream"
        )


def position_in(state: Mapping[str, Any]) -> Position:
    """Return the position of a state; TypeError or ValueError if a field is wrong."""
    values: dict[str, Any] = {}
    for name, types in _TYPES.items():
        if name not in state:
            continue
        value = values[name] = state[name]
        if type(value) not in types:
            raise TypeError(f"state[{name!r}] has the wrong type {type(value).__name__}: {value!r}")
        if name in ("tokens", "characters") and not 0 <= value <= MAX_COUNT:
            what = "negative" if value < 0 else "too large"
            raise ValueError(f"state[{name!r}] is {what}: {value}")
        if isinstance(value, str) and not is_encodable(value):
            raise ValueError(f"state[{name!r}] is not Unicode: {value!r}")
    uncounted = [name for name in values if name not in ("pending", "decoder_state")]
    if "tokens" not in values and uncounted:
        raise ValueError(f"state has {', '.join(map(repr, uncounted))}, but no count of tokens")
    if "pending" in values:
        try:
            values["pending"] = bytes.fromhex(values["pending"])
        except ValueError:
            raise ValueError(
                f"state['pending'] is not hexadecimal: {values['pending']!r}"
            ) from None
    position = Position(**values)
    if position.text_after_stop and not isinstance(position.stop_reason, str):
        raise ValueError(
            f"state has {position.text_after_stop!r} as 'text_after_stop', but no stop string as "
            "'stop_reason'"
        )
    if position.failed and isinstance(position.stop_reason, str):
        raise ValueError(f"state has 'failed', but {position.stop_reason!r} as 'stop_reason' too")
    return position
