"""Stop strings, tags and offsets: a table of cases, a reference, and edge cases."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import few_examples
from support.reference import Shown, Streamed, streamed, unfinished
from support.streams import (
    BYTES,
    END,
    END_ID,
    ERRORS,
    LENIENT,
    REPLACED,
    bytes_of,
    ids_of,
    tokenizer_of,
    tokens_of_all_kinds,
)

from bpetite import DecodeStream, DecodeStreamError, Tag, TokenText
from bpetite._streaming.stops import Matcher, Node
from bpetite._streaming.stream import MakesStreams
from bpetite._streaming.watching import Watching

# The table. `tokens` are the tokens of the steps, divided by `|`; bytes are hexadecimal behind 0x.
# `texts` are the results of the steps, divided by `|`, and behind `/` the result of flush. `_` is
# an empty text.


class Case(NamedTuple):
    name: str
    stop: str | list[str]
    tokens: str
    texts: str
    stopped: str | None = None
    text_after_stop: str = ""
    include: bool = False


# fmt: off
CASES = [
    Case("41-three tokens", "END", "E | N | D", "_ | _ | _ / _", "END"),
    Case("41-not a stop", "END", "E | Nx", "_ | ENx / _"),
    Case("41-the end releases withheld text", "END", "E | N", "_ | _ / EN"),
    Case("41-it begins again inside itself", "END", "aEN | EN | D", "a | EN | _ / _", "END"),
    Case("41-included", "END", "E | N | D", "_ | _ | END / _", "END", include=True),
    Case("42-inside one token", "STOP", "hello STOP world", "hello  / _", "STOP", " world"),
    Case("42-inside one token, included", "STOP", "hello STOP world", "hello STOP / _", "STOP",
         " world", include=True),
    Case("43-a begins again at once", "aab", "a | a | a | b", "_ | _ | a | _ / _", "aab"),
    Case("43-symbols in a row", "====END", "==== | ==== | x", "_ | ==== | ====x / _"),
    Case("44-an emoji of three tokens", "🛑", "0x6F6BF09F | 0x9B | 0x9121", "ok | _ | _ / _",
         "🛑", "!"),
    Case("44-another emoji", "🛑", "0x6F6BF09F | 0x998221", "ok | 🙂! / _"),
    Case("44-it begins with a character of two tokens", "。\n", "0x61E380 | 0x82 | 0x0A",
         "a | _ | _ / _", "。\n"),
    Case("44-only its first character", "。\n", "0x61E380 | 0x82 | b", "a | _ | 。b / _"),
    Case("45-the earliest end", ["abc", "b"], "a | b | c", "_ | a | _ / _", "b"),
    Case("45-of one end the longest", ["b", "ab"], "a | b", "_ | _ / _", "ab"),
    Case("45-of one end the longest, in the other order", ["ab", "b"], "a | b", "_ | _ / _", "ab"),
    Case("45-not the first in the list", ["a", "is", ","], " The |  user is a",
         " The |  user  / _", "is", " a"),
    Case("45-one inside another that fails", ["abcd", "bc"], "ab | cx", "_ | a / _", "bc", "x"),
    Case("46-replaced bytes are text", "x\ufffd", "x | 0xF09F | y", "_ | _ | _ / _", "x\ufffd",
         "y"),
    Case("46-replaced bytes at the end", "x\ufffd", "x | 0xF09F", "_ | _ / _", "x\ufffd"),
    Case("46-nothing is normalized", "é", "e | 0xCC81", "e | \u0301 / _"),
    Case("46-half a character is none", "é", "0xC3 | 0xAA", "_ | ê / _"),
    Case("47-steps behind it return nothing", "b", "a | b | c | d", "a | _ | _ | _ / _", "b"),
    Case("a stop drops pending bytes", "b", "ab0xF0", "a / _", "b"),
    Case("several with one beginning", ["</s>", "</t>"], "< | / | u>", "_ | _ | </u> / _"),
    Case("a stop of one character withholds nothing", "!", "a! | b", "a | _ / _", "!"),
    Case("a stop given twice", ["b", "b"], "a | b", "a | _ / _", "b"),
]
# fmt: on

table = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


def tokens_in(column: str) -> list[bytes]:
    """Read a column of tokens."""
    tokens = []
    for item in column.split(" | "):
        text, _, digits = item.partition("0x")
        tokens.append(text.encode() + bytes.fromhex(digits))
    return tokens


def texts_in(column: str) -> list[str]:
    """Read a column of texts, flush's text last."""
    steps, _, flushed = column.rpartition(" / ")
    return ["" if text == "_" else text for text in [*steps.split(" | "), flushed]]


def opened(case: Case, **options: Any) -> tuple[DecodeStream, list[int]]:
    """Return the stream of a case, and its ids."""
    tokens = tokens_in(case.tokens)
    tokenizer = tokenizer_of(tokens)
    stream = tokenizer.decode_stream(stop=case.stop, include_stop=case.include, **options)
    return stream, ids_of(tokenizer, tokens)


@table
def test_table(case: Case) -> None:
    stream, ids = opened(case)
    texts = [*map(stream.step, ids), stream.flush()]
    assert (texts, stream.stop_reason, stream.text_after_stop) == (
        texts_in(case.texts),
        case.stopped,
        case.text_after_stop,
    )


@table
def test_table_in_one_step(case: Case) -> None:
    stream, ids = opened(case)
    texts = [stream.step(ids), stream.flush()]
    *steps, flushed = texts_in(case.texts)
    assert (texts, stream.stop_reason, stream.text_after_stop) == (
        ["".join(steps), flushed],
        case.stopped,
        case.text_after_stop,
    )


@table
def test_reference_of_these_tests_agrees_with_the_table(case: Case) -> None:
    stop = [case.stop] if isinstance(case.stop, str) else case.stop
    result = streamed(tokens_in(case.tokens), stop=stop, include_stop=case.include)
    assert [text_of(pieces) for pieces in result.steps] == texts_in(case.texts)
    assert (result.stopped, result.text_after_stop) == (case.stopped, case.text_after_stop)


# Against the reference, all features together


def text_of(pieces: list[Shown]) -> str:
    return "".join(text for text, _ in pieces)


class Setting(NamedTuple):
    tokens: list[bytes]  # empty bytes stand for the special token
    unknown: list[int]  # the indices of tokens behind an unknown id
    skip: bool
    errors: str
    stop: list[str]
    tags: list[str]
    include_stop: bool
    min_tokens: int
    armed: list[bool]
    sizes: list[int]
    moved: list[int]  # the steps before which `move` replaces the stream


@st.composite
def settings_of_all_kinds(draw: st.DrawFn, errors: tuple[str, ...] = ERRORS) -> Setting:
    """Draw tokens, and stops and tags that are often in their text."""
    tokens = draw(
        st.one_of(
            tokens_of_all_kinds,
            st.lists(st.text("ab<>é🙂", max_size=3).map(str.encode), max_size=20),
        )
    )
    skip = draw(st.booleans())
    text = b"".join(bytes_of(tokens, skip)).decode("utf-8", "replace")
    strings = st.one_of(
        st.text("ab<>é🙂\ufffd", min_size=1, max_size=4),
        st.tuples(st.integers(0, len(text)), st.integers(1, 4))
        .map(lambda position: text[position[0] : sum(position)])
        .filter(bool),
    )
    switches = draw(st.lists(st.integers(0, len(tokens)), max_size=3))
    return Setting(
        tokens,
        draw(st.lists(st.integers(0, len(tokens)), max_size=2)),
        skip,
        draw(st.sampled_from(errors)),
        draw(st.lists(strings, max_size=4)),
        draw(st.lists(strings, max_size=3)),
        draw(st.booleans()),
        draw(st.one_of(st.just(0), st.integers(0, len(tokens) + 1))),
        [sum(step >= switch for switch in switches) % 2 == 0 for step in range(len(tokens) + 1)],
        draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)),
        draw(st.lists(st.integers(0, len(tokens)), max_size=3)),
    )


def expected_of(setting: Setting) -> Streamed:
    return streamed(
        bytes_of(setting.tokens, setting.skip),
        errors=setting.errors,
        stop=setting.stop,
        tags=[tag for tag in setting.tags if tag not in setting.stop],
        include_stop=setting.include_stop,
        min_tokens=setting.min_tokens,
        armed=setting.armed,
    )


def opened_of(setting: Setting) -> tuple[DecodeStream, list[int]]:
    tokenizer = tokenizer_of(setting.tokens)
    stream = tokenizer.decode_stream(
        errors=setting.errors,
        skip_special_tokens=setting.skip,
        stop=setting.stop,
        include_stop=setting.include_stop,
        min_tokens=setting.min_tokens,
        tags=[tag for tag in setting.tags if tag not in setting.stop],
    )
    return stream, ids_of(tokenizer, setting.tokens)


def shown_of(events: Sequence[str]) -> list[Shown]:
    return [(str(event), isinstance(event, Tag)) for event in events]


def outcome_of(
    setting: Setting, move: Callable[[DecodeStream], DecodeStream] = lambda stream: stream
) -> Streamed:
    """Return the results of a stream; `move` replaces it before some steps."""
    stream, ids = opened_of(setting)
    steps: list[list[Shown]] = []
    try:
        for step, armed in enumerate(setting.armed):
            stream.resume_stops() if armed else stream.pause_stops()
            if step in setting.moved:
                stream = move(stream)
            events = stream.flush_events() if step == len(ids) else stream.step_events(ids[step])
            steps.append(shown_of(events))
    except DecodeStreamError as error:
        return Streamed(steps, None, "", error.index, error.text)
    assert not isinstance(stream.stop_reason, int)
    return Streamed(steps, stream.stop_reason, stream.text_after_stop)


@given(settings_of_all_kinds())
def test_steps_are_what_the_whole_text_shows(setting: Setting) -> None:
    assert outcome_of(setting) == expected_of(setting)


MOVES: dict[str, Callable[[DecodeStream], DecodeStream]] = {
    "a copy": copy.copy,
    "pickled": lambda stream: pickle.loads(pickle.dumps(stream)),
    "its state": lambda stream: DecodeStream.from_state(
        Twin(stream), json.loads(json.dumps(stream.to_state()))
    ),
    "taken back": lambda stream: taken_back(stream),
}


class Twin(MakesStreams):
    """Makes streams over the vocabulary of another stream."""

    def __init__(self, stream: DecodeStream) -> None:
        self._token_source = stream._source


def taken_back(stream: DecodeStream) -> DecodeStream:
    """Return a copy of a stream from before some steps."""
    before = stream.copy()
    try:
        for id in [97, 0xF0, 60, END_ID]:
            stream.step(id)
        stream.flush()
        stream.pause_stops()
    except (DecodeStreamError, ValueError):
        pass
    return before


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
@few_examples
@given(setting=settings_of_all_kinds())
def test_a_stream_goes_on_the_same_anywhere(
    move: Callable[[DecodeStream], DecodeStream], setting: Setting
) -> None:
    assert outcome_of(setting, move) == outcome_of(setting)


@few_examples
@given(settings_of_all_kinds(LENIENT))
def test_several_ids_are_as_many_steps(setting: Setting) -> None:
    one, ids = opened_of(setting)
    other, others = opened_of(setting)[0], opened_of(setting)[0]
    bounds = [0, *accumulate(setting.sizes * len(ids))]
    groups = [ids[begin:end] for begin, end in pairwise(bounds)]
    expected = ["".join(map(one.step, group)) for group in groups]
    assert [*map(other.step, groups), other.flush()] == [*expected, one.flush()]
    tokens = [token for group in groups for token in others.step_tokens(group)]
    assert "".join(token.text for token in tokens) == "".join(expected)
    assert (other.stop_reason, other.text_after_stop) == (one.stop_reason, one.text_after_stop)


@given(settings_of_all_kinds(), tokens_of_all_kinds, st.integers(0, 20))
def test_a_prompt_and_a_stop_id_bound_the_text_that_is_looked_at(
    setting: Setting, prompt: list[bytes], count: int
) -> None:
    tokenizer = tokenizer_of(prompt + setting.tokens)
    stop_id = tokenizer.n_vocab
    tags = [tag for tag in setting.tags if tag not in setting.stop]
    options: dict[str, Any] = {
        "errors": setting.errors, "stop": setting.stop, "tags": tags,
        "include_stop": setting.include_stop,
    }  # fmt: skip
    stream = tokenizer.decode_stream(
        ids_of(tokenizer, prompt), skip_special_tokens=setting.skip, stop_ids=stop_id, **options
    )
    ids = ids_of(tokenizer, setting.tokens)
    ids.insert(count := min(count, len(ids)), stop_id)
    steps: list[list[Shown]] = []
    error = None
    try:
        steps.extend(shown_of(stream.step_events(id)) for id in ids)
        reason = stream.stop_reason
        steps.append(shown_of(stream.flush_events()))
    except DecodeStreamError as caught:
        error = caught.index
    # An unfinished character of the prompt acts like a first token. No text follows the stop id.
    before = unfinished(b"".join(bytes_of(prompt, setting.skip)))
    shown = [before, *bytes_of(setting.tokens[:count], setting.skip)]
    result = streamed(shown, **options)
    _, *expected = result.steps
    if result.error is not None:
        at_the_end = result.error == len(
            shown
        )  # the stop id counts as a token, the prompt does not
        assert error == (result.error if at_the_end else result.error - 1)
        assert steps[: len(expected)] == expected
    else:
        flushed = expected.pop()
        assert steps == [*expected, *([] for _ in ids[count:]), flushed]
        assert stream.stop_reason == reason
        assert reason in (stop_id, result.stopped)


@given(settings_of_all_kinds(LENIENT))
def test_skipped_unknown_ids_are_tokens_without_bytes(setting: Setting) -> None:
    tokenizer = tokenizer_of(setting.tokens)
    ids = ids_of(tokenizer, setting.tokens)
    options: dict[str, Any] = {"stop": setting.stop, "min_tokens": setting.min_tokens}
    stream = tokenizer.decode_stream(unknown="skip", errors=setting.errors, **options)
    shown = [token or END.encode() for token in setting.tokens]
    for position in sorted(setting.unknown, reverse=True):
        ids.insert(position, tokenizer.n_vocab + position)
        shown.insert(position, b"")
    result = streamed(shown, errors=setting.errors, **options)
    texts = [*map(stream.step, ids), stream.flush()]
    assert texts == [text_of(pieces) for pieces in result.steps]
    assert stream.stop_reason == result.stopped


@given(settings_of_all_kinds(LENIENT))
def test_offsets_are_the_place_of_what_is_returned(setting: Setting) -> None:
    stream, ids = opened_of(setting)
    tokens = stream.step_tokens(ids)
    text = "".join(token.text for token in tokens)
    shown = bytes_of(setting.tokens, setting.skip)
    assert [(token.id, token.bytes) for token in tokens] == [*zip(ids, shown, strict=True)]
    assert [text[token.start : token.end] for token in tokens] == [token.text for token in tokens]
    assert [token.start for token in tokens] == [0, *(token.end for token in tokens)][: len(ids)]


# Withheld text, and the cost of a step


@pytest.mark.parametrize(("count", "withheld"), [(1, "a"), (2, "aa"), (3, "aa"), (100_000, "aa")])
def test_no_more_is_held_than_a_beginning(count: int, withheld: str) -> None:
    stream = BYTES.decode_stream(stop="aab")
    text = "".join(stream.step(97) for _ in range(count))
    assert (len(text), stream.withheld) == (count - len(withheld), withheld)


def test_held_text_is_the_longest_beginning_of_any() -> None:
    stream = BYTES.decode_stream(stop=["abc", "bcd!"], tags=["cde"])
    shown = [(stream.step(id), stream.withheld) for id in b"abxbcx"]
    assert shown == [("", "a"), ("", "ab"), ("abx", ""), ("", "b"), ("", "bc"), ("bcx", "")]


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


# min_tokens


@pytest.mark.parametrize(
    ("min_tokens", "texts", "stopped"),
    [
        (0, ["", "", "", ""], "ab"),
        (1, ["", "", "", ""], "ab"),
        (2, ["", "ab", "", ""], "ab"),
        (3, ["", "ab", "", ""], "ab"),
        (4, ["", "ab", "", "ab"], None),
    ],
)
def test_a_stop_that_ends_with_the_first_tokens_is_passed_over(
    min_tokens: int, texts: list[str], stopped: str | None
) -> None:
    stream = BYTES.decode_stream(stop="ab", min_tokens=min_tokens)
    assert ([stream.step(id) for id in b"abab"], stream.stop_reason) == (texts, stopped)


def test_a_stop_may_begin_in_the_first_tokens() -> None:
    stream = BYTES.decode_stream(stop="ab", min_tokens=1)
    assert ([stream.step(id) for id in b"ab"], stream.stop_reason) == (["", ""], "ab")


def test_a_stop_that_flush_finds_ends_with_the_last_token() -> None:
    flushed = []
    for min_tokens in (1, 2):
        stream = BYTES.decode_stream(stop="x\ufffd", min_tokens=min_tokens)
        stream.step([120, 0xC3])
        flushed.append((stream.flush(), stream.stop_reason))
    assert flushed == [("", "x\ufffd"), ("x\ufffd", None)]


def test_a_stop_never_begins_in_the_prompt() -> None:
    stream = BYTES.decode_stream(list(b"EN"), stop="END")
    assert (stream.step(list(b"D")), stream.stop_reason) == ("D", None)


def test_a_character_that_the_prompt_began_is_text() -> None:
    stream = BYTES.decode_stream([0xC3], stop="é!")
    assert (stream.step([0xA9, 33]), stream.stop_reason) == ("", "é!")


# Stop ids


def test_a_stop_id_ends_the_stream_and_has_no_text() -> None:
    stream = BYTES.decode_stream(stop_ids=[END_ID])
    texts = [stream.step(id) for id in (97, END_ID, 98)]
    assert (texts, stream.stop_reason, stream.text_after_stop) == (["a", "", ""], END_ID, "")


@pytest.mark.parametrize(
    ("options", "withheld"), [({}, REPLACED), ({"stop": "END"}, "EN" + REPLACED)]
)
def test_what_is_held_at_a_stop_id_is_released_by_flush(
    options: dict[str, Any], withheld: str
) -> None:
    stream = BYTES.decode_stream(stop_ids=END_ID, **options)
    before = stream.step([*b"EN", 0xF0, END_ID])
    assert [before + stream.flush(), stream.flush()] == ["EN" + REPLACED, ""]
    assert stream.stop_reason == END_ID
    assert withheld.endswith(REPLACED)


def test_a_stop_id_may_be_one_that_the_vocabulary_lacks() -> None:
    stream = BYTES.decode_stream(stop_ids=[500])
    assert ([stream.step(id) for id in (97, 500, 98)], stream.stop_reason) == (["a", "", ""], 500)


def test_a_stop_id_among_the_first_tokens_is_passed_over() -> None:
    stream = BYTES.decode_stream(stop_ids=[END_ID], min_tokens=1)
    texts = [stream.step(id) for id in (END_ID, 97, END_ID)]
    assert (texts, stream.stop_reason) == (["", "a", ""], END_ID)


def test_streams_with_other_stop_ids_do_not_disturb_each_other() -> None:
    one, other = BYTES.decode_stream(stop_ids=[98]), BYTES.decode_stream(stop_ids=[99])
    texts = [(one.step(id), other.step(id)) for id in b"abc"]
    assert texts == [("a", "a"), ("", "b"), ("", "")]


# After a stop


@pytest.mark.parametrize("stop", [{"stop": "!"}, {"stop_ids": 33}], ids=["string", "id"])
@pytest.mark.parametrize(
    "use",
    [
        lambda stream: stream.step(97),
        lambda stream: stream.step([97, 98]),
        lambda stream: stream.step(500),
        lambda stream: stream.step_events(97),
        lambda stream: stream.step_tokens(97),
        lambda stream: stream.flush(),
        lambda stream: stream.resume_stops(),
        lambda stream: stream.pause_stops(),
    ],
)
def test_nothing_changes_after_a_stop(
    use: Callable[[DecodeStream], object], stop: dict[str, Any]
) -> None:
    stream = BYTES.decode_stream(**stop)
    stream.step([97, 33])
    before = stream.to_state(), stream.stop_reason, stream.text_after_stop
    assert use(stream) in ("", [], None, [TokenText(97, b"a", 1, 1, "")])
    stream.resume_stops()
    assert (stream.to_state(), stream.stop_reason, stream.text_after_stop) == before


def test_reset_makes_a_stopped_stream_usable() -> None:
    stream = BYTES.decode_stream(stop="!")
    stream.step(list(b"a!b"))
    stream.reset()
    assert (stream.step(list(b"c!d")), stream.stop_reason, stream.text_after_stop) == ("c", "!", "")


# Stops that are paused


def test_paused_stops_are_not_looked_for() -> None:
    stream = BYTES.decode_stream(stop="END")
    stream.pause_stops()
    thought = [stream.step(id) for id in b"END"]
    stream.resume_stops()
    answer = [stream.step(id) for id in b"aEND"]
    assert (thought, answer, stream.stop_reason) == (["E", "N", "D"], ["a", "", "", ""], "END")


def test_withheld_text_comes_with_the_step_after_a_pause() -> None:
    stream = BYTES.decode_stream(stop="END")
    stream.step(list(b"EN"))
    stream.pause_stops()
    assert (stream.withheld, stream.step(68), stream.stop_reason) == ("EN", "END", None)


def test_withheld_text_comes_with_flush_after_a_pause() -> None:
    stream = BYTES.decode_stream(stop="END")
    stream.step(list(b"EN"))
    stream.pause_stops()
    assert stream.flush() == "EN"


def test_a_stop_does_not_begin_before_stops_were_resumed() -> None:
    stream = BYTES.decode_stream(stop="END")
    stream.pause_stops()
    stream.step(list(b"EN"))
    stream.resume_stops()
    assert (stream.step(68), stream.stop_reason) == ("D", None)


def test_stops_paused_tells_whether_stops_are_paused() -> None:
    stream = BYTES.decode_stream(stop="END")
    shown = [stream.stops_paused]
    for change in (stream.pause_stops, stream.resume_stops, stream.pause_stops, stream.reset):
        change()
        shown.append(stream.stops_paused)
    assert shown == [False, True, False, True, False]
    assert BYTES.decode_stream().stops_paused is False


def test_tags_are_told_while_stops_are_paused() -> None:
    stream = BYTES.decode_stream(stop="END", tags=["<t>"])
    stream.pause_stops()
    assert stream.step_events(list(b"a<t>END")) == ["a", Tag("<t>"), "END"]


# Tags


def test_a_server_routes_reasoning_and_answer() -> None:
    stream = BYTES.decode_stream(tags=["<think>", "</think>"], stop="\n\n")
    routed: dict[str, str] = {"": "", "<think>": "", "</think>": ""}
    part = ""
    for id in b"<think>one\n\ntwo</think>three\n\nfour":
        for event in stream.step_events(id):
            match event:
                case Tag():
                    part = event
                    stream.pause_stops() if part == "<think>" else stream.resume_stops()
                case text:
                    routed[part] += text
    assert routed == {"": "", "<think>": "one\n\ntwo", "</think>": "three"}
    assert (stream.stop_reason, stream.text_after_stop) == ("\n\n", "")


@pytest.mark.parametrize(
    ("tokens", "events"),
    [
        ("a<b | >c", [["a"], [Tag("<b>"), "c"], []]),
        ("a< | b | c>", [["a"], [], ["<bc>"], []]),
        ("<b", [[], ["<b"]]),
        ("<<b>>", [["<", Tag("<b>"), ">"], []]),
        ("<b><b>", [[Tag("<b>"), Tag("<b>")], []]),
        ("0xC33C | b>", [[REPLACED], [Tag("<b>")], []]),
        ("<b>END!", [[Tag("<b>")], []]),
    ],
)
def test_tags_are_events_between_text(tokens: str, events: list[list[str]]) -> None:
    some = tokens_in(tokens)
    tokenizer = tokenizer_of(some)
    stream = tokenizer.decode_stream(tags=["<b>"], stop="END")
    shown = [stream.step_events(id) for id in ids_of(tokenizer, some)]
    shown.append(stream.flush_events())
    assert [[(type(event), event) for event in step] for step in shown] == [
        [(type(event), event) for event in step] for step in events
    ]


def test_a_tag_in_a_step_is_text_that_is_never_cut() -> None:
    stream = BYTES.decode_stream(tags="<b>")
    assert [stream.step(id) for id in b"a<b>c"] == ["a", "", "", "<b>", "c"]


def test_of_a_stop_and_a_tag_that_are_the_same_the_stop_is_found() -> None:
    stream = BYTES.decode_stream(tags="<b>", stop="<b>")
    assert (stream.step_events(list(b"a<b>c")), stream.stop_reason) == (["a"], "<b>")


def test_a_special_token_that_is_kept_may_be_a_tag() -> None:
    stream = BYTES.decode_stream(tags=[END])
    assert stream.step_events([97, END_ID, 98]) == ["a", Tag(END), "b"]


def test_a_tag_shows_what_it_is() -> None:
    assert [repr(Tag("<b>")), str(Tag("<b>")), f"{Tag('<b>')}"] == ["Tag('<b>')", "<b>", "<b>"]


# Offsets


def offsets(tokens: Sequence[TokenText]) -> list[tuple[int, int]]:
    return [(token.start, token.end) for token in tokens]


def test_a_character_belongs_to_the_token_that_completes_it() -> None:
    stream = BYTES.decode_stream()
    assert offsets(stream.step_tokens(list("a🙂b".encode()))) == [
        (0, 1), (1, 1), (1, 1), (1, 1), (1, 2), (2, 3),
    ]  # fmt: skip


def test_offsets_go_on_from_step_to_step() -> None:
    stream = BYTES.decode_stream()
    assert offsets([*stream.step_tokens(97), *stream.step_tokens([98, 99])]) == [
        (0, 1), (1, 2), (2, 3),
    ]  # fmt: skip


def test_offsets_count_from_the_prompts_end() -> None:
    stream = BYTES.decode_stream(list("Hi é".encode())[:-1])
    assert stream.step_tokens(0xA9) == [TokenText(0xA9, b"\xa9", 0, 1, "é")]


@pytest.mark.parametrize("options", [{"skip_special_tokens": True}, {"stop_ids": END_ID}])
def test_specials_that_are_skipped_and_stop_ids_have_no_width(options: dict[str, Any]) -> None:
    stream = BYTES.decode_stream(**options)
    assert offsets(stream.step_tokens([97, END_ID])) == [(0, 1), (1, 1)]


def test_what_a_stop_removes_has_no_width() -> None:
    stream = BYTES.decode_stream(stop="END")
    tokens = [token for id in b"aENDb" for token in stream.step_tokens(id)]
    assert offsets(tokens) == [(0, 1), (1, 1), (1, 1), (1, 1), (1, 1)]
    assert [token.bytes for token in tokens] == [b"a", b"E", b"N", b"D", b"b"]


def test_an_unknown_id_that_is_skipped_has_no_bytes() -> None:
    stream = BYTES.decode_stream(unknown="skip")
    assert stream.step_tokens([500]) == [TokenText(500, b"", 0, 0, "")]


@pytest.mark.parametrize("options", [{}, {"unknown": "skip"}])
def test_steps_that_were_not_counted_are_told(options: dict[str, Any]) -> None:
    stream = BYTES.decode_stream(**options)
    stream.step(97)
    with pytest.raises(ValueError, match=r"step_tokens\(\[\]\)"):
        stream.step_tokens(98)
    stream.reset()
    assert offsets(stream.step_tokens(98)) == [(0, 1)]


def test_a_stream_counts_all_steps_from_step_tokens_on() -> None:
    stream = BYTES.decode_stream()
    step = stream.step
    stream.step_tokens([])
    assert step([97, 98]) + step(99) == "abc"
    assert offsets(stream.step_tokens(100)) == [(3, 4)]


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


@pytest.mark.parametrize("name", ["stop", "stop_ids", "tags"])
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
