"""A rendered prompt: its text, and where each character comes from."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from itertools import groupby
from typing import Literal, NamedTuple, TypeAlias

from bpetite import Tokenizer, Trusted
from bpetite.chat._text import ARGUMENT, GENERATED, TEMPLATE, Text, line_of, number_of

Origin: TypeAlias = Literal["template", "message", "argument", "untracked"]

_NAMES: dict[int, Origin] = {TEMPLATE >> 1: "template", ARGUMENT >> 1: "argument"}


class ChatTemplateError(ValueError):
    """A template refuses its messages, or is wrong.

    `line` is the line of the template, or None if it is not known.
    """

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class OriginText(NamedTuple):
    """Characters of a prompt that come from the same place.

    `message` is the number of the message that has them, and `line` the line of the template that
    printed untracked text. `generated` says that they are inside `{% generation %}`.
    """

    text: str
    origin: Origin
    message: int | None
    role: str | None
    line: int | None
    generated: bool


class RenderedPrompt:
    """The prompt that a chat template makes of messages.

    >>> from bpetite.chat import ChatTemplate
    >>> template = ChatTemplate("{% for m in messages %}<u>{{ m.content }}</u>{% endfor %}")
    >>> prompt = template.render([{"role": "user", "content": "Hi</u>"}])
    >>> prompt.text
    '<u>Hi</u></u>'
    >>> prompt.segments
    [Trusted('<u>'), 'Hi</u>', Trusted('</u>')]
    """

    def __init__(
        self, text: Text, roles: Sequence[str | None], trusted_roles: Collection[str]
    ) -> None:
        self._text = text
        self.roles: Sequence[str | None] = roles
        """The role of each message, or None."""
        self._trusted_roles = trusted_roles

    @property
    def text(self) -> str:
        """The prompt as one string: what transformers renders."""
        return str.__str__(self._text)

    @property
    def segments(self) -> list[str]:
        """The prompt for `Tokenizer.encode_parts`: the template's text is `Trusted`.

        So are the messages of trusted roles. All other text is plain: messages, tools, documents
        and other arguments. Joined, the segments are the text.
        """
        keyed = ((self._segment(origin), run) for run, origin in self._text.runs())
        return [
            Trusted(text) if key is None else text
            for key, runs in groupby(keyed, key=lambda pair: pair[0])
            for text in ["".join(run for _, run in runs)]
        ]

    @cached_property
    def texts(self) -> list[OriginText]:
        """The text, divided where the origin changes."""
        return [self._described(run, origin) for run, origin in self._text.runs()]

    def check(self, tokenizer: Tokenizer, *, guard: Iterable[str] | None = None) -> None:
        """Raise ChatTemplateError if a special literal has a character that is untracked.

        Such a literal may come from the template or from a user, so no reading of it is safe. A
        literal that `Tokenizer.encode_parts` guards counts as special; `guard` is its argument.

        >>> from bpetite import Tokenizer
        >>> from bpetite.chat import ChatTemplate
        >>> template = ChatTemplate("{{ messages[0].content | urlencode }}")
        >>> prompt = template.render([{"role": "user", "content": "end"}])
        >>> prompt.check(Tokenizer.train("", 256, special_tokens=["end"]))
        Traceback (most recent call last):
        bpetite.chat._prompt.ChatTemplateError: line 1 of the template prints untracked text with \
the special token 'end'; use fewer string operations on that line, or print the text unchanged
        """
        if all(line_of(origin) is None for _, origin in self._text.runs()):
            return
        guard = None if guard is None else frozenset(guard)
        text = self.text
        special = [
            literal
            for literal, id in tokenizer.special_tokens.items()
            if literal in text and tokenizer.encode_parts([literal], guard=guard)[0] != [id]
        ]
        if not special:
            return
        special.sort(key=len, reverse=True)
        literal = re.compile(f"(?=({'|'.join(map(re.escape, special))}))")
        longest = len(special[0])
        start = 0
        for run, origin in self._text.runs():
            end = start + len(run)
            line = line_of(origin)
            if line is not None:
                for found in literal.finditer(text, max(0, start - longest + 1), end + longest - 1):
                    if found.start(1) < end and found.end(1) > start:
                        raise ChatTemplateError(
                            f"line {line or 'unknown'} of the template prints untracked text with "
                            f"the special token {found[1]!r}; use fewer string operations on that "
                            f"line, or print the text unchanged",
                            line or None,
                        )
            start = end

    def _described(self, text: str, origin: int) -> OriginText:
        number = number_of(origin)
        line = line_of(origin)
        name: Origin = "message" if number >= 0 else _NAMES.get(number, "untracked")
        return OriginText(
            text,
            name,
            number if number >= 0 else None,
            self.roles[number] if number >= 0 else None,
            line or None,
            bool(origin & GENERATED),
        )

    def _segment(self, origin: int) -> int | None:
        """Return the key by which text is put into segments: None for all trusted text."""
        number = number_of(origin)
        if number == number_of(TEMPLATE):
            return None
        return None if number >= 0 and self.roles[number] in self._trusted_roles else number


def encoded(text: str) -> bytes:
    """Return the UTF-8 of a text. Surrogates may stand for bytes that are not UTF-8."""
    return text.encode("utf-8", "surrogateescape")
