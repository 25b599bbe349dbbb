"""A `Prompt`: its ids equal the ids of one encode, and each call returns the change."""

from __future__ import annotations

import pickle
import time
from array import array
from random import Random
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import randoms
from support.prompts import (
    BLOCK_CHARACTERS,
    EDITS_OF_A_PROMPT,
    NAMES,
    REAL,
    Editor,
    Followed,
    tokenizer_of,
)
from support.times import best_time

from bpetite import Change, Prompt, Tokenizer, Trusted
from conftest import TEXTS

AB = Tokenizer.train("ab ab ab", 258, special_tokens=["<|a|>", "<|a|>b"])


def parts(change: Change) -> tuple[int, list[int]]:
    return change.first_changed, change.new_ids.tolist()


# What a change tells


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        ("", "", (0, [])),
        ("ab ab", "ab ab", (2, [])),
        ("ab ab", "ab ab ab", (2, [257])),
        ("ab ab", "ab", (1, [])),
        ("ab ab", "ab  ab", (1, [32, 257])),
        ("ab ab", "ab a", (1, [32, 97])),
        ("ab ab ab", "ab ab", (2, [])),
        ("x ab ab", "ab ab", (0, [256, 257])),
        ("<|a|>ab", "<|a|>b", (0, [259])),
        ("ab", "", (0, [])),
    ],
)
def test_a_change_is_the_first_changed_index_and_the_ids_after(
    old: str, new: str, change: tuple[int, list[int]]
) -> None:
    prompt = AB.prompt()
    prompt.set(old)
    assert parts(prompt.set(new)) == change
    assert prompt.ids() == AB.encode(new)


def test_ids_after_a_change_share_memory_with_arrays() -> None:
    change = AB.prompt().append("ab ab")
    assert (change.new_ids.format, change.new_ids.readonly) == ("I", False)
    assert array("I", change.new_ids) == array("I", [256, 257])


def test_a_literal_may_span_texts_but_not_segments() -> None:
    prompt = AB.prompt()
    assert parts(prompt.append("ab<|a")) == (0, AB.encode("ab<|a"))
    assert parts(prompt.append("|>")) == (1, [258])
    assert parts(prompt.append("b")) == (1, [259])
    apart = [Trusted("ab<|a"), Trusted("|>"), "<|a|>"]
    prompt.set(apart)
    assert prompt.ids() == AB.encode("ab<|a|><|a|>", allowed_special=())
    prompt.append("<|a|>")
    assert prompt.ids()[-1] == 258
    prompt.append("b")  # it goes on with the text before
    assert prompt.ids()[-1] == 259


# The ids


def test_trust_stays_where_it_was_when_blocks_are_joined() -> None:
    prompt = AB.prompt()
    for added in ([Trusted(" "), "|xx"], [Trusted("x"), "<|a"], "|>"):
        prompt.append(added)
    segments = [Trusted(" "), "|xx", Trusted("x"), "<|a", Trusted("|>")]
    assert prompt.ids() == AB.encode_parts(segments)[0]


def test_many_edits_leave_few_blocks(tokenizer: Tokenizer) -> None:
    """A block has 8,192 characters, and the sizes of shorter ones at least halve."""
    prompt = tokenizer.prompt()
    for _ in range(10_000):
        prompt.append("it is so ")
    assert len(prompt._state[0]) < 30
    text, rng = prompt.text, Random(1)
    for _ in range(500):
        at = rng.randrange(len(text))
        text = text[:at] + rng.choice(["", " so", "it " * 20]) + text[at + rng.randrange(40) :]
        prompt.set(text)
    assert len(prompt._state[0]) < 60
    assert prompt.ids() == tokenizer.encode(text)


def test_ids_in_an_array(tokenizer: Tokenizer) -> None:
    prompt = tokenizer.prompt()
    prompt.set("it is so")
    ids = tokenizer.encode("it is so")
    assert [prompt.ids(dtype).tolist() for dtype in ("uint16", "uint32")] == [ids, ids]
    prompt.ids("uint32")[0] = 7  # a new buffer
    assert prompt.ids() == ids
    with pytest.raises(ValueError, match="dtype"):
        prompt.ids("int8")  # type: ignore[call-overload]


def test_text_in_bytes(tokenizer: Tokenizer) -> None:
    prompt = tokenizer.prompt()
    prompt.append("né".encode())
    prompt.set(memoryview("né so".encode()))
    assert (prompt.text, prompt.ids()) == ("né so", tokenizer.encode("né so"))
    with pytest.raises(UnicodeDecodeError):
        prompt.append(b"\xff")
    assert prompt.text == "né so"


@given(st.sampled_from(NAMES), st.sampled_from(BLOCK_CHARACTERS), randoms)
def test_edits_are_one_encode(name: str, size: int, rng: Random) -> None:
    """`scripts/fuzz prompts` makes more, with the public vocabularies too."""
    with mock.patch("bpetite._streaming.prompt._BLOCK_CHARACTERS", size):
        tokenizer = tokenizer_of(name)
        editor = Editor(rng, [*TEXTS.values(), *REAL], Followed(tokenizer, tokenizer.prompt()))
        for _ in range(EDITS_OF_A_PROMPT):
            fault = editor.fault()
            assert fault is None, fault


# Errors


def test_an_error_has_its_position_in_the_given_text(tokenizer: Tokenizer) -> None:
    prompt = tokenizer.prompt()
    prompt.set("it is " * 3000)
    ids = prompt.ids()
    with pytest.raises(UnicodeEncodeError) as caught:
        prompt.append("so \ud800")
    assert caught.value.start == 3
    with pytest.raises(UnicodeEncodeError) as caught:
        prompt.set("it is " * 2999 + "\ud800")
    assert caught.value.start == 6 * 2999
    with pytest.raises(UnicodeEncodeError) as caught:
        prompt.set(["it is " * 2999, "so \ud800"])
    assert (caught.value.start, caught.value.__notes__) == (3, ["in part 1"])
    assert prompt.ids() == ids


def test_values_of_wrong_types_are_refused(tokenizer: Tokenizer) -> None:
    prompt = tokenizer.prompt()
    for wrong in (None, 1):
        with pytest.raises(TypeError, match="text must be a str or bytes-like, got"):
            prompt.set(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a part must be a str, got int"):
        prompt.append(["a", 1])  # type: ignore[list-item]
    with pytest.raises(TypeError, match=r"made by Tokenizer\.prompt"):
        Prompt(tokenizer)  # type: ignore[arg-type]


def test_an_interrupted_call_changes_nothing(tokenizer: Tokenizer) -> None:
    class Interrupted:
        def encode_array(self, *_: object) -> memoryview:
            raise KeyboardInterrupt

    prompt = tokenizer.prompt()
    prompt.set("it is")
    source = prompt._source
    prompt._source = source._replace(encoders=[Interrupted()] * 3)  # type: ignore[list-item]
    for call in (prompt.set, prompt.append):
        with pytest.raises(KeyboardInterrupt):
            call(" not a")
    prompt._source = source
    prompt.append(" so")
    assert prompt.ids() == tokenizer.encode("it is so")


# The object


def test_a_prompt_shows_the_number_of_its_ids() -> None:
    prompt = AB.prompt()
    shown = [repr(prompt)]
    for text in ("ab", "ab ab"):
        prompt.set(text)
        shown.append(repr(prompt))
    assert shown == ["<Prompt: 0 ids>", "<Prompt: 1 id>", "<Prompt: 2 ids>"]


def test_branches_share_their_beginning(tokenizer: Tokenizer) -> None:
    prompt = tokenizer.prompt()
    prompt.set("it is so " * 10_000)
    branches = [prompt.copy() for _ in range(50)]
    for number, branch in enumerate(branches):
        branch.append(f" branch {number}")
    shared = {*map(id, prompt._state[0])}
    own = [sum(len(b.text) for b in each._state[0] if id(b) not in shared) for each in branches]
    assert max(own) < 50
    assert branches[7].text == prompt.text + " branch 7"


def test_prompts_pickled_together_share_their_tokenizer(tokenizer: Tokenizer) -> None:
    prompts = [tokenizer.prompt() for _ in range(2)]
    for prompt in prompts:
        prompt.set([Trusted("it is"), " so"])
    found: Any = pickle.loads(pickle.dumps([tokenizer, *prompts]))
    assert [each._source.make.func.__self__ is found[0] for each in found[1:]] == [True, True]
    assert found[1].append(" it").first_changed == len(prompts[0])


# Costs


def test_an_append_costs_no_more_after_a_long_text(tokenizer: Tokenizer) -> None:
    def seconds_after(repeats: int) -> float:
        prompt = tokenizer.prompt()
        prompt.set(TEXTS["english"] * repeats)

        def seconds() -> float:
            copies = [prompt.copy() for _ in range(100)]
            start = time.process_time()
            for each in copies:
                each.append(" it is so")
            return time.process_time() - start

        return best_time(seconds, 0)

    assert seconds_after(20_000) <= 4 * seconds_after(20)
