"""`keeps_prefix` finds the conversation in which a template changes an earlier turn."""

from __future__ import annotations

from itertools import takewhile

import pytest
from support.engines import quick_once

from bpetite import Tokenizer
from bpetite.chat import ChatTemplate, ChatTemplateError, keeps_prefix

pytestmark = quick_once

TOKENIZER = Tokenizer.train("", 256, special_tokens=["<|im_start|>", "<|im_end|>"])

TURN = "<|im_start|>{{ m.role }}\n{{ body }}<|im_end|>\n"
ASK = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
REASONING = "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}"


def template(body: str, turn: str = TURN, ask: str = ASK) -> ChatTemplate:
    """Return a template that prints `body` of each message."""
    return ChatTemplate(
        f"{{% for m in messages %}}{{% set body %}}{body}{{% endset %}}{turn}{{% endfor %}}{ask}"
    )


def test_a_template_that_adds_turns_keeps_ids() -> None:
    assert keeps_prefix(template("{{ m.content }}"), TOKENIZER)
    assert keeps_prefix(template(REASONING + "{{ m.content }}"), TOKENIZER)


@pytest.mark.parametrize(
    ("body", "roles", "kept"),
    [
        pytest.param(
            "{% if loop.last %}" + REASONING + "{% endif %}{{ m.content }}",
            ["user", "assistant", "user"],
            "<|im_start|>user\nIs it cold?<|im_end|>\n<|im_start|>assistant\n",
            id="reasoning",
        ),
        pytest.param(
            "{{ m.content.split('</think>')[-1] if not loop.last else m.content }}",
            ["user", "assistant", "user"],
            "<|im_start|>user\nIs it cold?<|im_end|>\n<|im_start|>assistant\n",
            id="reasoning in the content",
        ),
        pytest.param(
            "{% if m.tool_calls and messages[-1].role != 'user' %}call{% endif %}{{ m.content }}",
            ["user", "assistant", "tool", "assistant", "user"],
            "<|im_start|>user\nIs it cold?<|im_end|>\n<|im_start|>assistant\n",
            id="calls of tools",
        ),
    ],
)
def test_a_forgetful_template_is_found(body: str, roles: list[str], kept: str) -> None:
    found = keeps_prefix(template(body), TOKENIZER)
    assert not found
    assert found.messages is not None
    assert found.prompts is not None
    assert [message["role"] for message in found.messages] == roles
    assert all(prompt.startswith(kept) for prompt in found.prompts)
    before, after = map(TOKENIZER.encode, found.prompts)
    same = [*takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False))]
    assert found.first_changed == len(same) < len(before)


def test_a_generation_prompt_that_no_answer_has_is_found() -> None:
    ask = ASK.replace("assistant\n", "assistant\n<think></think>")
    found = keeps_prefix(template("{{ m.content }}", ask=ask), TOKENIZER)
    assert found.messages is not None
    assert [message["role"] for message in found.messages] == ["user", "assistant"]


def test_options_reach_the_template() -> None:
    ask = ASK.replace("assistant\n", "assistant\n{% if shows_thoughts %}<think>{% endif %}")
    chosen = template("{{ m.content }}", ask=ask)
    assert keeps_prefix(chosen, TOKENIZER)
    assert not keeps_prefix(chosen, TOKENIZER, shows_thoughts=True)


def test_a_template_that_refuses_all_conversations_raises() -> None:
    with pytest.raises(ChatTemplateError, match="no chat"):
        keeps_prefix(template("{{ raise_exception('no chat') }}"), TOKENIZER)
