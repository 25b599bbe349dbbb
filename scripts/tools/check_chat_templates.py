"""Compare bpetite.chat with transformers on chat templates: FOLDER ...

Each `.jinja` file in the folders and their subfolders renders all conversations of `cases`.
The text has to equal the text of transformers, and a case that transformers refuses has to be
refused in the same words. Because each message's text consists of characters of its own, the
origins are known: such a character must belong to its message, and each literal of the template
must be found. Prints a line for each template that differs.

    PYTHONPATH=src:scripts python -m tools.check_chat_templates FOLDER
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from bpetite.chat import ChatTemplate, ChatTemplateError, RenderedPrompt

TOKENS: dict[str, Any] = {
    "bos_token": "<s>",
    "eos_token": "</s>",
    "pad_token": "<pad>",
    "unk_token": "<unk>",
}

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather of a city",
            "parameters": {
                "type": "object",
                "properties": {
                    "City": {"type": "string", "description": "Its name"},
                    "Days": {"type": "integer", "enum": [1, 2], "nullable": True},
                    "Units": {"type": ["string", "null"]},
                    "Where": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["City"],
            },
        },
    }
]

DOCUMENTS = [{"title": "About", "text": 'A text, "quoted"'}]

_FIRST = 0xE000
"""The first of the characters that stand for messages' text, which are for private use."""

_PER_MESSAGE = 64

LITERAL = re.compile(
    r"<\|[^|<>]*\|>|<｜[^｜<>]*｜>|\[/?[A-Z_]{3,}\]|</?[a-z_]+>|<(?:start|end)_of_turn>"
)


def own(number: int, place: int) -> str:
    """Return a text of characters that occur only at this place in this message."""
    first = _FIRST + number * _PER_MESSAGE + place * 4
    return "".join(map(chr, range(first, first + 4)))


def number_of(character: str) -> int | None:
    """Return the number of the message that the character belongs to."""
    number = (ord(character) - _FIRST) // _PER_MESSAGE
    return number if 0 <= number < 100 else None


def conversation(
    has_system: bool, calls: int, has_reasoning: bool, blocks: str, is_final_answer: bool
) -> list[dict[str, Any]]:
    """Return messages: `calls` tool calls with answers, and text in `blocks` of a kind."""
    messages: list[dict[str, Any]] = []

    def add(role: str, **more: Any) -> None:
        number = len(messages)
        text = f" {own(number, 0)} \n"
        contents: dict[str, Any] = {
            "text": text,
            "blocks": [{"type": "text", "text": text}, {"type": "text", "text": own(number, 1)}],
            "image": [{"type": "image"}, {"type": "text", "text": text}],
        }
        kind = blocks if role == "user" or blocks == "blocks" else "text"
        messages.append({"role": role, "content": contents[kind], **more})

    def answer(**more: Any) -> None:
        if has_reasoning:
            more["reasoning_content"] = own(len(messages), 2)
        add("assistant", **more)

    if has_system:
        add("system")
    add("user")
    answer()
    add("user")
    if calls:
        number = len(messages)
        made = [
            {
                "id": f"abcdefgh{call}",
                "type": "function",
                "function": {
                    "name": "weather",
                    "arguments": {"City": own(number, 3 + call), "Days": 2 + call},
                },
            }
            for call in range(calls)
        ]
        answer(tool_calls=made)
        if calls == 1:
            messages[-1]["content"] = ""
        for call in range(calls):
            add("tool", tool_call_id=f"abcdefgh{call}", name="weather")
            if blocks == "blocks":
                messages[-1]["content"] = own(len(messages) - 1, 0)
        answer()
        add("user")
    if is_final_answer:
        answer()
    return messages


def cases(step: int = 1) -> Iterator[tuple[list[dict[str, Any]], dict[str, Any]]]:
    """Yield messages and options of each case, or of each `step`th one."""
    every: Iterator[Any] = product(
        (False, True), (0, 1, 2), (False, True), ("text", "blocks", "image"), (False, True),
        (None, TOOLS), (None, DOCUMENTS), ({}, {"enable_thinking": False}, {"enable_thinking": True,
        "preserve_thinking": True, "reasoning_effort": "high", "date_string": "1 May 2026"}),
        ("none", "prompt", "continue"),
    )  # fmt: skip
    for number, case in enumerate(every):
        shape, (tools, documents, more, end) = case[:5], case[5:]
        is_final = shape[-1]
        if number % step or (end == "continue") > is_final:
            continue
        options: dict[str, Any] = {"tools": tools, "documents": documents, **more}
        options["add_generation_prompt"] = end == "prompt"
        options["continue_final_message"] = end == "continue"
        yield conversation(*shape), options


def rendered_by_transformers(source: str, messages: list[Any], options: dict[str, Any]) -> str:
    """Return the text that transformers renders, or raise its error."""
    from transformers.utils import chat_template_utils as theirs

    normal = theirs._normalize_chat_messages(messages)
    rendered: Any = theirs.render_jinja_template([normal], chat_template=source, **options)
    return str(rendered[0][0])


def fault_of(prompt: RenderedPrompt) -> str | None:
    """Return a fault in the origins of a prompt, or None."""
    for piece in prompt.texts:
        numbers = {number_of(character) for character in piece.text} - {None}
        if numbers and piece.origin == "untracked":
            return f"line {piece.line}: untracked text {piece.text!r:.60}"
        if numbers - {piece.message}:
            return f"{piece.origin} {piece.message} has the text of messages {numbers}"
    start = 0
    spans = []
    for piece in prompt.texts:
        end = start + len(piece.text)
        spans.append((start, end, piece.origin))
        start = end
    for found in LITERAL.finditer(prompt.text):
        touched = {
            origin for start, end, origin in spans if start < found.end() and found.start() < end
        }
        if not touched <= {"template", "argument"}:
            return f"the literal {found.group()!r} is {touched}"
    return None


def difference(source: str, step: int = 1) -> tuple[Counter[str], str | None]:
    """Return how many cases were rendered and refused, and the first difference, if any."""
    counts: Counter[str] = Counter()
    template: ChatTemplate | None
    try:
        template, refusal = ChatTemplate(source), ""
    except ChatTemplateError as error:
        template, refusal = None, str(error)
    for messages, options in cases(step):
        try:
            wanted = rendered_by_transformers(source, messages, {**TOKENS, **options})
        except Exception as error:
            wanted, words = None, str(error)
        try:
            if template is None:
                raise ChatTemplateError(refusal)
            prompt = template.render(messages, **{**TOKENS, **options})
        except (ValueError, TypeError) as error:
            if wanted is not None:
                return counts, f"refused: {error!r:.200}"
            if str(error) != words and "Final message" not in words:
                return counts, f"refused with {str(error)!r:.200} instead of {words!r:.200}"
            counts["refused"] += 1
            continue
        if prompt.text != wanted:
            return counts, f"text {prompt.text!r:.300} instead of {wanted!r:.300}"
        fault = fault_of(prompt)
        if fault:
            return counts, fault
        counts["equal"] += 1
    return counts, None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--quick", action="store_true", help="each eleventh case")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    total: Counter[str] = Counter()
    paths = sorted(path for folder in options.folders for path in folder.rglob("*.jinja"))
    for path in paths:
        counts, found = difference(path.read_text("utf-8"), 11 if options.quick else 1)
        total += counts
        total["templates"] += 1
        if found:
            total["different"] += 1
            print(f"{path.parent.name}/{path.name}: {found}", flush=True)
        elif not counts["equal"]:
            total["refusing all"] += 1
            print(f"{path.parent.name}/{path.name}: refuses all", flush=True)
    print(dict(total))
    sys.exit(bool(total["different"]))


if __name__ == "__main__":
    main()
