"""Ids to the bytes of their tokens."""

from __future__ import annotations

from collections.abc import Iterable
from operator import countOf

from bpetite._vocabulary import TokenBytes, as_id

# A batch stays in the processor's cache until it is joined: measured, nearly twice as fast as one
# join over a million tokens.
_BATCH_IDS = 4096


def join_tokens(ids: Iterable[int], bytes_of: TokenBytes) -> bytes:
    """Return the bytes of all ids, joined.

    >>> join_tokens([104, 105], TokenBytes({104: b"h", 105: b"i"}))
    b'hi'

    Raises KeyError for an id that `bytes_of` lacks, TypeError for one that is not an integer.
    """
    all_ids = ids if isinstance(ids, list) else as_list(ids)
    parts = []
    for start in range(0, len(all_ids), _BATCH_IDS):
        batch = all_ids[start : start + _BATCH_IDS]
        # A dict of ints would find True and 97.0 too, so check the types first.
        if countOf(map(type, batch), int) != len(batch):
            batch = list(map(as_id, batch))
        parts.append(b"".join(map(bytes_of.__getitem__, batch)))
    return b"".join(parts)


def as_list(ids: Iterable[int]) -> list[int]:
    """Return ids as a list; a memoryview must have one dimension and a native format.

    >>> as_list(memoryview(b"ab"))
    [97, 98]

    Raises TypeError for a value that is not iterable.
    """
    try:
        return list(ids)
    except NotImplementedError as error:
        if isinstance(ids, memoryview):
            raise TypeError(
                f"ids are a memoryview of {ids.ndim} dimensions and the format {ids.format!r}, "
                f"whose items cannot be read one by one"
            ) from error
        raise


def character_offsets(tokens: Iterable[bytes]) -> list[int]:
    r"""Return, for each token, the index of the character that its first byte is in.

    The tokens, joined, must be valid UTF-8.

    >>> character_offsets([b"a", b"\xc3", b"\xa9", b"b"])
    [0, 1, 1, 2]
    """
    offsets = []
    characters = 0  # begun so far
    for token in tokens:
        begins_inside = 0x80 <= token[0] < 0xC0 if token else False
        offsets.append(characters - begins_inside)
        characters += sum(not 0x80 <= byte < 0xC0 for byte in token)
    return offsets
