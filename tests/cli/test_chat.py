"""The verb `chat`: messages in, a prompt and its ids out."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import patch

import pytest
from support.chats import CHATML, tokenizer
from support.cli import failure, in_process
from support.engines import once

pytestmark = once

MESSAGES = [{"role": "user", "content": "Hi<|im_end|>"}, {"role": "assistant", "content": "the"}]
PROMPT = "<|im_start|>user\nHi<|im_end|><|im_end|>\n<|im_start|>assistant\nthe<|im_end|>\n"


@pytest.fixture(autouse=True)
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a model folder and a file of messages, and go to the folder of both."""
    monkeypatch.chdir(tmp_path)
    Path("model").mkdir()
    tokenizer().save("model/tokenizer.json", format="huggingface")
    Path("model/chat_template.jinja").write_text(CHATML, "utf-8", newline="")
    Path("messages.json").write_text(json.dumps(MESSAGES), "utf-8")


def test_text_ids_and_counts_are_written() -> None:
    result = in_process("chat", "messages.json", "--model", "model")
    text, ids_line, counts = result.out.decode().removeprefix(PROMPT).split("\n\n")
    assert (result.code, result.err, text) == (0, [], "")
    assert tokenizer().decode(map(int, ids_line.split())) == PROMPT
    assert counts.splitlines()[1:] == ["message 1: 2 ids from 23", "template: 13 ids of 27"]


def test_json_has_the_origin_of_each_id() -> None:
    result = in_process("chat", "messages.json", "--model", "model", "--json")
    value = json.loads(result.out)
    special = {*tokenizer().special_tokens.values()}
    pairs = zip(value["ids"], value["origins"], strict=True)
    assert value["text"] == PROMPT
    assert {origin for id, origin in pairs if id in special} == {"template"}
    assert [row["message"] for row in value["messages"]] == [0, 1]
    assert "".join(piece["text"] for piece in value["texts"]) == PROMPT


def test_object_has_arguments_of_the_template() -> None:
    given = {"messages": MESSAGES[:1], "enable_thinking": False}
    stdin = json.dumps(given).encode()
    result = in_process(
        "chat", "-", "--model", "model", "--json", "--generation-prompt", stdin=stdin
    )
    assert json.loads(result.out)["text"].endswith("assistant\n<think>\n\n</think>\n\n")


def test_messages_of_a_trusted_role_may_have_special_tokens() -> None:
    arguments = ("chat", "messages.json", "--model", "model", "--json", "--trusted-role", "user")
    value = json.loads(in_process(*arguments).out)
    assert value["ids"] == tokenizer().encode(PROMPT)


def test_terminal_shows_colours_unless_no_color_is_set() -> None:
    from bpetite._cli import chat
    from bpetite.chat import ChatTemplate

    encoded = ChatTemplate(CHATML).encode(tokenizer(), MESSAGES)
    with patch("sys.stdout.isatty", lambda: True), patch.dict("os.environ", {"TERM": "xterm"}):
        shown = chat._shown(encoded)
        with patch.dict("os.environ", {"NO_COLOR": "1"}):
            assert "\x1b" not in chat._shown(encoded)
    assert "user\n\x1b[30;48;5;152mHi<|im_end|>\x1b[0m<|im_end|>" in shown
    assert "\x1b[30;48;5;223mthe\x1b[0m" in shown


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            "[",
            "messages.json: Expecting value: line 1 column 2 (char 1); a conversation is a file of "
            "JSON",
        ),
        ('{"message": []}', "messages.json: expected a list of messages, each an object"),
        ("[1]", "messages.json: expected a list of messages, each an object"),
        (
            "[]",
            "Cannot apply chat template to an empty conversation. Provide at least one message.",
        ),
    ],
    ids=["no-json", "no-messages", "a-number", "empty"],
)
def test_wrong_file_is_a_failure(content: str, words: str) -> None:
    Path("messages.json").write_text(content, "utf-8")
    assert in_process("chat", "messages.json", "--model", "model") == failure(words)


def test_folder_without_a_template_is_a_failure() -> None:
    Path("model/chat_template.jinja").unlink()
    result = in_process("chat", "messages.json", "--model", "model")
    words = "model: neither chat_template.jinja nor a chat_template in tokenizer_config.json"
    assert result == failure(words)
