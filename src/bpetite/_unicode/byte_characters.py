"""The printable characters that stand for bytes in the files of GPT-2 and Hugging Face.

The 188 bytes that are printable characters of Latin-1 stand for themselves; the others are, in
order, the characters from U+0100 on (openai/gpt-2, src/encoder.py).
"""

from __future__ import annotations

import codecs


def _characters() -> list[str]:
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


_CHARACTER_OF = _characters()
_BYTE_OF = {character: byte for byte, character in enumerate(_CHARACTER_OF)}

# CPython encodes five times as fast by such a map, but makes one only if U+0000 is the byte 0. The
# dict handles U+0000 and the character that stands for the byte 0.
_QUICK_MAP = codecs.charmap_build("\0" + "".join(_CHARACTER_OF[1:]))


def to_characters(token: bytes) -> str:
    r"""Return the characters that stand for the bytes of a token.

    >>> to_characters(b" t\n")
    'ĠtĊ'
    """
    return "".join(map(_CHARACTER_OF.__getitem__, token))


def to_bytes(text: str) -> bytes:
    """Return the bytes that the characters of a token stand for.

    >>> to_bytes("Ġt")
    b' t'

    Raises ValueError for a character that stands for no byte.
    """
    if "\0" not in text:
        try:
            return codecs.charmap_encode(text, "strict", _QUICK_MAP)[0]
        except UnicodeEncodeError:
            pass  # the byte 0, or a character that stands for no byte
    try:
        return bytes(map(_BYTE_OF.__getitem__, text))
    except KeyError as error:
        raise ValueError(
            f"the character {error.args[0]!r} of {text!r} stands for no byte"
        ) from None


def is_byte_character(character: str) -> bool:
    """Return whether a character stands for a byte.

    >>> is_byte_character("Ġ"), is_byte_character(" ")
    (True, False)
    """
    return character in _BYTE_OF
