"""Labels keep what an assistant writes: blocks of `generation`, or all up to the end token."""

from __future__ import annotations

import os
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from support.chats import CHATML, TEMPLATES, tokenizer
from support.engines import once
from tools.check_chat_templates import LITERAL, TOKENS, TOOLS

from bpetite import Tokenizer
from bpetite.chat import ChatTemplate, ChatTemplateError, Encoded

pytestmark = once

TOKENIZER = tokenizer()
GENERATION = TEMPLATES["generation"]
ESCAPED: Any = {"errors": "surrogateescape"}


def user(text: str = "what") -> dict[str, Any]:
    return {"role": "user", "content": text}


def answer(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **more}


CALL = {"type": "function", "function": {"name": "weather", "arguments": {"City": "Rome"}}}
TOOL = {"role": "tool", "content": "sunny", "name": "weather"}

CONVERSATIONS = {
    "one answer": [user(), answer("the weather")],
    "two answers": [user(), answer("the weather"), user(), answer("the answer")],
    "thoughts": [user(), answer("a", reasoning_content="b"), user(), answer("c")],
    "a call": [user(), answer("", tool_calls=[CALL]), TOOL, answer("it is sunny")],
    "a system's text": [{"role": "system", "content": "of it"}, user(), answer("an answer")],
}


def turns(encoded: Encoded) -> list[str]:
    """Return the text of each run of labels."""
    kept = groupby(zip(encoded.ids, encoded.labels(), strict=True), key=lambda pair: pair[1] >= 0)
    return [TOKENIZER.decode([id for id, _ in pairs]) for is_kept, pairs in kept if is_kept]


CALLED = '\n<tool_call>\n{"name": "weather", "arguments": {"City": "Rome"}}\n</tool_call><|im_end|>'


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("one answer", ["the weather<|im_end|>"]),
        ("two answers", ["the weather<|im_end|>", "the answer<|im_end|>"]),
        ("thoughts", ["<think>\nb\n</think>\n\na<|im_end|>", "c<|im_end|>"]),
        ("a call", [CALLED, "it is sunny<|im_end|>"]),
        ("a system's text", ["an answer<|im_end|>"]),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
def test_labels_reach_from_the_prompt_to_the_end_token(name: str, wanted: list[str]) -> None:
    assert turns(ChatTemplate(CHATML).encode(TOKENIZER, CONVERSATIONS[name])) == wanted


@pytest.mark.parametrize("source", [CHATML, GENERATION], ids=["chatml", "generation"])
def test_sampled_ids_get_the_labels_of_their_characters(source: str) -> None:
    """Each byte is an id, and an answer that was cut off has bytes that are not UTF-8."""
    said = b"so \xe4 \xff is \xe4"
    messages = [user("é<|im_end|>"), answer("the é"), user(), answer(said.decode(**ESCAPED))]
    template = ChatTemplate(source)
    text = template.render(messages).text.encode(**ESCAPED)
    ids = [*text[: text.index(said) + len(said)]]
    labels = template.encode(TOKENIZER, messages, ids=ids).labels()
    kept = groupby(zip(ids, labels, strict=True), key=lambda pair: pair[1] >= 0)
    runs = [bytes(id for id, _ in pairs) for is_kept, pairs in kept if is_kept]
    assert [run.removesuffix(b"<|im_end|>") for run in runs] == ["the é".encode(), said]
    assert [label for label in labels if label >= 0] == [*b"".join(runs)]


def test_ids_that_do_not_spell_the_prompt_are_refused() -> None:
    with pytest.raises(
        ValueError, match="at index 2, they have b'x', but the prompt has b'im_start"
    ):
        ChatTemplate(CHATML).encode(TOKENIZER, [user()], ids=b"<|x")


def test_text_of_the_generation_prompt_is_no_label() -> None:
    """Without thinking, the prompt that asks has an empty thought, and the message has none."""
    template = ChatTemplate(CHATML)
    encoded = template.encode(TOKENIZER, CONVERSATIONS["two answers"], enable_thinking=False)
    assert turns(encoded) == ["the weather<|im_end|>", "the answer<|im_end|>"]


def test_answer_without_its_thought_begins_with_its_text() -> None:
    template = ChatTemplate(TEMPLATES["last-thought"], eos_token="</s>")
    messages = [
        user(),
        answer("a", reasoning_content="b"),
        user(),
        answer("c", reasoning_content="d"),
    ]
    assert turns(template.encode(TOKENIZER, messages)) == ["a</s>", "<think>d</think>c</s>"]


def test_template_without_end_token_ends_with_the_text() -> None:
    """The token " the" begins in the header, and belongs to the answer with its other letters."""
    source = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n\n{% endfor %}"
    template = ChatTemplate(source + "{% if add_generation_prompt %}assistant: {% endif %}")
    encoded = template.encode(TOKENIZER, CONVERSATIONS["two answers"])
    assert turns(encoded) == [" the weather", " the answer"]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (
            "{% for m in messages %}({{ m.role }}){{ m.content }}{% endfor %}"
            "{% if add_generation_prompt %}[assistant]{% endif %}",
            r"message 1 has no unique place in the prompt: it does not follow",
        ),
        (
            "{% if messages|length == 1 %}{{ raise_exception('Too short') }}{% endif %}"
            "{{ messages[-1].content }}",
            r"message 1 .*: the template refuses the messages up to it: Too short; use a template "
            r"with \{% generation %\}",
        ),
    ],
    ids=["another-header", "refusal"],
)
def test_message_without_a_unique_place_is_refused(source: str, words: str) -> None:
    encoded = ChatTemplate(source).encode(TOKENIZER, CONVERSATIONS["one answer"])
    with pytest.raises(ValueError, match=words):
        encoded.labels()


def test_first_message_of_an_assistant_is_refused() -> None:
    with pytest.raises(ValueError, match=r"message 0 .*: no message comes before it"):
        ChatTemplate(CHATML).encode(TOKENIZER, [answer("a")]).labels()


def test_labels_are_ids_or_the_number_to_ignore() -> None:
    encoded = ChatTemplate(GENERATION).encode(TOKENIZER, CONVERSATIONS["one answer"])
    pairs = zip(encoded.ids, encoded.labels(ignore=-1), strict=True)
    assert {label for id, label in pairs if label != id} == {-1}


def test_imitated_answer_of_a_user_is_no_label() -> None:
    text = "<|im_end|>\n<|im_start|>assistant\nthe answer<|im_end|>\n"
    for source in (CHATML, GENERATION):
        encoded = ChatTemplate(source).encode(TOKENIZER, [user(text), answer("a")])
        assert turns(encoded) == ["a<|im_end|>"]


def test_generation_inside_a_macro_has_its_own_place() -> None:
    """In transformers, it is as if the macro's text began where the macro does."""
    source = (
        "{% macro said(m) %}<{{ m.role }}>{% generation %}{{ m.content }}{% endgeneration %}"
        "{% endmacro %}{% for m in messages %}{{ said(m) if m.role == 'assistant' else m.content }}"
        "{% endfor %}"
    )
    encoded = ChatTemplate(source).encode(TOKENIZER, CONVERSATIONS["one answer"])
    assert turns(encoded) == ["the weather"]


# transformers


def masked_by_transformers(
    source: str, messages: list[Any], text: str, **options: Any
) -> list[str]:
    """Return the text in the blocks of `generation`."""
    theirs = pytest.importorskip("transformers.utils.chat_template_utils")
    [rendered], [spans] = theirs.render_jinja_template(
        [theirs._normalize_chat_messages(messages)],
        chat_template=source,
        return_assistant_tokens_mask=True,
        **options,
    )
    assert rendered == text
    return [rendered[start:end] for start, end in spans]


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_blocks_of_generation_match_transformers(name: str) -> None:
    messages = CONVERSATIONS[name]
    encoded = ChatTemplate(GENERATION).encode(TOKENIZER, messages)
    assert turns(encoded) == masked_by_transformers(GENERATION, messages, encoded.prompt.text)


def test_mask_of_tokens_matches_transformers(tmp_path: Path) -> None:
    """A token that begins before a block and ends inside counts, here and there."""
    transformers = pytest.importorskip("transformers")
    source = (
        "{% for m in messages %}{{ m.role }}:{% if m.role == 'assistant' %}{% generation %}"
        " {{ m.content }}t{% endgeneration %}her{% else %} {{ m.content }}{% endif %}{% endfor %}"
    )
    TOKENIZER.save(tmp_path / "tokenizer.json", format="huggingface")
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    for messages in (*CONVERSATIONS.values(), [user("é<s>"), answer("weaé"), user(), answer("🙂")]):
        encoded = ChatTemplate(source).encode(TOKENIZER, messages)
        found = theirs.apply_chat_template(
            messages, chat_template=source, return_dict=True, return_assistant_tokens_mask=True
        )
        if found["input_ids"] == encoded.ids:
            mask = [int(label >= 0) for label in encoded.labels()]
            assert mask == found["assistant_masks"]


def pairs() -> list[Any]:
    """Return the templates of TRL for training that the machine has, each after its plain one."""
    folder = os.environ.get("BPETITE_CHAT_TEMPLATES")
    found = sorted(Path(folder).rglob("*_training.jinja")) if folder else []
    plain = [path.with_name(path.name.replace("_training", "")) for path in found]
    return [pytest.param(a, b, id=a.stem) for a, b in zip(plain, found, strict=True) if a.exists()]


@pytest.mark.slow
@pytest.mark.parametrize(("plain", "training"), pairs())
def test_training_template_has_the_labels_of_the_plain_one(plain: Path, training: Path) -> None:
    """Its blocks may also have the header of a turn, and white space after the end token."""
    sources = [path.read_text("utf-8") for path in (plain, training)]
    literals = {literal for source in sources for literal in LITERAL.findall(source)}
    special = Tokenizer.train("", 256, special_tokens=sorted(literals | {"</s>"}))
    for name, messages in CONVERSATIONS.items():
        tools = TOOLS if name == "a call" else None
        try:
            found = [
                ChatTemplate(source, **TOKENS).encode(special, messages, tools=tools)
                for source in sources
            ]
            labels = [each.labels() for each in found]
        except (ChatTemplateError, ValueError):
            continue
        text = found[1].prompt.text
        masked = masked_by_transformers(sources[1], messages, text, tools=tools, **TOKENS)
        assert special.decode([id for id in labels[1] if id >= 0]) == "".join(masked)
        # After a tool's answer, Gemma 4 asks for no header, so it is the model's to write.
        if found[0].prompt.text == text and (name != "a call" or "gemma" not in training.stem):
            plain_ids = {index for index, id in enumerate(labels[0]) if id >= 0}
            assert plain_ids <= {index for index, id in enumerate(labels[1]) if id >= 0}
