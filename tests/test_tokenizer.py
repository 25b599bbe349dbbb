"""The tokenizer as its users see it: each method with its refusals, and the tokenizer itself."""

from __future__ import annotations

import copy
import pickle
import re
import weakref
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from inspect import signature
from mmap import mmap
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import reference
from support.vocabularies import vocabulary

from bpetite import DecodeStreamBatch, PieceCounts, Tokenizer, _encoder, corpora
from bpetite._pretokenizer import GPT2_PATTERN
from bpetite._vocabulary import Vocabulary
from bpetite.analysis import report

A, END = "<|a|>", "<|endoftext|>"

SMALL = Tokenizer.train("ab ab ab", 258, special_tokens=[END, A])
"""Two merges, ab and " ab"; the special tokens have the ids 258 and 259."""

AB, SPACE_AB, END_ID, A_ID = 256, 257, 258, 259

PLAIN = Tokenizer.train("ab ab ab", 258, special_tokens=())


FRAMED = Tokenizer(
    Vocabulary(
        SMALL.merges,
        SMALL.special_tokens,
        SMALL.patterns[0],
        prefix_ids=(A_ID, A_ID),
        suffix_ids=(END_ID,),
        settings={"bos_token": A},
    )
)
"""SMALL, but with ids to put around a text."""


# Encoding


def test_encode_returns_plain_ints_in_a_plain_list() -> None:
    ids = SMALL.encode(f"ab ab{END}x")
    assert (type(ids), {type(id) for id in ids}) == (list, {int})


@given(
    st.lists(st.text("<|a>. ", min_size=1, max_size=4), max_size=5, unique=True),
    st.text("<|a>. b", max_size=30),
)
def test_encode_is_the_textbooks_with_any_special_tokens(literals: list[str], text: str) -> None:
    tokenizer = Tokenizer.train("a> a> <|a", 260, special_tokens=literals)
    merges, special_tokens = tokenizer.merges, tokenizer.special_tokens
    assert tokenizer.encode(text) == reference.encode(text, merges, special_tokens)
    assert tokenizer.encode_ordinary(text) == reference.encode(text, merges)


@pytest.mark.parametrize("text", ["", "ab", f"ab{END}", A])
def test_add_special_tokens_puts_ids_around_a_text(text: str) -> None:
    ids = SMALL.encode(text)
    framed = [A_ID, A_ID, *ids, END_ID]
    assert (FRAMED.encode(text), FRAMED.count(text)) == (ids, len(ids))
    assert FRAMED.encode(text, add_special_tokens=True) == framed
    assert FRAMED.count(text, add_special_tokens=True) == len(framed)
    assert FRAMED.encode_batch([text, ""], add_special_tokens=True) == [
        framed,
        [A_ID, A_ID, END_ID],
    ]


def test_ids_around_a_text_are_none_that_is_disallowed() -> None:
    """They are not in the text."""
    framed = FRAMED.encode("ab", disallowed_special="all", add_special_tokens=True)
    assert framed == FRAMED.encode("ab", allowed_special=(), add_special_tokens=True)
    assert framed == [A_ID, A_ID, AB, END_ID]


@pytest.mark.parametrize("text", ["", f"ab é{A}"])
def test_a_trained_vocabulary_puts_nothing_around_a_text(text: str) -> None:
    ids = SMALL.encode(text)
    assert SMALL.encode(text, add_special_tokens=True) == ids
    assert SMALL.count(text, add_special_tokens=True) == len(ids)


def test_encode_batch_passes_on_allowed_special() -> None:
    assert SMALL.encode_batch([A, END], allowed_special={A}) == [[A_ID], [*END.encode()]]
    assert SMALL.count(A + END, allowed_special={A}) == 1 + len(END)
    with pytest.raises(ValueError, match="special token"):
        SMALL.encode_batch(["ab", A], disallowed_special={A})


def test_allowed_special_of_a_batch_may_be_an_iterator() -> None:
    allowed: Any = iter([A])
    assert SMALL.encode_batch([A, END, A], allowed_special=allowed) == [
        [A_ID],
        [*END.encode()],
        [A_ID],
    ]


def test_an_empty_batch_refuses_an_unknown_special_token() -> None:
    with pytest.raises(ValueError, match="not a special token"):
        SMALL.encode_batch([], allowed_special={"<|end|>"})


def test_arguments_equal_to_the_usual_ones_are_those() -> None:
    """They are told from others by identity, which is faster."""
    options: dict[str, Any] = {
        "allowed_special": "".join(["a", "ll"]),
        "disallowed_special": [],
        "add_special_tokens": 0,
        "errors": "".join(["str", "ict"]),
    }
    assert SMALL.encode(f"ab{A}", **options) == SMALL.encode(f"ab{A}") == [AB, A_ID]
    assert SMALL.count(f"ab{A}", **options) == SMALL.count(f"ab{A}") == 2


def test_count_refuses_what_encode_refuses() -> None:
    with pytest.raises(ValueError, match="special token"):
        SMALL.count(A, disallowed_special={A})


@pytest.mark.parametrize(
    ("texts", "name"),
    [
        ("ab", "str"),
        (b"ab", "bytes"),
        (bytearray(b"ab"), "bytearray"),
        (memoryview(b"ab"), "memoryview"),
        (mmap(-1, 2), "mmap"),
        (5, "int"),
        (None, "NoneType"),
    ],
)
@pytest.mark.parametrize(
    "function", [SMALL.encode_batch, partial(SMALL.encode_batch, dtype="uint32")]
)
def test_a_batch_of_texts_that_is_none_is_refused(
    function: Callable[[Any], object], texts: Any, name: str
) -> None:
    with pytest.raises(TypeError) as caught:
        function(texts)
    assert str(caught.value) == f"texts must be an iterable of texts, got {name}"


def test_a_str_may_be_of_a_subclass() -> None:
    class Text(str):
        __slots__ = ()

    assert SMALL.encode(Text(f"ab{END}")) == [AB, END_ID]
    assert SMALL.decode(SMALL.encode(Text("ab é"))) == "ab é"


# Which special tokens are allowed


@pytest.mark.parametrize(
    ("allowed", "disallowed", "refused"),
    [
        ("all", "all", None),
        ("all", (), None),
        ("all", {A}, A),
        ("all", {A, END}, END),
        ((), "all", END),
        ({END}, "all", A),
        ({END, A}, "all", None),
        ({END}, {END}, END),
        ((), [A], A),
    ],
)
def test_disallowed_literals_are_refused(
    allowed: Any, disallowed: Any, refused: str | None
) -> None:
    """The first of those that are: in the text, <|endoftext|> comes before <|a|>."""
    text = f"ab {END} {A}"
    options = {"allowed_special": allowed, "disallowed_special": disallowed}
    if refused is None:
        assert SMALL.encode(text, **options) == [AB, 32, END_ID, 32, A_ID]
    else:
        with pytest.raises(ValueError, match="has the special token") as caught:
            SMALL.encode(text, **options)
        place = f"text has the special token {refused!r} at character {text.index(refused)},"
        assert str(caught.value)[: len(place)] == place


def test_a_refusal_says_where_and_both_ways_out() -> None:
    with pytest.raises(ValueError, match="special token") as caught:
        SMALL.encode(f"🙂é{END}", disallowed_special="all", allowed_special=())
    assert str(caught.value) == (
        "text has the special token '<|endoftext|>' at character 2, which disallowed_special "
        "refuses; to encode it as its id, pass allowed_special={'<|endoftext|>'} and leave it out "
        "of disallowed_special; to encode it as ordinary text, leave it out of both, or use "
        "encode_ordinary"
    )


@pytest.mark.parametrize("name", ["allowed_special", "disallowed_special"])
@pytest.mark.parametrize("function", [Tokenizer.encode, Tokenizer.count])
def test_an_unknown_special_token_is_refused(name: str, function: Callable[..., object]) -> None:
    """Even in a text that does not have it: a guard that is misspelt guards nothing."""
    with pytest.raises(ValueError, match="not a special token") as caught:
        function(SMALL, "ab", **{name: {END, "<|end|>"}})
    assert str(caught.value) == (
        f"{name} has '<|end|>', which is not a special token of this vocabulary "
        "(these are: '<|endoftext|>', '<|a|>')"
    )


def test_unknown_special_tokens_raise_without_any_special_token() -> None:
    with pytest.raises(ValueError, match=r"not a special token .* \(these are: none\)"):
        PLAIN.encode("ab", allowed_special={END})


@pytest.mark.parametrize("name", ["allowed_special", "disallowed_special"])
def test_a_single_str_of_special_tokens_is_refused(name: str) -> None:
    arguments: dict[str, Any] = {name: END}
    with pytest.raises(TypeError) as caught:
        SMALL.encode("ab", **arguments)
    assert str(caught.value) == (
        f'{name} must be "all" or a collection of special tokens, got the str '
        "'<|endoftext|>'; for one, pass {'<|endoftext|>'}"
    )


def test_a_collection_can_name_the_special_token_all() -> None:
    tokenizer = Tokenizer.train("", 256, special_tokens=["all", "none"])
    assert tokenizer.encode("all none", allowed_special={"all"}) == [256, *b" none"]


# Decoding


@pytest.mark.parametrize(
    ("ids", "text"),
    [([END_ID], ""), ([AB, END_ID, SPACE_AB, A_ID], "ab ab"), ([0xC3, A_ID, 0xA9], "é"), ([], "")],
)
def test_special_tokens_can_be_skipped(ids: list[int], text: str) -> None:
    assert SMALL.decode(ids, skip_special_tokens=True) == text
    assert SMALL.decode_bytes(ids, skip_special_tokens=True) == text.encode()


def test_literals_in_ordinary_text_are_not_skipped() -> None:
    assert SMALL.decode(SMALL.encode_ordinary(END), skip_special_tokens=True) == END


@pytest.mark.parametrize(
    ("errors", "text"),
    [("replace", "ab\ufffd ab"), ("ignore", "ab ab"), ("backslashreplace", "ab\\xff ab")],
)
def test_errors_is_for_bytes_that_are_not_utf8(errors: str, text: str) -> None:
    ids = [AB, 0xFF, SPACE_AB]
    assert SMALL.decode(ids, errors=errors) == text
    assert SMALL.decode_batch([ids, ids], errors=errors) == [text, text]


@pytest.mark.parametrize("errors", ["surrogateescape", "xmlcharrefreplace", "STRICT", ""])
def test_errors_of_another_name_are_refused(errors: Any) -> None:
    with pytest.raises(ValueError, match="errors must be one of strict, replace, ignore, "):
        SMALL.decode([], errors=errors)


@pytest.mark.parametrize("errors", [None, 0, b"strict"])
def test_errors_of_another_type_are_refused(errors: Any) -> None:
    with pytest.raises(TypeError, match=f"errors must be a str, got {type(errors).__name__}"):
        SMALL.decode([], errors=errors)


def test_decode_batch_decodes_each_sequence() -> None:
    batch = [[AB], [], [END_ID, 97]]
    assert SMALL.decode_batch(batch) == ["ab", "", END + "a"]
    assert SMALL.decode_batch(iter(batch), skip_special_tokens=True) == ["ab", "", "a"]
    assert SMALL.decode_batch([]) == []
    assert SMALL.decode_batch(np.array([[97, 98], [AB, SPACE_AB]])) == ["ab", "ab ab"]


TAKES_IDS = [
    Tokenizer.decode,
    Tokenizer.decode_bytes,
    Tokenizer.decode_with_offsets,
    lambda tokenizer, ids: tokenizer.decode_batch([[97], ids]),
    lambda tokenizer, ids: [tokenizer.token_bytes(id) for id in ids],
]
TAKES_IDS_IDS = ["decode", "decode_bytes", "decode_with_offsets", "decode_batch", "token_bytes"]

takes_ids = pytest.mark.parametrize("function", TAKES_IDS, ids=TAKES_IDS_IDS)


@takes_ids
@pytest.mark.parametrize("id", [260, 1000, -1, -256, 1 << 31, 1 << 64, -(1 << 64)])
def test_an_unknown_id_is_named(function: Callable[[Tokenizer, Any], object], id: int) -> None:
    with pytest.raises(KeyError) as caught:
        function(SMALL, [97, id])
    expected = f"id {id} is not in this vocabulary (its ids run from 0 to 259)"
    assert caught.value.args == (expected,)


@takes_ids
@pytest.mark.parametrize(
    ("id", "message"),
    [
        (True, "got the bool True"),
        (97.0, "got float 97.0"),
        (None, "got NoneType None"),
        ("a", "got str 'a'"),
        (b"a", "got bytes b'a'"),
        (np.float32(97), f"got float32 {np.float32(97)!r}"),
        (1 + 0j, "got complex (1+0j)"),
    ],
    ids=repr,
)
def test_an_id_that_is_no_integer_is_refused(
    function: Callable[[Tokenizer, Any], object], id: Any, message: str
) -> None:
    with pytest.raises(TypeError) as caught:
        function(SMALL, [97, id])
    assert str(caught.value) == f"an id must be an integer, {message}"


@takes_ids
def test_ids_may_be_numpys(function: Callable[[Tokenizer, Any], object]) -> None:
    ids = SMALL.encode(f"ab é{END}")
    expected = function(SMALL, ids)
    for dtype in (np.int16, np.uint16, np.int32, np.int64, np.uint64):
        assert function(SMALL, np.array(ids, dtype=dtype)) == expected
        assert function(SMALL, [dtype(id) for id in ids]) == expected


@pytest.mark.parametrize("function", TAKES_IDS[:-1], ids=TAKES_IDS_IDS[:-1])
@pytest.mark.parametrize(
    ("ids", "name"),
    [
        ("ab", "str"),
        (b"ab", "bytes"),
        (bytearray(b"a"), "bytearray"),
        (5, "int"),
        (None, "NoneType"),
    ],
)
def test_values_that_are_no_ids_are_refused(
    function: Callable[[Tokenizer, Any], object], ids: Any, name: str
) -> None:
    with pytest.raises(TypeError) as caught:
        function(SMALL, ids)
    assert str(caught.value) == f"ids must be an iterable of int, got {name}"


def frame_of(items: Any) -> Any:
    return pytest.importorskip("pandas").DataFrame({"text": items})


def series_of(items: Any) -> Any:
    return pytest.importorskip("pandas").Series(items)


ID_FUNCTIONS: dict[str, Callable[[Any], object]] = {
    "decode": SMALL.decode,
    "decode_bytes": SMALL.decode_bytes,
    "decode_with_offsets": SMALL.decode_with_offsets,
    "decode_batch": lambda ids: SMALL.decode_batch([ids]),
    "first_noncanonical": SMALL.first_noncanonical,
    "extend_ids": lambda ids: SMALL.extend_ids(ids, " b"),
    "prompt_ids": lambda ids: SMALL.decode_stream(ids).step(98),
    "step": lambda ids: SMALL.decode_stream().step(ids),
    "stream": lambda ids: [*SMALL.stream(ids)],
    "stop_ids": lambda ids: SMALL.decode_stream(stop_ids=ids).step(97),
}

TEXT_FUNCTIONS: dict[str, Callable[[Any], object]] = {
    "encode_batch": SMALL.encode_batch,
    "encode_parts": SMALL.encode_parts,
    "extend_ids": lambda texts: SMALL.extend_ids([], texts),
    "train": lambda texts: Tokenizer.train(texts, 256).n_vocab,
    "from_corpus": PieceCounts.from_corpus,
    "encode": lambda texts: [ids.tolist() for ids, *_ in corpora.encode(SMALL, texts)],
    "count": lambda texts: corpora.count(SMALL, texts),
}


class Index:
    """An integer as torch has them."""

    def __init__(self, value: int) -> None:
        self._value = value

    def __index__(self) -> int:
        return self._value


@pytest.mark.parametrize("function", ID_FUNCTIONS.values(), ids=ID_FUNCTIONS)
@pytest.mark.parametrize(
    "kind",
    [
        tuple,
        partial(array, "I"),
        *(partial(np.array, dtype=dtype) for dtype in ("u1", "i2", ">i4", "u8", "O")),
        series_of,
        lambda ids: pytest.importorskip("pandas").Series(ids, index=["keys", "columns", 0]),
        lambda ids: pytest.importorskip("polars").Series(ids),
        lambda ids: pytest.importorskip("pyarrow").array(ids),
        lambda ids: pytest.importorskip("pyarrow").chunked_array([ids]),
        lambda ids: [*map(Index, ids)],
        deque,
    ],
)
def test_ids_come_in_any_sequence(function: Callable[[Any], object], kind: Any) -> None:
    ids = [97, 98, 32]
    assert function(kind(ids)) == function(ids)


@pytest.mark.parametrize("function", ID_FUNCTIONS.values(), ids=ID_FUNCTIONS)
@pytest.mark.parametrize("kind", [set, frozenset, dict.fromkeys, Counter, frame_of])
def test_ids_without_an_order_are_refused(function: Callable[[Any], object], kind: Any) -> None:
    ids = kind([97])
    if function is ID_FUNCTIONS["stop_ids"] and isinstance(ids, (set, frozenset)):
        assert function(ids) == function([97])
        return
    with pytest.raises(TypeError, match=r"^(stop_)?(prompt_)?ids.* must .* got .*; give "):
        function(ids)


@pytest.mark.parametrize("function", TEXT_FUNCTIONS.values(), ids=TEXT_FUNCTIONS)
@pytest.mark.parametrize(
    ("texts", "fault"),
    [
        (lambda: {"the hen"}, "must have an order, got set; give a list"),
        (lambda: frozenset(["the hen"]), "must have an order, got frozenset; give a list"),
        (lambda: Counter(["the hen"]), "got Counter; give a list of its values"),
        (lambda: frame_of(["the hen"]), "got DataFrame; give one of its columns"),
        (lambda: pytest.importorskip("polars").DataFrame({"a": ["b"]}), "give one of its columns"),
        (lambda: pytest.importorskip("pyarrow").table({"a": ["b"]}), "give one of its columns"),
    ],
    ids=["set", "frozenset", "Counter", "pandas", "polars", "pyarrow"],
)
def test_texts_without_an_order_are_refused(
    function: Callable[[Any], object], texts: Callable[[], Any], fault: str
) -> None:
    given = texts()
    if function is TEXT_FUNCTIONS["train"] and isinstance(given, Counter):
        return  # a mapping is a mixture
    with pytest.raises(TypeError, match=re.escape(fault)):
        function(given)


@pytest.mark.parametrize("function", TEXT_FUNCTIONS.values(), ids=TEXT_FUNCTIONS)
def test_texts_come_in_a_column(function: Callable[[Any], object]) -> None:
    assert function(series_of(["the hen", " a"])) == function(["the hen", " a"])


@pytest.mark.parametrize("function", TEXT_FUNCTIONS.values(), ids=TEXT_FUNCTIONS)
@pytest.mark.parametrize("missing", [np.nan, "NA"])
def test_a_null_of_a_column_is_called_null(function: Callable[[Any], object], missing: Any) -> None:
    null = pytest.importorskip("pandas").NA if missing == "NA" else missing
    with pytest.raises(TypeError, match="got null ") as caught:
        function(["a", null])
    assert " 1" in "".join([str(caught.value), *getattr(caught.value, "__notes__", ())])


NUMBER_FUNCTIONS: dict[str, Callable[[Any], object]] = {
    "vocab_size": lambda n: Tokenizer.train("ab", n).n_vocab,
    "max_tokens": lambda n: SMALL.decode_stream(max_tokens=n).step([97] * 300),
    "min_tokens": lambda n: SMALL.decode_stream(min_tokens=n, stop_ids=97).step([97] * 300),
    "max_stop_bytes": lambda n: SMALL.decode_stream(max_stop_bytes=n).step(97),
    "batch": lambda n: DecodeStreamBatch(SMALL, max_tokens=n).add("a").step([97] * 300),
    "step": lambda n: SMALL.decode_stream().step(n),
    "chunks": lambda n: [*SMALL.chunks("a b c", n)],
    "truncate": lambda n: SMALL.truncate("a b c", n),
    "fits": lambda n: SMALL.fits("a b c", n),
    "threads": lambda n: SMALL.encode_batch(["a"], threads=n),
    "weight": lambda n: repr(PieceCounts.from_items([("ab", 1)]) * n),
    "count": lambda n: repr(PieceCounts.from_items([("ab", n)])),
    "parts": lambda n: corpora.Corpus(__file__, format="lines").parts(n)[0].spans[0].end,
    "next_merges": lambda n: report({"a": SMALL}, {"a": "ab ab"}, next_merges=n),
    "next_bytes": lambda n: report({"a": SMALL}, {"a": "ab ab"}, next_bytes=n),
}


@pytest.mark.parametrize("function", NUMBER_FUNCTIONS.values(), ids=NUMBER_FUNCTIONS)
@pytest.mark.parametrize("kind", [np.uint16, np.int64, Index])
def test_numbers_are_integers_of_any_type(function: Callable[[Any], object], kind: Any) -> None:
    assert function(kind(256)) == function(256)


@pytest.mark.parametrize("function", NUMBER_FUNCTIONS.values(), ids=NUMBER_FUNCTIONS)
@pytest.mark.parametrize("value", [True, 256.0, "256"])
def test_other_numbers_are_refused(function: Callable[[Any], object], value: Any) -> None:
    with pytest.raises(TypeError):
        function(value)


@pytest.mark.parametrize(
    ("call", "name", "ours"),
    [
        (SMALL.decode_stream, "stop_token_ids", "stop_ids"),
        (SMALL.decode_stream, "include_stop_str_in_output", "include_stop"),
        (SMALL.decode_stream, "stop_strings", "stop"),
        (partial(SMALL.stream, [97]), "stop_token_ids", "stop_ids"),
        (partial(DecodeStreamBatch, SMALL), "stop_strings", "stop"),
        (partial(SMALL.truncate, "a b", 1), "side", "keep"),
    ],
)
def test_a_name_of_another_library_is_refused_with_ours(call: Any, name: str, ours: str) -> None:
    fault = f"got an unexpected keyword argument '{name}'; here it is called {ours}"
    with pytest.raises(TypeError, match=re.escape(fault) + "$"):
        call(**{name: 1})
    with pytest.raises(TypeError, match=r"got an unexpected keyword argument 'other'$"):
        call(other=1)


def test_truncate_shows_its_arguments() -> None:
    names = [*signature(Tokenizer.truncate).parameters]
    assert names[1:4] == ["text", "max_tokens", "keep"]


def test_a_strict_error_names_replace() -> None:
    with pytest.raises(UnicodeDecodeError) as caught:
        SMALL.decode([97, 240])
    assert caught.value.__notes__ == ['errors="replace" decodes such bytes to U+FFFD']


@pytest.mark.parametrize("arguments", [(), (((97, 98),),), (None,)])
def test_a_call_of_the_class_names_the_ways_to_make_one(arguments: Any) -> None:
    with pytest.raises(TypeError) as caught:
        Tokenizer(*arguments)
    assert str(caught.value) == (
        "Tokenizer is not made by a call; use Tokenizer.train, Tokenizer.load or "
        "Tokenizer.from_tiktoken"
    )


def test_a_tokenizer_can_be_referenced_weakly() -> None:
    tokenizer = Tokenizer.train("ab", 257)
    assert weakref.ref(tokenizer)() is tokenizer


@pytest.mark.parametrize(("batch", "name"), [("ab", "str"), (b"ab", "bytes"), (5, "int")])
def test_a_batch_of_ids_must_be_iterable(batch: Any, name: str) -> None:
    with pytest.raises(TypeError) as caught:
        SMALL.decode_batch(batch)
    assert str(caught.value) == f"batch must be an iterable of sequences of ids, got {name}"


# What a vocabulary holds


def test_token_bytes_of_every_id(tokenizer: Tokenizer) -> None:
    tokens = [bytes([byte]) for byte in range(256)]
    for left, right in tokenizer.merges:
        tokens.append(tokens[left] + tokens[right])
    tokens.append(END.encode())
    assert [tokenizer.token_bytes(id) for id in range(tokenizer.n_vocab)] == tokens


def test_token_id_is_the_lowest_id_with_these_bytes(tokenizer: Tokenizer) -> None:
    tokens = [tokenizer.token_bytes(id) for id in range(tokenizer.n_vocab)]
    assert [tokenizer.token_id(token) for token in tokens] == [tokens.index(t) for t in tokens]


def test_a_special_token_may_have_the_bytes_of_another() -> None:
    tokenizer = Tokenizer.train("ab ab ab", 258, special_tokens=["ab", "a"])
    assert (tokenizer.token_id(b"ab"), tokenizer.token_id(b"a")) == (256, 97)
    assert (tokenizer.encode("ab a"), tokenizer.encode_ordinary("ab a")) == (
        [258, 32, 259],
        [256, 32, 97],
    )
    assert tokenizer.decode([258, 259, 256]) == "abaab"


@pytest.mark.parametrize("token", [b"", b"zz", b"ab ", b"<|b|>"])
def test_an_unknown_token_is_named(token: bytes) -> None:
    with pytest.raises(KeyError) as caught:
        SMALL.token_id(token)
    assert caught.value.args == (f"no token of this vocabulary has the bytes {token!r}",)


@pytest.mark.parametrize(
    ("token", "name"), [(bytearray(b"ab"), "bytearray"), (97, "int"), (None, "NoneType")]
)
def test_a_token_that_is_neither_str_nor_bytes_is_refused(token: Any, name: str) -> None:
    with pytest.raises(TypeError) as caught:
        SMALL.token_id(token)
    assert str(caught.value) == f"token must be a str or bytes, got {name}"


def test_token_id_takes_a_str_by_its_utf8(tokenizer: Tokenizer) -> None:
    for id, token in enumerate(tokenizer.tokens):
        if token.decode(errors="ignore").encode() == token:
            assert tokenizer.token_id(token.decode()) == tokenizer.token_id(token) <= id
    assert tokenizer.token_id(END) == tokenizer.special_tokens[END]
    with pytest.raises(KeyError, match="no token of this vocabulary has the bytes"):
        tokenizer.token_id("noé")
    with pytest.raises(UnicodeEncodeError):
        tokenizer.token_id("\ud800")


@pytest.mark.parametrize(
    ("merges", "special_tokens"), [(0, []), (0, ["a"]), (1, []), (2, ["a", "b", "c"])]
)
def test_n_vocab_counts_special_tokens_and_vocab_size_does_not(
    merges: int, special_tokens: list[str]
) -> None:
    tokenizer = Tokenizer.train("ab ab", 256 + merges, special_tokens=special_tokens)
    size = 256 + merges
    assert (tokenizer.vocab_size, tokenizer.n_vocab) == (size, size + len(special_tokens))


def test_merges_and_special_tokens_are_plain_data() -> None:
    assert SMALL.merges == ((97, 98), (32, 256))
    assert dict(SMALL.special_tokens) == {END: 258, A: 259}
    assert type(SMALL.merges) is tuple
    assert {type(pair) for pair in SMALL.merges} == {tuple}
    assert {type(id) for pair in SMALL.merges for id in pair} == {int}


@pytest.mark.parametrize(
    ("tokenizer", "shown"),
    [
        (SMALL, "<Tokenizer: 260 ids = 256 bytes + 2 merges + 2 special tokens>"),
        (PLAIN, "<Tokenizer: 258 ids = 256 bytes + 2 merges + 0 special tokens>"),
        (
            Tokenizer.train("ab", 257),
            "<Tokenizer: 258 ids = 256 bytes + 1 merge + 1 special token>",
        ),
        # "abc" is made by two merges, "ab" is a special token too, and no merge makes "xyz".
        (
            Tokenizer(
                vocabulary(
                    {256: b"ab", 257: b"bc", 258: b"abc", 300: b"xyz"},
                    [(97, 98), (98, 99), (256, 99), (97, 257)],
                    special_tokens={"ab": 256, A: 400},
                    ignore_merges=True,
                )
            ),
            "<Tokenizer: 261 ids = 256 bytes + 2 tokens of 4 merges + 1 other token + "
            "2 special tokens>",
        ),
    ],
)
def test_repr_tells_the_sizes(tokenizer: Tokenizer, shown: str) -> None:
    assert repr(tokenizer) == shown


# Immutable


@pytest.mark.parametrize(
    "name", ["vocab_size", "n_vocab", "merges", "special_tokens", "pattern", "encode", "new"]
)
def test_no_attribute_can_be_set_or_deleted(name: str) -> None:
    with pytest.raises(AttributeError):
        setattr(SMALL, name, None)
    with pytest.raises(AttributeError):
        delattr(SMALL, name)


def test_special_tokens_cannot_be_changed() -> None:
    special_tokens: Any = SMALL.special_tokens
    with pytest.raises(TypeError):
        special_tokens["<|b|>"] = 260
    with pytest.raises(TypeError):
        del special_tokens[END]
    assert dict(SMALL.special_tokens) == {END: 258, A: 259}


def test_fields_of_other_libraries_are_empty_after_training() -> None:
    assert (SMALL.patterns, dict(SMALL.settings), SMALL.lossless) == ((GPT2_PATTERN,), {}, True)


def test_given_arguments_can_be_changed_later() -> None:
    documents, special_tokens = ["ab", "ab"], ["<|a|>"]
    tokenizer = Tokenizer.train(documents, 300, special_tokens=special_tokens)
    documents.append("cd")
    special_tokens.append("<|b|>")
    assert tokenizer == Tokenizer.train(["ab", "ab"], 300, special_tokens=["<|a|>"])
    assert tokenizer.encode("<|b|>") == [*b"<|b|>"]


# Equality


def equal_tokenizers() -> Iterator[Tokenizer]:
    """Yield tokenizers that are made in different ways and equal SMALL."""
    yield Tokenizer.train("ab ab ab", 258, special_tokens=[END, A])
    yield Tokenizer.train(["ab", " ab", " ab"], 9000, special_tokens=(END, A))
    yield pickle.loads(pickle.dumps(SMALL))
    yield copy.copy(SMALL)
    yield copy.deepcopy(SMALL)


def test_tokenizers_with_equal_vocabularies_are_equal() -> None:
    for other in equal_tokenizers():
        assert other == SMALL
        assert hash(other) == hash(SMALL)
        assert len({other, SMALL}) == 1


@pytest.mark.parametrize("other", [None, 5, "ab", SMALL.merges, object()])
def test_a_tokenizer_equals_nothing_else(other: object) -> None:
    assert other != SMALL


def test_use_changes_neither_equality_nor_hash() -> None:
    fresh, used = (Tokenizer.train("ab ab ab", 258, special_tokens=[END, A]) for _ in range(2))
    used.decode(used.encode(f"ab é {END}"), skip_special_tokens=True)
    used.token_id(b"ab")
    assert (used, hash(used)) == (fresh, hash(fresh))


# Copies


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickled_tokenizer_is_equal_and_works(tokenizer: Tokenizer, protocol: int) -> None:
    other = pickle.loads(pickle.dumps(tokenizer, protocol))
    assert (type(other), other, other.patterns[0]) == (Tokenizer, tokenizer, tokenizer.patterns[0])
    text = f"the cat isn't é🙂 here{END}"
    assert other.encode(text) == tokenizer.encode(text)
    assert other.decode(other.encode(text)) == text


def test_a_pickle_holds_little_more_than_the_merges(tokenizer: Tokenizer) -> None:
    """Two numbers of three bytes, and three more for the pair and its place: nine a merge."""
    assert len(pickle.dumps(tokenizer)) <= 10 * len(tokenizer.merges) + 400


def test_a_pickle_does_not_grow_with_use() -> None:
    tokenizer = Tokenizer.train("the hen then met the ten men", 270)
    before = pickle.dumps(tokenizer)
    ids = tokenizer.encode("the hen é🙂 " * 300)
    tokenizer.decode(ids, skip_special_tokens=True)
    tokenizer.decode_stream(ids).flush()
    tokenizer.token_id(b"a")
    hash(tokenizer)
    assert pickle.dumps(tokenizer) == before


# Threads


@pytest.mark.usefixtures("switching_often")
@pytest.mark.parametrize("cache_size", [2_000_000, 200], ids=["large cache", "small cache"])
@pytest.mark.parametrize("same", [True, False], ids=["the same text", "different texts"])
def test_threads_get_the_ids_that_one_would(
    tokenizer: Tokenizer,
    real_texts: list[str],
    monkeypatch: pytest.MonkeyPatch,
    cache_size: int,
    same: bool,
) -> None:
    monkeypatch.setattr(_encoder, "_MAX_CACHE_UNITS", cache_size)
    whole = "\n".join(real_texts)
    texts = [whole[start : start + 4000] for start in ([0] * 8 if same else range(0, 32000, 4000))]
    expected = [tokenizer.encode(text) for text in texts]
    shared: Tokenizer = pickle.loads(pickle.dumps(tokenizer))  # nothing is derived or cached yet
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(shared.encode, texts * 3)) == expected * 3
        assert list(pool.map(shared.decode, expected * 3)) == texts * 3


@pytest.mark.parametrize(
    ("name", "value"),
    [("allowed_special", 0), ("disallowed_special", 0), ("disallowed_special", None)],
)
def test_special_arguments_of_another_type_are_named(
    tokenizer: Tokenizer, name: Any, value: Any
) -> None:
    with pytest.raises(TypeError, match=f"{name} must be .* got {type(value).__name__}"):
        tokenizer.encode("", **{name: value})


def test_ids_in_use_ascend() -> None:
    tokenizer = Tokenizer.train("ab ab", 257, special_tokens=["<a>"])
    assert tokenizer.ids == tuple(range(258))
