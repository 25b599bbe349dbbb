"""Stop strings, tags and offsets: costs, options and edges."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from support.streams import (
    BYTES,
    tokenizer_of,
)

from bpetite import DecodeStream, Tag, TokenText
from bpetite._streaming.stops import Matcher, Node
from bpetite._streaming.watching import Watching

# Withheld text, and the cost of a step


def test_twenty_stops_cost_a_step_no_more_than_one() -> None:
    """The matcher reads a character once for all strings."""
    looked_at = []
    for count in (1, 20):
        matcher = Matcher([f"{'a' * 50}{number}" for number in range(count)])
        node, nodes = matcher.root, 0
        for _ in range(1000):
            node = matcher.scan(node, "a").node
            nodes += node.length
        looked_at.append(nodes)
    assert looked_at[0] == looked_at[1]


def test_held_text_is_not_copied_at_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the steps through a long stop take linear time."""
    tokenizer = tokenizer_of([])
    with monkeypatch.context() as refusing:
        refusing.delattr(Node, "text")
        stream = tokenizer.decode_stream(stop="a" * 99 + "b")
        returned = "".join(map(stream.step, b"a" * 100))
    assert (returned, stream.withheld) == ("a", "a" * 99)


def test_cached_transitions_of_stops_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bpetite._streaming.tables.MAX_TRANSITIONS", 5)
    tokenizer = tokenizer_of([])
    stream = tokenizer.decode_stream(stop=["<é>", "ж!"])
    text = "é<中🙂ж<é한" * 3
    returned, cached = "", []
    for id in text.encode():
        returned += stream.step(id)
        assert isinstance(stream._mode, Watching)
        automaton = stream._mode._automaton
        known = [automaton._root, *automaton._state_of.values()]
        cached.append(sum(len(state.transitions) for state in known))
    assert (returned, max(cached)) == (text, 5)


def test_only_the_last_sets_of_stops_are_remembered() -> None:
    tokenizer = tokenizer_of([])
    for number in range(100):
        tokenizer.decode_stream(stop=f"stop {number}").step(97)
    assert len(tokenizer._token_source.table(False).cache._automaton_of) == 32


def test_threads_share_cached_transitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bpetite._streaming.tables.MAX_TRANSITIONS", 50)
    tokenizer = tokenizer_of([])
    text = "é<中🙂ж<é한 and so on" * 100

    def streamed_in(number: int) -> str:
        stream = tokenizer.decode_stream(stop=["<é>", f"ж{number % 50}"])
        return "".join(map(stream.step, text.encode()))

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(streamed_in, range(100))) == {text}


# Stop ids


def test_streams_with_other_stop_ids_do_not_disturb_each_other() -> None:
    one, other = BYTES.decode_stream(stop_ids=[98]), BYTES.decode_stream(stop_ids=[99])
    texts = [(one.step(id), other.step(id)) for id in b"abc"]
    assert texts == [("a", "a"), ("", "b"), ("", "")]


def test_a_stop_that_ends_at_min_tokens_is_not_found_by_flush() -> None:
    stream = BYTES.decode_stream(stop="\ufffd", min_tokens=1)
    assert (stream.step(0xE2), stream.flush()) == ("", "\ufffd")


# The end after max_tokens


def test_a_state_beyond_max_tokens_is_refused() -> None:
    stream = BYTES.decode_stream(stop="END")
    stream.step([*b"abc"])
    state = {**stream.to_state(), "max_tokens": 2}
    with pytest.raises(ValueError, match=r"3 'tokens', more than its 'max_tokens', 2"):
        DecodeStream.from_state(BYTES, state)


# Tags


def test_of_a_stop_and_a_tag_that_are_the_same_the_stop_is_found() -> None:
    stream = BYTES.decode_stream(tags="<b>", stop="<b>")
    assert (stream.step_event(list(b"a<b>c")).pieces, stream.stop_reason) == (("a",), "<b>")


def test_a_tag_shows_what_it_is() -> None:
    assert [repr(Tag("<b>")), str(Tag("<b>")), f"{Tag('<b>')}"] == ["Tag('<b>')", "<b>", "<b>"]


# Offsets


def offsets(tokens: Sequence[TokenText]) -> list[tuple[int, int]]:
    return [(token.start, token.end) for token in tokens]


@pytest.mark.parametrize("options", [{}, {"unknown": "skip"}])
def test_steps_that_were_not_counted_are_told(options: dict[str, Any]) -> None:
    stream = BYTES.decode_stream(**options)
    stream.step(97)
    with pytest.raises(ValueError, match=r"step_event\(\[\]\)"):
        stream.step_event(98)
    stream.reset()
    assert offsets(stream.step_event(98).tokens) == [(0, 1)]


# Arguments


@pytest.mark.parametrize("name", ["stop", "tags"])
@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("", ValueError),
        (["a", ""], ValueError),
        (b"a", TypeError),
        ([b"a"], TypeError),
        (5, TypeError),
        ([None], TypeError),
        ("\ud800", UnicodeEncodeError),
    ],
    ids=repr,
)
def test_wrong_strings_are_refused(name: str, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        BYTES.decode_stream(**{name: value})


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"unknown": "ignore"}, ValueError),
        ({"unknown": None}, ValueError),
        ({"min_tokens": -1}, ValueError),
        ({"min_tokens": True}, TypeError),
        ({"min_tokens": 1.0}, TypeError),
        ({"max_tokens": 0}, ValueError),
        ({"max_tokens": 2.0}, TypeError),
        ({"max_tokens": 2, "min_tokens": 3}, ValueError),
        ({"include_stop": 1}, TypeError),
        ({"stop_ids": "ab"}, TypeError),
        ({"stop_ids": b"ab"}, TypeError),
        ({"stop_ids": [True]}, TypeError),
        ({"stop_ids": [None]}, TypeError),
        ({"stop_ids": [1.0]}, TypeError),
    ],
    ids=repr,
)
def test_wrong_options_are_refused(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        BYTES.decode_stream(**options)


@pytest.mark.parametrize("name", ["stop", "stop_ids", "tags", "max_tokens"])
def test_none_means_no_stops_and_no_tags(name: str) -> None:
    stream = BYTES.decode_stream(**{name: None})  # type: ignore[arg-type]
    assert stream.to_state() == BYTES.decode_stream().to_state()


def test_one_stop_may_stand_alone() -> None:
    states = [BYTES.decode_stream(stop=stop).to_state() for stop in ("ab", ["ab"], ("ab",))]
    assert states[0] == states[1] == states[2]


def test_repr_shows_what_is_held_and_what_stopped() -> None:
    stream = BYTES.decode_stream(stop="END")
    stream.step(list(b"aEN"))
    shown = [repr(stream)]
    stream.step(68)
    shown.append(repr(stream))
    assert shown == [
        "<DecodeStream errors='replace' pending=b'' withheld='EN'>",
        "<DecodeStream errors='replace' stop_reason='END'>",
    ]
