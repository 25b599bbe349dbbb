"""Messages, tools and documents as the plain data that a template sees, with their origins."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from bpetite.chat._text import ARGUMENT, TEMPLATE, of_message, packed, whole

KNOWN_ROLES = frozenset(
    ("system", "developer", "user", "assistant", "tool", "function", "ipython", "model")
)
"""Roles that are treated as the template's own text, since many templates print them in tags."""

_REASONING = ("reasoning_content", "thinking", "reasoning")
"""The names of a message's reasoning in the order in which transformers looks for them."""

_TAG = "CONTINUE_FINAL_MESSAGE_TAG "
"""transformers appends this to the text to continue, to find its end."""


def plain_data(value: Any, origin: int = ARGUMENT) -> Any:
    """Return a value of JSON's types, each string in it with an origin.

    Dataclasses, models of pydantic and numbers of numpy are converted, as in transformers. Any
    other object becomes its type's name in angle brackets.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return whole(str.__str__(value), origin)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, Mapping):
        pairs = {plain_data(key, origin): plain_data(value[key], origin) for key in value}
        return packed(pairs, origin)
    if isinstance(value, (list, tuple)):
        items = [plain_data(item, origin) for item in value]
        return packed(tuple(items) if isinstance(value, tuple) else items, origin)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic):
        return plain_data(value.item(), origin)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return plain_data({field.name: getattr(value, field.name) for field in fields}, origin)
    if callable(getattr(value, "model_dump", None)):
        return plain_data(value.model_dump(), origin)
    return whole(f"<{type(value).__name__}>", origin)


def plain_messages(messages: Sequence[Any]) -> list[Any]:
    """Return messages as plain data, without keys whose value is None, and with all reasoning.

    Raises TypeError for a message that is no mapping, and ValueError for an empty list.
    """
    if isinstance(messages, (str, bytes, Mapping)):
        raise TypeError(f"messages must be a list of messages, got {type(messages).__name__}")
    if not messages:
        raise ValueError(
            "Cannot apply chat template to an empty conversation. Provide at least one message."
        )
    return [plain_message(message, number) for number, message in enumerate(messages)]


def plain_message(message: Any, number: int) -> Any:
    """Return a message as plain data. Its role is the template's own text if it is a known one."""
    origin = of_message(number)
    if isinstance(message, Mapping):
        data = {_plain_key(key, origin): plain_data(message[key], origin) for key in message}
    else:
        data = plain_data(message, origin)
    if not isinstance(data, dict):
        raise TypeError(
            f"Chat messages should be dicts, dataclasses or pydantic models, but got {message!r}."
        )
    data = {key: value for key, value in data.items() if value is not None}
    role = data.get("role")
    if isinstance(role, str) and role in KNOWN_ROLES:
        data["role"] = _KNOWN[str.__str__(role)]
    reasoning = next((data[key] for key in _REASONING if key in data), None)
    if reasoning is not None:
        data = {"thinking": reasoning, **data, "reasoning_content": reasoning}
    return packed(data, origin)


_KNOWN = {
    name: whole(name, TEMPLATE)
    for name in (*KNOWN_ROLES, *_REASONING, "role", "content", "tool_calls", "name", "tool_call_id")
}
"""Names that are the same in all messages, as the template's own text."""


def _plain_key(key: Any, origin: int) -> Any:
    return _KNOWN.get(key) or plain_data(key, origin)


def plain_tools(tools: Sequence[Any] | None) -> Any:
    """Return tools as plain data. Raises TypeError for a tool that is no JSON schema."""
    for tool in tools or ():
        if not isinstance(tool, dict):
            raise TypeError(
                f"a tool must be a JSON schema in a dict, got {type(tool).__name__}; "
                f"transformers.utils.get_json_schema makes one of a function"
            )
    return plain_data(tools)


def plain_documents(documents: Sequence[Any] | None) -> Any:
    """Return documents as plain data. Raises TypeError for a document that is no dict."""
    if not all(isinstance(document, dict) for document in documents or ()):
        raise TypeError("Documents should be a list of dicts with 'title' and 'text' keys!")
    return plain_data(documents)


def tag_final(messages: list[Any], field: str, source: str) -> str:
    """Mark the end of the text to continue in the final message, and return that text.

    Raises ValueError as transformers does for a message without it.
    """
    final = messages[-1].get(field)
    if final is None:
        raise ValueError(
            f'continue_final_message is set but the final message has no "{field}" to continue!'
        )
    fields = [field]
    if field in _REASONING:
        fields = [each for each in _REASONING if messages[-1].get(each) == final]
    if not any(each in source for each in fields):
        raise ValueError(
            f'continue_final_message is set to "{field}" but this is not an accepted field in the '
            f"chat_template"
        )
    origin = of_message(len(messages) - 1)
    tag = whole(_TAG, origin)
    if not isinstance(final, (list, tuple)):
        tagged = dict(messages[-1])
        for each in fields:
            tagged[each] = tagged[each] + tag
        messages[-1] = packed(tagged, origin)
        return str(final)
    for block in reversed(final):
        if "text" in block:
            text = str(block["text"])
            block["text"] = block["text"] + tag
            return text
    raise ValueError(
        "continue_final_message is set but we could not find any text to continue in the final "
        "message!"
    )


def untagged(rendered: Any, final: str) -> Any:
    """Return a rendered text up to the tag of `tag_final`, or raise as transformers does."""
    tag = _TAG.strip()
    if final.strip() not in rendered or tag not in rendered:
        raise ValueError(
            "continue_final_message is set but the final message does not appear in the chat after "
            "applying the chat template! This can happen if the chat template deletes portions of "
            "the final message. Please verify the chat template and final message in your chat to "
            "ensure they are compatible."
            f"Final message to continue: {final.strip()}\nRendered chat:\n{rendered}"
        )
    place = str.rindex(rendered, tag)
    text = rendered[:place]
    return text if rendered.startswith(_TAG, place) else text.rstrip()
