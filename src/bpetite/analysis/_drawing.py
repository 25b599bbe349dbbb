"""How pages and notebooks show a token in HTML."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from jinja2 import Environment

_TOKEN_CHARACTERS = 40

_SIGNS = {" ": "·", "\n": "↵", "\r": "↵", "\t": "→"}


def environment(what: str, **filters: Callable[..., Any]) -> Environment:
    """Return Jinja's environment for the templates of this package; it escapes all text.

    Raises ModuleNotFoundError without Jinja, which `what` needs.
    """
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{what} needs Jinja, which is not installed: pip install jinja2", name=error.name
        ) from None
    made = Environment(
        loader=PackageLoader("bpetite.analysis", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"signs": signs, **filters}
    return made


class Sign(NamedTuple):
    """A part of a token as the page shows it: text, a sign for a character, or bytes."""

    kind: str
    text: str


def signs(token: bytes) -> Iterator[Sign]:
    r"""Yield the parts of a token, at most 40 characters of it.

    >>> [sign.text for sign in signs(b" a\n")]
    ['·', 'a', '↵']
    >>> [*signs(b"\xe2\x80")]
    [Sign(kind='hex', text='E2 80')]
    """
    try:
        text = token.decode("utf-8")
    except UnicodeDecodeError:
        dots = "…" if len(token) > _TOKEN_CHARACTERS else ""
        yield Sign("hex", token[:_TOKEN_CHARACTERS].hex(" ").upper() + dots)
        return
    plain = ""
    for character in text[:_TOKEN_CHARACTERS]:
        is_plain = character.isprintable() and character not in _SIGNS
        if is_plain or (plain and unicodedata.category(character).startswith("M")):
            plain += character
            continue
        if plain:
            yield Sign("text", plain)
            plain = ""
        yield Sign("sign", _SIGNS.get(character, f"\\u{{{ord(character):x}}}"))
    if plain:
        yield Sign("text", plain)
    if len(text) > _TOKEN_CHARACTERS:
        yield Sign("sign", "…")
