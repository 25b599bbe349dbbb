"""Chat templates, which turn messages into a prompt or its ids."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jinja2.environment import Template
from jinja2.exceptions import TemplateSyntaxError

from bpetite import Tokenizer
from bpetite.chat._encoded import Encoded
from bpetite.chat._environment import ChatEnvironment
from bpetite.chat._messages import (
    plain_data,
    plain_documents,
    plain_messages,
    plain_tools,
    tag_final,
    untagged,
)
from bpetite.chat._prompt import ChatTemplateError, RenderedPrompt
from bpetite.chat._text import TEMPLATE, Text, whole
from bpetite.formats._files import SourceFile, file_in_folder

_CONFIG = "tokenizer_config.json"
_MAP = "special_tokens_map.json"
_TEMPLATE = "chat_template.jinja"
_FOLDER = "additional_chat_templates"

_DEFAULT = "default"
_FOR_TOOLS = "tool_use"  # the name of the template that transformers takes if there are tools

_TOKENS = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
"""The special tokens that a config names, each with `_token` appended."""

_GENERATION = re.compile(r"\{%[-+]?\s*generation\s*[-+]?%\}")


class _Compiled(NamedTuple):
    template: Template
    source: str


class ChatTemplate:
    r"""A chat template in Jinja, as tokenizers of Hugging Face have one.

    `source` is the template, or a dict of templates by name: "default", and "tool_use" if there
    are tools. `special_tokens` such as `bos_token="<s>"` are for the template to print.

    Raises ChatTemplateError with the line for a source that is not valid.

    >>> template = ChatTemplate(
    ...     "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
    ...     "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    ... )
    >>> prompt = template.render([{"role": "user", "content": "Hi"}], add_generation_prompt=True)
    >>> prompt.text
    '<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n'
    """

    def __init__(self, source: str | Mapping[str, str], **special_tokens: str) -> None:
        sources = {_DEFAULT: source} if isinstance(source, str) else {**source}
        self._environment = ChatEnvironment()
        self._tokens = {name: whole(text, TEMPLATE) for name, text in special_tokens.items()}
        self._templates = {name: self._compiled(text) for name, text in sources.items()}

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> ChatTemplate:
        """Load the template of a model folder, and the special tokens that it may print.

        It is in `chat_template.jinja`, or else in `tokenizer_config.json`. Named templates are in
        `additional_chat_templates`.

        Raises FileNotFoundError for a folder without a template, and ValueError for a wrong file.
        """
        path = Path(folder)
        sources: dict[str, str] = {}
        tokens: dict[str, str] = {}
        for name in (_MAP, _CONFIG):
            if (path / name).exists():
                file = file_in_folder(path / name)
                config = file.checked_object(file.document, "the file")
                sources.update(_sources_of(file, config.get("chat_template")))
                tokens.update(_tokens_of(config))
        if (path / _TEMPLATE).exists():
            sources[_DEFAULT] = file_in_folder(path / _TEMPLATE).text()
        for each in sorted((path / _FOLDER).glob("*.jinja")):
            sources[each.stem] = file_in_folder(each).text()
        if not sources:
            raise FileNotFoundError(f"{path}: neither {_TEMPLATE} nor a chat_template in {_CONFIG}")
        return cls(sources, **tokens)

    def render(
        self,
        messages: Sequence[Any],
        *,
        tools: Sequence[Any] | None = None,
        documents: Sequence[Any] | None = None,
        add_generation_prompt: bool = False,
        continue_final_message: bool | str = False,
        trusted_roles: Collection[str] = (),
        **arguments: Any,
    ) -> RenderedPrompt:
        """Render messages to the same text as transformers' `apply_chat_template`.

        A message is a dict, a dataclass or a model of pydantic. Messages of `trusted_roles` may
        contain special literals. `tools` are JSON schemas. With `add_generation_prompt`, the prompt
        ends with the beginning of an answer; with `continue_final_message`, it ends inside the last
        message, or inside the named field of it. All further options are arguments of the template,
        such as `enable_thinking`.

        Raises ChatTemplateError if the template refuses the messages, with its own words;
        TypeError and ValueError for messages that no template could render.
        """
        if isinstance(trusted_roles, str):
            raise TypeError("trusted_roles must be a collection of roles, not one string")
        data = plain_messages(getattr(messages, "messages", messages))
        text = self._rendered(
            data,
            tools=tools,
            documents=documents,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message,
            **arguments,
        )
        return RenderedPrompt(text, _roles(data), frozenset(trusted_roles))

    def encode(
        self,
        tokenizer: Tokenizer,
        messages: Sequence[Any],
        *,
        tools: Sequence[Any] | None = None,
        documents: Sequence[Any] | None = None,
        add_generation_prompt: bool = False,
        continue_final_message: bool | str = False,
        trusted_roles: Collection[str] = (),
        guard: Iterable[str] | None = None,
        ids: Iterable[int] | None = None,
        **arguments: Any,
    ) -> Encoded:
        r"""Render messages and encode the prompt: literals in messages stay text.

        `guard` is as in `Tokenizer.encode_parts`: by default, added tokens of white space, letters,
        marks and digits count in messages too, but markup such as `<think>` does not.

        With `ids`, nothing is encoded: these ids, which a model may have sampled, spell the prompt
        or its beginning, and the result tells where each comes from. If they are not UTF-8, decode
        them with the error handler `surrogateescape` for the messages.

        The other options are as in `render`. Raises its errors, and ChatTemplateError with the
        line if a special literal has a character of unknown origin. Raises ValueError for `ids`
        that do not spell the prompt.
        """
        arguments.update(tools=tools, documents=documents)
        prompt = self.render(
            messages,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message,
            trusted_roles=trusted_roles,
            **arguments,
        )
        messages = getattr(messages, "messages", messages)

        def rendered(count: int, add_generation_prompt: bool) -> RenderedPrompt:
            some = messages[:count]
            return self.render(some, add_generation_prompt=add_generation_prompt, **arguments)

        has_generation = _GENERATION.search(self._chosen(tools).source) is not None
        return Encoded(tokenizer, prompt, has_generation, rendered, ids, guard)

    def _rendered(
        self,
        messages: list[Any],
        *,
        tools: Sequence[Any] | None,
        documents: Sequence[Any] | None,
        add_generation_prompt: bool,
        continue_final_message: bool | str = False,
        **arguments: Any,
    ) -> Text:
        field = continue_final_message
        template, source = self._chosen(tools)
        final = ""
        if field:
            if add_generation_prompt:
                raise ValueError(
                    "continue_final_message and add_generation_prompt are not compatible"
                )
            final = tag_final(messages, field if isinstance(field, str) else "content", source)
        values = {
            **self._tokens,
            **{name: plain_data(value) for name, value in arguments.items()},
            "messages": messages,
            "tools": plain_tools(tools),
            "documents": plain_documents(documents),
            "add_generation_prompt": add_generation_prompt,
        }
        try:
            text: Any = template.render(values)
        except RecursionError:
            raise ChatTemplateError("maximum recursion depth exceeded") from None
        except MemoryError:
            raise
        except Exception as error:
            raise ChatTemplateError(_words(error), _line(error)) from error
        result: Text = untagged(text, final) if field else text
        return result

    def _chosen(self, tools: Any) -> _Compiled:
        if tools is not None and _FOR_TOOLS in self._templates:
            return self._templates[_FOR_TOOLS]
        if _DEFAULT in self._templates:
            return self._templates[_DEFAULT]
        names = ", ".join(map(repr, sorted(self._templates)))
        raise ValueError(
            f"no template is named 'default'; make a ChatTemplate of one of these: {names}"
        )

    def _compiled(self, source: str) -> _Compiled:
        try:
            return _Compiled(self._environment.from_string(source), source)
        except TemplateSyntaxError as error:
            raise ChatTemplateError(error.message or "", error.lineno) from error
        except ValueError as error:  # a number of thousands of digits
            raise ChatTemplateError(_words(error)) from error
        except (RecursionError, MemoryError, SyntaxError, OverflowError):
            raise ChatTemplateError("the template is nested too deeply") from None


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__


def _line(error: Exception) -> int | None:
    line = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _roles(messages: Sequence[Mapping[Any, Any]]) -> list[str | None]:
    roles = (message.get("role") for message in messages)
    return [str.__str__(role) if isinstance(role, str) else None for role in roles]


def _sources_of(file: SourceFile, value: Any) -> dict[str, str]:
    """Return the templates of a config: one, or a list of those that have names."""
    if value is None:
        return {}
    if isinstance(value, str):
        return {_DEFAULT: value}
    sources = {}
    for number, item in enumerate(file.checked_list(value, "chat_template")):
        place = f"chat_template[{number}]"
        file.checked_object(item, place)
        name = file.checked_string(item.get("name"), f"{place}.name")
        sources[name] = file.checked_string(item.get("template"), f"{place}.template")
    return sources


def _tokens_of(config: dict[str, Any]) -> dict[str, str]:
    """Return the special tokens of a config: each a string, or an object with the content."""
    found = {}
    for name in (f"{each}_token" for each in _TOKENS):
        value = config.get(name)
        if isinstance(value, dict):
            value = value.get("content")
        if isinstance(value, str):
            found[name] = value
    return found
