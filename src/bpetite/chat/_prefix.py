"""Whether the ids of a conversation stay the same when messages follow."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

from bpetite import Tokenizer
from bpetite.chat._prompt import ChatTemplateError
from bpetite.chat._template import ChatTemplate

_Message = dict[str, Any]

_TOOL: _Message = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Tell the weather of a town.",
        "parameters": {
            "type": "object",
            "properties": {"town": {"type": "string", "description": "Its name."}},
            "required": ["town"],
        },
    },
}
_CALL: _Message = {
    "id": "weather01",
    "type": "function",
    "function": {"name": "weather", "arguments": {"town": "Bern"}},
}


class KeptPrefix(NamedTuple):
    """What `keeps_prefix` found; it is true if the template keeps all ids."""

    messages: list[dict[str, Any]] | None = None
    """The shortest conversation found whose last message changes ids before it, or None."""
    prompts: tuple[str, str] | None = None
    """The text of the prompt without that message, and of the prompt with it."""
    first_changed: int | None = None
    """The index of the first id that changes."""

    def __bool__(self) -> bool:
        return self.messages is None


def keeps_prefix(template: ChatTemplate, tokenizer: Tokenizer, **arguments: Any) -> KeptPrefix:
    """Find out whether a template keeps the ids of earlier turns when a message is added.

    If it does, a server may keep what its model has computed for them, and a training loop may
    append to sampled ids. Conversations of up to seven messages are rendered: with and without a
    system message, reasoning, and calls of a tool. Conversations that the template refuses are left
    out. After each message of an assistant, the new prompt must begin with the prompt so far; the
    same holds for an answer after a generation prompt. Text that only the end of a conversation
    has, such as Phi-3's last token, counts too. `arguments` are passed to `ChatTemplate.encode`,
    such as `enable_thinking`.

    Raises ChatTemplateError if the template refuses all of these conversations.

    >>> from bpetite import Tokenizer
    >>> source = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    >>> tokenizer = Tokenizer.train("", 256)
    >>> bool(keeps_prefix(ChatTemplate(source), tokenizer))
    True
    >>> source = "{% for m in messages %}[{{ loop.revindex }}]{{ m.content }}{% endfor %}"
    >>> found = keeps_prefix(ChatTemplate(source), tokenizer)
    >>> len(found.messages), found.first_changed, found.prompts[0]
    (2, 1, '[1]Is it cold?')
    """
    refusal: ChatTemplateError | None = None
    compared = 0
    for messages in sorted(_conversations(), key=len):
        for count in range(1, len(messages)):
            is_answer = messages[count]["role"] == "assistant"
            if not is_answer and messages[count - 1]["role"] != "assistant":
                continue
            shorter, longer = messages[:count], messages[: count + 1]
            with_tools = {"tools": [_TOOL]} if any("tool_calls" in m for m in messages) else {}
            given = {**with_tools, **arguments}
            try:
                before = template.encode(
                    tokenizer, shorter, **{**given, "add_generation_prompt": is_answer}
                )
                after = template.encode(tokenizer, longer, **given)
            except ChatTemplateError as error:
                refusal = error
                continue
            compared += 1
            if after.ids[: len(before.ids)] != before.ids:
                pairs = enumerate(zip(before.ids, after.ids, strict=False))
                changed = (index for index, (old, new) in pairs if old != new)
                first_changed = next(changed, len(after.ids))
                return KeptPrefix(longer, (before.prompt.text, after.prompt.text), first_changed)
    if not compared and refusal is not None:
        raise refusal
    return KeptPrefix()


def _conversations() -> Iterator[list[_Message]]:
    """Yield conversations of two turns, with different messages of the assistant in the first."""
    system = {"role": "system", "content": "Be brief."}
    first = {"role": "user", "content": "Is it cold?"}
    second = {"role": "user", "content": "And in Rome?"}
    answer = "No, 25 degrees."
    reasonings: tuple[_Message, ...] = (
        {},
        {"reasoning_content": "I look it up."},
        {"thinking": "I look it up."},
        {"reasoning": "I look it up."},
        {"content": f"<think>\nI look it up.\n</think>\n\n{answer}"},
    )
    for has_system, reasoning, calls in product((False, True), reasonings, (0, 1, 2)):
        said: list[_Message] = []
        for number in range(calls):
            call = {**_CALL, "id": f"weather{number:02d}"}
            thought = {key: value for key, value in reasoning.items() if key != "content"}
            said += (
                {"role": "assistant", "content": "", "tool_calls": [call], **thought},
                {"role": "tool", "tool_call_id": call["id"], "name": "weather", "content": "25"},
            )
        said.append({"role": "assistant", "content": answer, **reasoning})
        yield [*([system] if has_system else ()), first, *said, second]
