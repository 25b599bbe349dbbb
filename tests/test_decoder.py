"""Ids to bytes, bytes to text, and the offset of each token in the text."""

from __future__ import annotations

import subprocess
import sys
import threading
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import slow_except
from support.vocabularies import vocabulary

from bpetite import Tokenizer
from bpetite._arguments import ERRORS
from bpetite._decoder import byte_offsets, character_offsets

BYTES = Tokenizer.train("", 256)
"""A tokenizer whose only tokens are the bytes and, with id 256, <|endoftext|>."""

TEXT = "Ünïcödé ñ 你好 🙂🚀 мир שלום a\u0301 \ufffd\r\n" * 400
IDS = list(TEXT.encode())
"""More ids than several batches of look-ups, of 4,096 ids each."""


class Id(IntEnum):
    A = 97


TOKENS = {
    **{byte: bytes([byte]) for byte in range(256)},
    **{
        id: f"{length} bytes ".encode().ljust(length, b"-")
        for id, length in enumerate((15, 16, 17, 31, 32, 33, 5000), 300)
    },
    400: "\u00e9\u4f60\U0001f642".encode(),
    401: ("\u4f60" * 9).encode(),
    500: b"<|near|>",
    501: b"<|a special token that is long|>",
    70_000: b"far",
    3_000_000_000: b"<|far|>",
    2**32 - 1: b"the last id",
}
SPECIAL = {TOKENS[id].decode(): id for id in (500, 501, 3_000_000_000)}
MANY = Tokenizer(
    vocabulary({id: TOKENS[id] for id in TOKENS if id > 255}, [], special_tokens=SPECIAL)
)
"""A tokenizer with tokens of many lengths, and ids far from the others."""

ids_of_many = st.lists(st.sampled_from(sorted(TOKENS)), max_size=60)


# Joining


@pytest.mark.parametrize("first", [97, 301, 306, 400, 500, 70_000])
@pytest.mark.parametrize("others", [97, 302, 401, 2**32 - 1])
@pytest.mark.parametrize("count", slow_except([11_000, 13_000], 11_000))
def test_many_ids_are_joined_whatever_the_first_of_them_are(
    first: int, others: int, count: int
) -> None:
    """The native engine predicts the size of the result from the first ids."""
    ids = [first] * 5000 + [others] * count
    expected = TOKENS[first] * 5000 + TOKENS[others] * count
    assert (MANY.decode_bytes(ids), MANY.decode(ids)) == (expected, expected.decode())
    unknown = [*ids, 299]
    with pytest.raises(KeyError, match="299"):
        MANY.decode_bytes(unknown)


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit on memory")
@pytest.mark.parametrize("length", slow_except([60, 5000], 5000))
def test_decode_allocates_exactly(
    length: int,
) -> None:
    program = f"""
import resource
from array import array
from bpetite import PATTERNS, Tokenizer
from bpetite._vocabulary import Vocabulary
tokens = {{**{{byte: bytes([byte]) for byte in range(256)}}, 256: b"-" * {length}}}
tokenizer = Tokenizer(Vocabulary.from_tokens(tokens, [], {{}}, PATTERNS["gpt2"]))
ids = array("I", [256] * 4096 + [97] * 4_000_000)
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 150_000_000, resource.RLIM_INFINITY))
print(len(tokenizer.decode_bytes(ids)), len(tokenizer.decode(ids)))
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    wanted = 4096 * length + 4_000_000
    assert ended.stdout.decode() == f"{wanted} {wanted}\n"


@pytest.mark.parametrize("length", [0, 1, 4095, 4096, 4097, 8191, 8192, 8193])
def test_no_id_is_lost_or_doubled_where_a_batch_ends(length: int) -> None:
    assert BYTES.decode_bytes(IDS[:length]) == TEXT.encode()[:length]


@pytest.mark.parametrize(
    "arranged",
    [tuple, deque, iter, lambda ids: (id for id in ids), lambda ids: dict.fromkeys(ids).keys()],
    ids=["tuple", "deque", "iterator", "generator", "keys"],
)
def test_any_iterable_of_ids_will_do(arranged: Callable[[list[int]], Iterable[int]]) -> None:
    assert BYTES.decode_bytes(arranged(IDS)) == bytes(arranged(IDS))


def test_integers_of_any_type_may_stand_among_ints() -> None:
    ids: list[Any] = [104, np.uint8(105), Id.A] * 2000
    assert BYTES.decode_bytes(ids) == b"hia" * 2000


@given(ids_of_many)
def test_the_bytes_of_ids_are_the_joined_bytes_of_each(ids: list[int]) -> None:
    assert MANY.decode_bytes(ids) == b"".join(map(TOKENS.__getitem__, ids))


@given(ids_of_many)
def test_skipped_special_tokens_have_no_bytes(ids: list[int]) -> None:
    ordinary = [id for id in ids if id not in SPECIAL.values()]
    text = b"".join(map(TOKENS.__getitem__, ordinary)).decode(errors="replace")
    assert MANY.decode(ids, errors="replace", skip_special_tokens=True) == text


@given(ids_of_many, st.sampled_from(ERRORS))
def test_the_text_of_ids_matches_their_bytes(ids: list[int], errors: str) -> None:
    data = b"".join(map(TOKENS.__getitem__, ids))
    assert outcome(MANY.decode, ids, errors=errors) == outcome(data.decode, errors=errors)


@pytest.mark.parametrize("ids", [[97], [0xE9], [97, 400], [401], [0xC3, 0xA9], [300] * 3, []])
def test_a_text_has_the_form_of_any_other_str(ids: list[int]) -> None:
    """A str with wider characters than it needs would be unequal to the usual one."""
    text = MANY.decode(ids, errors="ignore")
    same = "".join(list(text))
    assert (text == same, hash(text), text.isascii()) == (True, hash(same), same.isascii())


# Buffers of integers

ARRAYS = {f"array {code}": partial(array, code) for code in "bBhHiIlLqQ"}
MEMORYVIEWS = {
    f"memoryview {code}": lambda ids, code=code: memoryview(array(code, ids))
    for code in "bBhHiIlLqQ"
}
NUMPY = {
    f"numpy {order}{kind}": lambda ids, dtype=order + kind: np.array(ids, dtype)
    for kind in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")
    for order in "<>"
}
OTHERS: dict[str, Callable[[list[int]], Any]] = {
    "numpy, every second": lambda ids: np.repeat(np.array(ids, np.uint32), 2)[::2],
    "numpy, backwards": lambda ids: np.array(ids[::-1], np.uint32)[::-1],
    "numpy, read only": lambda ids: np.frombuffer(np.array(ids, np.uint32).tobytes(), np.uint32),
    "numpy, not aligned": lambda ids: np.frombuffer(
        b"." + np.array(ids, np.uint32).tobytes(), np.uint32, offset=1
    ),
    "numpy, a column": lambda ids: np.array([ids, ids], np.int64).T[:, 0],
    "memoryview, every second": lambda ids: np.repeat(ids, 2).data[::2],
    "memoryview, not aligned": lambda ids: memoryview(b"." + array("I", ids).tobytes())[1:].cast(
        "I"
    ),
}
BUFFERS = ARRAYS | MEMORYVIEWS | NUMPY | OTHERS


@pytest.fixture(params=list(BUFFERS.values()), ids=list(BUFFERS))
def buffer_of(request: pytest.FixtureRequest) -> Callable[[list[int]], Any]:
    """A function that makes a buffer of ids."""
    made: Callable[[list[int]], Any] = request.param
    return made


@pytest.mark.parametrize("ids", [[], [0], [97, 127], [104, 105] * 9999], ids=len)
def test_a_buffer_is_decoded_like_a_list(
    buffer_of: Callable[[list[int]], Any], ids: list[int]
) -> None:
    assert MANY.decode_bytes(buffer_of(ids)) == bytes(ids)
    assert MANY.decode(buffer_of(ids)) == bytes(ids).decode()
    assert MANY.decode_batch([buffer_of(ids)] * 2) == [bytes(ids).decode()] * 2
    assert MANY.decode_with_offsets(buffer_of(ids)) == (bytes(ids).decode(), [*range(len(ids))])


@given(ids_of_many, st.booleans(), st.sampled_from([np.uint32, np.int64, np.uint64]))
def test_a_buffer_of_any_ids_is_decoded_like_a_list(
    ids: list[int], skip: bool, dtype: type[np.integer[Any]]
) -> None:
    buffer = np.array(ids, dtype)
    assert MANY.decode_bytes(buffer) == MANY.decode_bytes(ids)
    assert MANY.decode(buffer, errors="replace", skip_special_tokens=skip) == MANY.decode(
        ids, errors="replace", skip_special_tokens=skip
    )


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_a_memory_mapped_array_is_decoded_like_a_list(tmp_path: Path, dtype: type) -> None:
    np.array(IDS, dtype).tofile(tmp_path / "ids")
    assert BYTES.decode(np.memmap(tmp_path / "ids", dtype, "r")) == TEXT


@pytest.mark.parametrize(
    ("buffer", "unknown"),
    [
        (array("i", [97, 257, 98]), 257),
        (array("b", [97, -1, 98]), -1),
        (array("q", [97, -(2**32) + 97]), -(2**32) + 97),
        (array("q", [97, 2**32 + 97]), 2**32 + 97),
        (np.array([97, 2**64 - 1], np.uint64), 2**64 - 1),
        (np.array([97, 2**32 - 1], np.uint32), 2**32 - 1),
        (np.array([97] * 20_000 + [-97], np.int16), -97),
        (memoryview(array("h", [300, 97])), 300),
    ],
)
def test_an_unknown_id_in_a_buffer_is_named(buffer: Any, unknown: int) -> None:
    with pytest.raises(KeyError, match=rf"id {unknown} is not in .* from 0 to 256"):
        BYTES.decode_bytes(buffer)


@pytest.mark.parametrize(
    "buffer",
    [
        array("f", [97.0]),
        array("d", [97.0]),
        memoryview(b"ab").cast("c"),
        memoryview(b"\x00\x01").cast("?"),
        np.array([97.0]),
        np.array([97.0], np.float16),
        np.array([True, False]),
        np.array([b"a"]),
        np.array(["a"]),
        np.array([97], "m8[s]"),
        np.array([97], "M8[s]"),
        np.array([(97,)], [("id", np.int32)]),
        np.array([None]),
        np.ma.array([97, 98], mask=[False, True]),
        np.array(97),
        np.array([[97]]),
        np.array([[97, 98], [99, 100]]),
        memoryview(b"abcd").cast("B", (2, 2)),
        memoryview(np.array([97], np.dtype("u4").newbyteorder("S")).data),
    ],
    ids=lambda buffer: f"{type(buffer).__name__} {getattr(buffer, 'format', '')}",
)
def test_a_buffer_of_what_is_no_id_is_refused(buffer: Any) -> None:
    with pytest.raises(TypeError, match=r"ids? (must be|are a)|0-d"):
        BYTES.decode(buffer)


def test_a_users_type_gives_the_ids_of_its_iterator() -> None:
    class Reversed(array):  # type: ignore[type-arg]
        def __iter__(self) -> Iterator[int]:
            return iter(self.tolist()[::-1])

    assert BYTES.decode(Reversed("B", b"ab")) == "ba"


def test_a_buffer_is_free_again_when_it_is_decoded() -> None:
    ids = array("I", [97])
    assert BYTES.decode(ids) == "a"
    ids.append(300)
    with pytest.raises(KeyError):
        BYTES.decode(ids)
    ids.append(97)


def test_a_buffer_that_was_released_is_refused() -> None:
    ids = memoryview(b"ab")
    ids.release()
    with pytest.raises(ValueError, match="released"):
        BYTES.decode(ids)


@contextmanager
def meanwhile(change: Callable[[], object]) -> Iterator[None]:
    """Let another thread call `change` again and again during the block."""
    done = threading.Event()

    def run() -> None:
        while not done.is_set():
            change()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_a_buffer_changed_during_decode_gives_ids_it_had() -> None:
    ids = np.full(50_000, 97, np.uint32)

    def change() -> None:
        ids[:] = 401
        ids[:] = 97

    with meanwhile(change):
        texts = {character for _ in range(10) for character in MANY.decode(ids)}
    assert texts <= {"a", "\u4f60"}


def test_a_list_that_changes_meanwhile_gives_ids_that_were_in_it() -> None:
    ids = [97] * 5000

    def change() -> None:
        ids.extend([401] * 5000)
        del ids[5000:]

    with meanwhile(change):
        texts = {character for _ in range(100) for character in MANY.decode(ids)}
    assert texts <= {"a", "\u4f60"}


# Refusing


def outcome(call: Callable[..., str], *arguments: Any, **others: Any) -> object:
    """Return the result of a call, or the attributes of its UnicodeDecodeError."""
    try:
        return call(*arguments, **others)
    except UnicodeDecodeError as error:
        return error.encoding, error.object, error.start, error.end, error.reason


@pytest.mark.parametrize("position", [0, 4095, 4096, 9999])
@pytest.mark.parametrize("unknown", [257, -1, 1 << 70])
def test_an_unknown_id_is_named_wherever_it_is(position: int, unknown: int) -> None:
    ids = [97] * 10_000
    ids[position] = unknown
    with pytest.raises(KeyError, match=rf"id {unknown} is not in .* from 0 to 256"):
        BYTES.decode(ids)


@pytest.mark.parametrize("position", [0, 4095, 4096, 9999])
@pytest.mark.parametrize(
    "no_id",
    [True, False, 97.0, "a", b"a", None, [97], np.float64(97), np.bool_(True), 97 + 0j],
    ids=repr,
)
def test_other_items_than_integers_are_refused_at_any_place(position: int, no_id: Any) -> None:
    """True and 97.0 equal ids, so a look-up alone would confuse them with 1 and 97."""
    ids: list[Any] = [97] * 10_000
    ids[position] = no_id
    with pytest.raises(TypeError, match="id must be an integer"):
        BYTES.decode(ids)


def test_bad_bytes_have_their_position_in_the_whole() -> None:
    ids = [97] * 5000 + [0xE4, 0xBD, 97]
    with pytest.raises(UnicodeDecodeError) as caught:
        BYTES.decode(ids)
    assert (caught.value.object, caught.value.start, caught.value.end) == (bytes(ids), 5000, 5002)


# `errors`: bytes that are not UTF-8


# Offsets


def character_of_each_byte(text: str) -> list[int]:
    """Return the index of the character of each byte of `text`, and of its end."""
    indices = [index for index, character in enumerate(text) for _ in character.encode()]
    return [*indices, len(text)]


@given(st.text(st.sampled_from("aé你🙂\u0301\ufffd\n") | st.characters(codec="utf-8")), st.data())
def test_an_offset_locates_the_first_byte_of_a_token(text: str, data: st.DataObject) -> None:
    encoded = text.encode()
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(encoded) - 1)))))
    bounds = [0, *(cut for cut in cuts if cut < len(encoded)), len(encoded)]
    tokens = [encoded[start:end] for start, end in pairwise(bounds)]
    character = character_of_each_byte(text)
    ids, bytes_of = [*range(len(tokens))], dict(enumerate(tokens))
    assert byte_offsets(ids, bytes_of) == bounds[:-1]
    assert character_offsets(ids, bytes_of) == [character[start] for start in bounds[:-1]]


def test_offsets_are_made_from_ids_that_can_be_read_once() -> None:
    assert BYTES.decode_with_offsets(id for id in "aé".encode()) == ("aé", [0, 1, 1])


def test_offsets_of_bytes_that_are_not_utf8_are_refused() -> None:
    with pytest.raises(UnicodeDecodeError):
        BYTES.decode_with_offsets([97, 0xC3])
