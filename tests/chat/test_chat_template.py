"""A template renders what transformers renders, and knows whose each character is."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2.filters import FILTERS
from support import templates as random_templates
from support.chats import CHATML, LITERALS, TEMPLATES, tokenizer
from support.engines import once
from support.examples import randoms, slow_except
from tools import check_chat_templates as checks

from bpetite import Tokenizer, Trusted
from bpetite.chat import ChatTemplate, ChatTemplateError, OriginText

pytestmark = once

USER = {"role": "user", "content": "Hi"}
TOKENIZER = tokenizer()
MARKUP = re.compile(r"<[^\s<>{}'\"]{1,32}>|\[/?[A-Z_]{3,20}\]")
TOKENS: dict[str, Any] = {"bos_token": "<s>", "eos_token": "</s>"}


@pytest.mark.parametrize("source", TEMPLATES.values(), ids=TEMPLATES)
@pytest.mark.parametrize("step", slow_except([11, 37], 37))
def test_text_and_refusals_match_transformers(step: int, source: str) -> None:
    pytest.importorskip("transformers")
    counts, difference = checks.difference(source, step)
    assert difference is None
    assert counts["equal"] > 5


def collected() -> Iterator[Any]:
    """Yield the templates of other people that BPETITE_CHAT_TEMPLATES names a folder of."""
    folder = os.environ.get("BPETITE_CHAT_TEMPLATES")
    for path in sorted(Path(folder).rglob("*.jinja")) if folder else ():
        yield pytest.param(path, id=f"{path.parent.name}/{path.stem}")


@pytest.mark.slow
@pytest.mark.parametrize("path", [*collected()])
@settings(max_examples=30)
@given(data=st.data())
def test_collected_template_admits_no_special_token(path: Path, data: st.DataObject) -> None:
    """Every literal of the template is special, and messages have literals."""
    source = path.read_text("utf-8")
    literals = sorted({*MARKUP.findall(source), *TOKENS.values()})
    special = Tokenizer.train("", 256, special_tokens=literals)
    text = st.lists(st.sampled_from([*literals, "a", " ", "\n", "<"]), max_size=8).map("".join)
    said = asked(data.draw(text), data.draw(text))
    try:
        encoded = ChatTemplate(source, **TOKENS).encode(special, said, add_generation_prompt=True)
    except ChatTemplateError:
        return  # a refusal admits nothing
    special_ids = {*special.special_tokens.values()}
    pairs = zip(encoded.ids, encoded.origins, strict=True)
    assert {origin for id, origin in pairs if id in special_ids} <= {"template"}
    assert encoded.ids == special.encode_parts(encoded.prompt.segments)[0]
    assert special.decode(encoded.ids) == encoded.prompt.text


@given(randoms)
def test_random_template_renders_as_in_transformers(rng: random.Random) -> None:
    """`scripts/fuzz templates` tries many more."""
    pytest.importorskip("transformers")
    source, messages = random_templates.template(rng), random_templates.conversation(rng)
    fault = random_templates.fault(source, messages)
    assert fault is None, (fault, source, messages)


def test_most_characters_of_random_templates_are_tracked() -> None:
    untracked = total = 0
    for seed in range(200):
        source_of = random.Random(f"share {seed}")
        source = random_templates.template(source_of)
        try:
            found = random_templates.untracked_share(
                source, random_templates.conversation(source_of)
            )
        except ChatTemplateError:
            continue
        untracked += found[0]
        total += found[1]
    assert total > 1_000
    assert untracked / total < 0.4


# Trust

TRAPS = st.lists(
    st.sampled_from((*LITERALS, "a", " ", "\n", "<", "|>", "im_end", "</")), max_size=5
)
INJECTED = TRAPS.map("".join)
HONEST = {
    key: ChatTemplate(source, **TOKENS)
    for key, source in TEMPLATES.items()
    if key not in ("letters", "roles-in-tags")
}
KEYS = st.sampled_from([*HONEST])


def asked(text: str, other: str) -> list[dict[str, Any]]:
    return [
        {"role": "user", "content": text},
        {"role": "assistant", "content": other, "reasoning_content": text},
        {"role": "user", "content": other},
    ]


@given(KEYS, INJECTED, INJECTED, st.booleans())
def test_no_special_id_covers_a_message(key: str, text: str, other: str, has_end: bool) -> None:
    encoded = HONEST[key].encode(TOKENIZER, asked(text, other), add_generation_prompt=has_end)
    special = set(TOKENIZER.special_tokens.values())
    origins = zip(encoded.ids, encoded.origins, strict=True)
    assert {origin for id, origin in origins if id in special} <= {"template"}
    assert encoded.ids == TOKENIZER.encode_parts(encoded.prompt.segments)[0]
    assert "".join(encoded.prompt.segments) == encoded.prompt.text


@given(KEYS, INJECTED)
def test_a_literal_changes_nothing_outside_of_its_text(key: str, text: str) -> None:
    """The template's special ids are those around a harmless text."""
    special = set(TOKENIZER.special_tokens.values())
    found = [
        [id for id in HONEST[key].encode(TOKENIZER, asked(each, "b")).ids if id in special]
        for each in (f"x{text}x".replace("</think>", ""), "harmless")
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize("key", HONEST)
def test_ids_of_harmless_messages_match_the_text(key: str) -> None:
    encoded = HONEST[key].encode(TOKENIZER, asked("the weather", "it"))
    assert encoded.ids == TOKENIZER.encode(encoded.prompt.text)


def test_literals_of_trusted_roles_count() -> None:
    messages = [{"role": "system", "content": "a<|eot|>"}, {"role": "user", "content": "b<|eot|>"}]
    template = ChatTemplate("{% for m in messages %}{{ m.content }}{% endfor %}")
    assert template.render(messages).segments == ["a<|eot|>", "b<|eot|>"]
    prompt = template.render(messages, trusted_roles=["system"])
    assert prompt.segments == [Trusted("a<|eot|>"), "b<|eot|>"]
    assert [type(segment) for segment in prompt.segments] == [Trusted, str]


def test_names_of_known_roles_are_as_good_as_the_template() -> None:
    template = ChatTemplate("{{ '<|' + messages[0].role + '|>' }}")
    assert template.render([USER]).segments == [Trusted("<|user|>")]
    assert template.render([{**USER, "role": "eve"}]).segments == [
        *(Trusted("<|"), "eve", Trusted("|>"))
    ]


def test_tools_documents_and_arguments_are_untrusted() -> None:
    template = ChatTemplate(
        "{{ tools[0].a }}{{ documents[0].a }}{{ x }}{{ bos_token }}", bos_token="!"
    )
    prompt = template.render([USER], tools=[{"a": "1"}], documents=[{"a": "2"}], x="3")
    assert prompt.segments == ["123", Trusted("!")]
    assert [text.origin for text in prompt.texts] == ["argument", "template"]


def test_literal_in_untracked_text_is_refused_with_its_line() -> None:
    template = ChatTemplate("a\n{{ messages[0].content | urlencode }}")
    assert template.encode(TOKENIZER, [USER]).ids == TOKENIZER.encode("a\nHi")
    small = Tokenizer.train("", 256, special_tokens=["Hi"])
    with pytest.raises(ChatTemplateError, match=r"line 2 .* the special token 'Hi'") as caught:
        template.encode(small, [USER])
    assert caught.value.line == 2


@pytest.mark.parametrize("source", ["{{ 'H' ~ x|urlencode }}", "{{ x|urlencode ~ 'i' }}"])
def test_literal_that_is_untracked_in_part_is_refused(source: str) -> None:
    small = Tokenizer.train("", 256, special_tokens=["Hi"])
    for text in "Hi":
        found = ChatTemplate(source)
        if "Hi" in found.render([USER], x=text).text:
            with pytest.raises(ChatTemplateError, match="untracked"):
                found.encode(small, [USER], x=text)


def test_pieces_describe_their_text() -> None:
    prompt = ChatTemplate("<{{ messages[0].content }}>{{ 1 + 1 }}").render([USER])
    assert prompt.texts == [
        OriginText("<", "template", None, None, None, False),
        OriginText("Hi", "message", 0, "user", None, False),
        OriginText(">", "template", None, None, None, False),
        OriginText("2", "untracked", None, None, 1, False),
    ]


@pytest.mark.parametrize(
    ("options", "value"),
    [
        ("", '{"é": ["<a>", {"b": 1}], "c": "\\"q\\"\\n"}'),
        ("ensure_ascii=true", '{"\\u00e9": ["<a>", {"b": 1}], "c": "\\"q\\"\\n"}'),
        ("sort_keys=true, separators=(',', ':')", '{"c":"\\"q\\"\\n","é":["<a>",{"b":1}]}'),
    ],
    ids=["plain", "ascii", "sorted"],
)
def test_json_of_a_message_is_the_message_s(options: str, value: str) -> None:
    data = {"é": ["<a>", {"b": 1}], "c": '"q"\n'}
    prompt = ChatTemplate(f"{{{{ messages[0].data|tojson({options}) }}}}").render(
        [{**USER, "data": data}]
    )
    assert prompt.texts == [OriginText(value, "message", 0, "user", None, False)]


# Ids


def test_ids_know_their_message_and_role() -> None:
    messages = [USER, {"role": "assistant", "content": "the weather"}]
    encoded = ChatTemplate(CHATML).encode(TOKENIZER, messages)
    spans = [TOKENIZER.decode(encoded.ids[span.start : span.stop]) for span in encoded.messages]
    assert spans == ["Hi", "the weather"]
    assert {*zip(encoded.roles, encoded.message_numbers, strict=True)} == {
        *((None, None), ("user", 0), ("assistant", 1))
    }
    assert encoded.origins[0] == "template"


def test_message_without_text_has_an_empty_range() -> None:
    messages = [USER, {"role": "assistant", "content": ""}, USER]
    first, second, third = ChatTemplate(CHATML).encode(TOKENIZER, messages).messages
    assert (len(second), second.start) == (0, first.stop)
    assert third.start > first.stop


# Messages


@dataclass
class Message:
    role: str
    content: str
    name: None = None


class Model:
    def model_dump(self) -> dict[str, Any]:
        return {"role": "user", "content": "Hi", "tool_calls": None}


@pytest.mark.parametrize(
    "message", [Message("user", "Hi"), Model(), USER], ids=["data", "model", "dict"]
)
def test_messages_may_be_objects(message: Any) -> None:
    template = ChatTemplate("{{ messages[0].content }}{{ messages[0].keys()|list|length }}")
    assert template.render([message]).text == "Hi2"


@pytest.mark.parametrize(
    ("messages", "error", "words"),
    [
        ([], ValueError, "empty conversation"),
        ("Hi", TypeError, "messages must be a list of messages, got str"),
        (
            [1],
            TypeError,
            "Chat messages should be dicts, dataclasses or pydantic models, but got 1",
        ),
    ],
    ids=["none", "a-string", "a-number"],
)
def test_wrong_messages_are_refused(messages: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        ChatTemplate("").render(messages)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"tools": [print]}, TypeError, "a tool must be a JSON schema in a dict, got builtin"),
        ({"documents": ["a"]}, TypeError, "Documents should be a list of dicts"),
        ({"trusted_roles": "system"}, TypeError, "not one string"),
        (
            {"add_generation_prompt": True, "continue_final_message": True},
            ValueError,
            "are not compatible",
        ),
    ],
    ids=["tools", "documents", "roles", "both-ends"],
)
def test_wrong_options_are_refused(options: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        ChatTemplate("{{ messages[0].content }}").render([USER], **options)


def test_template_refuses_in_its_own_words() -> None:
    with pytest.raises(ChatTemplateError) as caught:
        ChatTemplate("a\n{{ raise_exception('Only users!') }}").render([USER])
    assert (str(caught.value), caught.value.line) == ("Only users!", 2)


def test_wrong_syntax_has_its_line() -> None:
    with pytest.raises(ChatTemplateError, match="unexpected '}'") as caught:
        ChatTemplate("a\n{{ } }}")
    assert caught.value.line == 2


# Folders


@pytest.mark.parametrize(
    "source",
    [
        *(
            "{{ '%*d' % (5, 3) }}",
            "{{ '%-*.*f|%s' % (7, 2, 1.5, 'a') }}",
            "{{ '%.*f'|format(2, 3) }}",
        ),
        *("{{ '%(a(b))s %(a)s' % {'a': 1, 'a(b)': 2} }}", "{{ '%5%|%ld|%c|%r' % (5, 'a', 'b') }}"),
        *("{{ ('<%r %d %s>'|safe) % ('<', 5, '<') }}", "{{ ('<%*d>'|safe) % (5, 3) }}"),
        *("{{ '<>'|safe|list }}", "{{ 'a<b'|escape|list }}"),
    ],
)
def test_rare_format_matches_transformers(source: str) -> None:
    utils = pytest.importorskip("transformers.utils.chat_template_utils", exc_type=ImportError)
    theirs, ours = (
        outcome(lambda: utils._compile_jinja_template(source).render(messages=[USER])),
        outcome(lambda: ChatTemplate(source).render([USER]).text),
    )
    assert ours == theirs


def outcome(call: Callable[[], str]) -> str | None:
    """Return the text of a call, or None if it raises an error."""
    try:
        return call()
    except Exception:
        return None


FILTER_VALUES = (
    *("1", "'a-B <c'", "'%s 12 %d'", "[3, 1, 2]", "['b', 'a', 'B']", "[]", "{'b': 1}"),
    *("[{'a': 1, 'b': [1]}, {'a': 2}]", "none", "nope", "'<>'|safe", "[[1, 2], [3]]"),
)
FILTER_OPTIONS = (
    *("", "(2)", "('a')", "('a', 'b')", "(attribute='a')", "(2, fill_with=0)"),
    *("('upper')", "('equalto', 1)", "('a', 'equalto', 1)", "(true)", "(default='d')"),
)


@pytest.mark.parametrize("name", sorted({*FILTERS} - {"random", "attr"}))
def test_filter_matches_transformers(name: str) -> None:
    utils = pytest.importorskip("transformers.utils.chat_template_utils", exc_type=ImportError)
    values = product(FILTER_VALUES, FILTER_OPTIONS, ("", "|list"))
    for source in (f"{{{{ ({value})|{name}{options}{rest} }}}}" for value, options, rest in values):
        theirs = outcome(lambda: utils._compile_jinja_template(source).render(messages=[USER]))  # noqa: B023
        if theirs is None or " at 0x" not in theirs:
            ours = outcome(lambda: ChatTemplate(source).render([USER]).text)  # noqa: B023
            assert (source, ours) == (source, theirs)


@pytest.mark.parametrize("number", ["9" * 5000, "0x" + "f" * 5000], ids=["decimal", "hexadecimal"])
def test_number_of_thousands_of_digits_is_refused(number: str) -> None:
    with pytest.raises(ChatTemplateError, match=r"limit .* for integer string conversion"):
        ChatTemplate(f"{{{{ {number} }}}}").render([USER])


def test_folder_has_template_and_tokens(tmp_path: Path) -> None:
    config = {
        "bos_token": {"__type": "AddedToken", "content": "<s>"},
        "eos_token": "</s>",
        "chat_template": "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}",
    }
    tmp_path.joinpath("tokenizer_config.json").write_text(json.dumps(config), "utf-8")
    segments = ChatTemplate.load(tmp_path).render([USER]).segments
    assert segments == [Trusted("<s>"), "Hi", Trusted("</s>")]
    tmp_path.joinpath("chat_template.jinja").write_text("!{{ eos_token }}", "utf-8")
    assert ChatTemplate.load(tmp_path).render([USER]).segments == [Trusted("!</s>")]


def test_template_for_tools_is_used_with_tools(tmp_path: Path) -> None:
    named = [{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}]
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps({"chat_template": named}), "utf-8")
    template = ChatTemplate.load(tmp_path)
    assert template.render([USER]).text + template.render([USER], tools=[]).text == "ab"
    tmp_path.joinpath("additional_chat_templates").mkdir()
    tmp_path.joinpath("additional_chat_templates", "tool_use.jinja").write_text("c", "utf-8")
    assert ChatTemplate.load(tmp_path).render([USER], tools=[]).text == "c"


def test_folder_without_a_template_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"neither chat_template\.jinja nor"):
        ChatTemplate.load(tmp_path)


def test_config_with_a_wrong_template_names_the_field(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer_config.json"
    path.write_text('{"chat_template": [{"name": 1}]}', "utf-8")
    with pytest.raises(ValueError, match=r"chat_template\[0\]\.name: expected a string"):
        ChatTemplate.load(tmp_path)
