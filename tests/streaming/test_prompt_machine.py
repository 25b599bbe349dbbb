"""Any use of a `Prompt`, compared after each call with one `encode` of the whole text."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
from fuzzing.prompts import Followed, Given
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)
from support.split_cases import TOKENIZERS, texts

from bpetite import Prompt, Tokenizer, Trusted

MOVES: list[Callable[[Prompt], Prompt]] = [
    Prompt.copy,
    copy.copy,
    copy.deepcopy,
    lambda prompt: pickle.loads(pickle.dumps(prompt)),
]

segments = st.lists(texts | texts.map(Trusted), max_size=5)
places = st.integers(0, 99)


class PromptMachine(RuleBasedStateMachine):
    """Prompts whose text changes anywhere, and which are copied."""

    prompts = Bundle("prompts")

    def __init__(self) -> None:
        super().__init__()
        self.patch: Any = None

    @initialize(
        target=prompts, name=st.sampled_from([*TOKENIZERS]), size=st.sampled_from([1, 9, 99])
    )
    def start(self, name: str, size: int) -> Followed:
        """Begin with small blocks, so that short texts have several."""
        self.patch = mock.patch("bpetite._streaming.prompt._BLOCK_CHARACTERS", size)
        self.patch.start()
        make, *arguments = TOKENIZERS[name]
        tokenizer: Tokenizer = make(*arguments)
        return Followed(tokenizer, tokenizer.prompt())

    def teardown(self) -> None:
        if self.patch:
            self.patch.stop()

    @rule(followed=prompts, added=texts | segments)
    def append(self, followed: Followed, added: Given) -> None:
        assert followed.append(added) is None

    @rule(followed=prompts, given=texts | segments)
    def set(self, followed: Followed, given: Given) -> None:
        assert followed.set(given) is None

    @rule(followed=prompts, start=places, size=st.integers(0, 20), text=texts)
    def edit(self, followed: Followed, start: int, size: int, text: str) -> None:
        """Replace some text, which is a segment of its own in segments."""
        whole = "".join(followed.given)
        start = min(start, len(whole))
        before, after = whole[:start], whole[start + size :]
        parts = [Trusted(before), text, Trusted(after)]
        given = before + text + after if isinstance(followed.given, str) else parts
        assert followed.set(given) is None

    @rule(followed=prompts, start=places, end=places, new=segments)
    def edit_segments(self, followed: Followed, start: int, end: int, new: list[str]) -> None:
        given = followed.segments
        assert followed.set([*given[:start], *new, *given[max(start, end) :]]) is None

    @rule(followed=prompts)
    def set_again(self, followed: Followed) -> None:
        """The same text changes nothing."""
        assert followed.prompt.set(followed.given).first_changed == len(followed.ids)

    @rule(followed=prompts, bad=texts.map(lambda text: text + "\ud800"), alone=st.booleans())
    def fail(self, followed: Followed, bad: str, alone: bool) -> None:
        """A text that is not Unicode changes nothing."""
        for call in (followed.prompt.set, followed.prompt.append):
            with pytest.raises(UnicodeEncodeError):
                call(bad if alone else ["a", bad])
        assert followed.append("") is None

    @rule(target=prompts, followed=prompts, move=st.sampled_from(MOVES))
    def copy(self, followed: Followed, move: Callable[[Prompt], Prompt]) -> Followed:
        """Go on with a copy too."""
        return replace(followed, prompt=move(followed.prompt))


def test_edits_are_one_encode() -> None:
    run_state_machine_as_test(
        PromptMachine,
        settings=settings(max_examples=settings().max_examples * 2, stateful_step_count=20),
    )
