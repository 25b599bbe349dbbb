"""The verb `chat`: messages in, a prompt and its ids out."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bpetite import Tokenizer
from bpetite._cli.common import COLORS, PLAIN, STANDARD_INPUT, read_text, shows_colors, write

if TYPE_CHECKING:
    from bpetite.chat import Encoded

HELP = """render a conversation with a model's chat template, and show whose text is whose

FILE is JSON: a list of messages, or an object with the list in "messages", whose other fields are
arguments of the template, such as "tools". On a terminal, the template's text is plain, each
message has a colour, tools and other arguments are dim, and untracked text is red.

This verb needs Jinja: pip install jinja2"""
EXAMPLE = "bpetite chat messages.json --model model-folder"

_MARKS = {"template": "", "argument": "\x1b[2m", "untracked": "\x1b[31m"}
_FIELDS = ("text", "origin", "message", "role", "line", "generated")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a file of JSON; - is standard input")
    parser.add_argument(
        *("--model", "-m"),
        metavar="FOLDER",
        required=True,
        help="a model folder, with a vocabulary and a chat template",
    )
    parser.add_argument(
        "--generation-prompt",
        action="store_true",
        help="end the prompt with the beginning of an answer",
    )
    parser.add_argument(
        "--trusted-role",
        metavar="ROLE",
        action="append",
        default=[],
        help="recognise special tokens in messages of this role; repeatable",
    )
    parser.add_argument("--json", action="store_true", help="write a JSON object instead")


def run(options: argparse.Namespace) -> None:
    from bpetite.chat import ChatTemplate  # which needs Jinja

    messages, arguments = _conversation(options.file)
    template = ChatTemplate.load(options.model)
    tokenizer = Tokenizer.load(Path(options.model))
    if options.generation_prompt:
        arguments["add_generation_prompt"] = True
    arguments["trusted_roles"] = options.trusted_role
    encoded = template.encode(tokenizer, messages, **arguments)
    write(_as_json(encoded) if options.json else _shown(encoded))


def _conversation(name: str) -> tuple[list[Any], dict[str, Any]]:
    """Return the messages of a file, and what else it gives to the template."""
    place = "standard input" if name == STANDARD_INPUT else name
    try:
        found = json.loads(read_text(name))
    except json.JSONDecodeError as error:
        raise ValueError(f"{place}: {error}; a conversation is a file of JSON") from None
    arguments = {**found} if isinstance(found, dict) else {}
    messages = arguments.pop("messages", None) if isinstance(found, dict) else found
    if not isinstance(messages, list) or not all(isinstance(each, dict) for each in messages):
        raise ValueError(f"{place}: expected a list of messages, each an object")
    return messages, arguments


def _rows(encoded: Encoded) -> list[dict[str, Any]]:
    numbers = encoded.message_numbers
    return [
        {"message": number, "ids": numbers.count(number), "range": [span.start, span.stop]}
        for number, span in enumerate(encoded.messages)
    ]


def _as_json(encoded: Encoded) -> str:
    value = {
        "text": encoded.prompt.text,
        "texts": [dict(zip(_FIELDS, each, strict=True)) for each in encoded.prompt.texts],
        "ids": encoded.ids,
        "origins": encoded.origins,
        "message_numbers": encoded.message_numbers,
        "messages": _rows(encoded),
    }
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


def _shown(encoded: Encoded) -> str:
    """Return the text, the ids and a line for each message, as people read them."""
    text = encoded.prompt.text
    if shows_colors():
        text = ""
        for piece in encoded.prompt.texts:
            number = piece.message
            mark = _MARKS.get(piece.origin) if number is None else COLORS[number % len(COLORS)]
            text += f"{mark}{piece.text}{PLAIN}" if mark else piece.text
    own = encoded.origins.count("message")
    lines = [
        f"message {row['message']}: {row['ids']} ids from {row['range'][0]}\n"
        for row in _rows(encoded)
    ]
    ids = " ".join(map(str, encoded.ids))
    lines.append(f"template: {len(encoded.ids) - own} ids of {len(encoded.ids)}\n")
    return f"{text}\n\n{ids}\n\n" + "".join(lines)
