"""Streams of other libraries' tokenizers return the text of the library's own decoding."""

from __future__ import annotations

import copy
import gc
import io
import json
import pickle
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import few_examples
from support.streams import REPLACED

from bpetite import (
    DecodeStream,
    DecodeStreamBatch,
    DecodeStreamError,
    StreamVocabulary,
    Tag,
    Tokenizer,
)
from conftest import TEXTS

tiktoken = pytest.importorskip("tiktoken")
tokenizers = pytest.importorskip("tokenizers")
decoders: Any = pytest.importorskip("tokenizers.decoders")
models: Any = pytest.importorskip("tokenizers.models")
sentencepiece = pytest.importorskip("sentencepiece")

CORPUS = [TEXTS[name] for name in ("english", "contractions", "code", "two-byte scripts")] * 20
"""Text without emoji and Chinese, so that a vocabulary has only bytes for these."""

LLAMA = decoders.Sequence(
    [
        decoders.Replace("▁", " "),
        decoders.ByteFallback(),
        decoders.Fuse(),
        decoders.Strip(" ", 1, 0),
    ]
)
"""The decoder of Llama 2, Mistral and Phi 3."""

GEMMA = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])


def stream_of(
    vocabulary: Any,
    special_ids: Iterable[int] = (),
    *,
    buffer_byte_runs: bool = True,
    **options: Any,
) -> DecodeStream:
    tokens = StreamVocabulary(vocabulary, special_ids, buffer_byte_runs=buffer_byte_runs)
    return tokens.decode_stream(**options)


class Library:
    """A tokenizer of another library, with functions that decode and encode."""

    def __init__(
        self,
        source: Any,
        decode: Callable[[list[int], bool], str],
        encode: Callable[[str], list[int]],
        size: int,
    ) -> None:
        self.source = source
        self.decode = decode
        self.encode = encode
        self.size = size
        self.vocabulary = StreamVocabulary(source)
        self.has_runs = "ByteFallback" in str(getattr(source, "decoder", ""))


def of_tokenizers(source: Any, encode: Callable[[str], list[int]] | None = None) -> Library:
    def decode(ids: list[int], skips: bool) -> str:
        text: str = source.decode(ids, skip_special_tokens=skips)
        return text

    own = lambda text: source.encode(text, add_special_tokens=False).ids  # noqa: E731
    return Library(source, decode, encode or own, source.get_vocab_size())


@cache
def sentences(model_type: str) -> Any:
    """Train a model of sentencepiece with byte fallback."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS),
        model_writer=model,
        model_type=model_type,
        vocab_size=420,
        byte_fallback=True,
        hard_vocab_limit=False,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        character_coverage=1.0,
        user_defined_symbols=["<tool>", "▁▁", "▁the"],
        minloglevel=2,
    )
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def of_sentences(model_type: str, decoder: Any) -> Library:
    """Convert a model of sentencepiece with the same ids, as transformers does."""
    model = sentences(model_type)
    pieces = [model.id_to_piece(id) for id in range(model.get_piece_size())]
    vocab = {piece: id for id, piece in enumerate(pieces)}
    tokenizer = tokenizers.Tokenizer(
        models.BPE(vocab, [], byte_fallback=True, unk_token="<unk>", fuse_unk=True)
    )
    tokenizer.decoder = decoder
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.add_tokens([tokenizers.AddedToken("<tool>", special=False)])
    return of_tokenizers(tokenizer, lambda text: list(model.encode(text)))


@cache
def library(name: str) -> Library:
    if name == "tiktoken":
        ranks = {bytes([byte]): byte for byte in range(256)}
        ranks |= {token.encode(): 256 + id for id, token in enumerate(["th", " t", "é", "中", "€"])}
        ranks |= {b"\xf0\x9f": 261, b"\xa4\xb8\xad!": 262, b" \xe4": 263}
        encoding = tiktoken.Encoding(
            "small", pat_str=".+|\n+", mergeable_ranks=ranks, special_tokens={"<|end|>": 270}
        )
        return Library(
            encoding,
            lambda ids, skips: encoding.decode([id for id in ids if id != 270 or not skips]),
            encoding.encode_ordinary,
            264,
        )
    if name == "byte level":
        level = tokenizers.ByteLevelBPETokenizer()
        level.train_from_iterator(CORPUS, vocab_size=400, show_progress=False)
        level.add_special_tokens(["<|end|>", "Ġend"])
        level.add_tokens(["Ġkept", "你 好", "<0x41>"])
        return of_tokenizers(level._tokenizer)
    if name == "metaspace":
        spaces = tokenizers.SentencePieceBPETokenizer()
        spaces.train_from_iterator(CORPUS, vocab_size=400, show_progress=False)
        spaces.add_special_tokens(["<s>"])
        return of_tokenizers(spaces._tokenizer)
    if name == "llama":
        return of_sentences("bpe", LLAMA)
    if name == "gemma":
        return of_sentences("unigram", GEMMA)
    assert name == "everything"
    return of_sentences(
        "bpe",
        decoders.Sequence(
            [
                decoders.Strip("t", 1, 0),
                decoders.Metaspace(),
                decoders.ByteFallback(),
                decoders.Fuse(),
                decoders.Strip("é", 2, 0),
            ]
        ),
    )


NAMES = ["tiktoken", "byte level", "metaspace", "llama", "gemma", "everything"]
RUNS = ["llama", "gemma", "everything"]
"""The libraries that decode a run of byte tokens as one text."""


@pytest.fixture(params=NAMES)
def other(request: pytest.FixtureRequest) -> Library:
    return library(request.param)


def joined(stream: DecodeStream, ids: Iterable[Any]) -> str:
    """Return the text of a stream, with one or several ids per step."""
    return "".join(map(stream.step, ids)) + stream.flush()


def ids_of(other: Library) -> st.SearchStrategy[list[int]]:
    """Draw ids, half of them bytes or special."""
    return st.lists(
        st.one_of(st.integers(0, other.size - 1), st.integers(0, min(262, other.size - 1))),
        max_size=25,
    )


@st.composite
def runs(draw: st.DrawFn, other: Library) -> list[int]:
    """Draw byte tokens of characters, or of parts of characters, and a few other ids."""
    begin = other.source.token_to_id("<0x00>")
    data = st.one_of(
        st.text(max_size=4).map(str.encode),
        st.sampled_from("é中🙂 ▁t".encode().split(b"|")),
        st.binary(max_size=2),
        st.sampled_from([b"\xe2\x96\x81", b"\xf0\x9f\x99", b"\xe4\xb8", b" ", b"  "]),
    )
    ids: list[int] = []
    for part in draw(st.lists(data, max_size=5)):
        ids += [begin + byte for byte in part]
        ids += draw(st.lists(st.integers(0, other.size - 1), max_size=1))
    return ids


# Text


def test_streams_of_texts_are_the_decoding_of_the_library(other: Library, text_case: str) -> None:
    ids = other.encode(text_case[:2000])
    for skips in (False, True):
        stream = other.vocabulary.decode_stream(skip_special_tokens=skips)
        assert joined(stream, ids) == other.decode(ids, skips)


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data(), skips=st.booleans())
def test_random_ids_stream_as_the_library_decodes(
    name: str, data: st.DataObject, skips: bool
) -> None:
    other = library(name)
    ids = data.draw(runs(other) if name in RUNS and data.draw(st.booleans()) else ids_of(other))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(ids)), max_size=4)))
    chunks = [ids[a:b] for a, b in zip([0, *cuts], [*cuts, len(ids)], strict=True)]
    make = other.vocabulary.decode_stream
    expected = other.decode(ids, skips)
    assert joined(make(skip_special_tokens=skips), ids) == expected
    assert joined(make(skip_special_tokens=skips), chunks) == expected
    counting = make(skip_special_tokens=skips, tags=["\0no\0"])
    assert joined(counting, chunks) == expected
    assert joined(counting, ids) == expected  # flush has reset it


def shown_before(other: Library, ids: Sequence[int], cut: int, skips: bool) -> str:
    """Return the complete text of a prompt; the text of `ids` must have no U+FFFD."""
    for end in range(cut, -1, -1):
        text = other.decode(list(ids[:end]), skips)
        if not other.has_runs:
            return text.rstrip(REPLACED)
        if REPLACED not in text:
            return text
    raise AssertionError


@pytest.mark.parametrize("skips", [False, True])
@pytest.mark.parametrize("text", ["", " a", "  b é中", "🙂🙂 to the 中文", "tt éé"])
def test_stream_after_a_prompt_shows_only_new_text(other: Library, text: str, skips: bool) -> None:
    specials = sorted(other.vocabulary.special_ids)[:2]
    ids = [*specials, *other.encode(text), *specials, *other.encode("é!")]
    whole = other.decode(ids, skips)
    for cut in range(len(ids) + 1):
        every: list[Any] = [{}, {"stop_ids": [10**6]}]
        for options in every:
            stream = other.vocabulary.decode_stream(ids[:cut], skip_special_tokens=skips, **options)
            shown = shown_before(other, ids, cut, skips)
            assert shown + joined(stream, ids[cut:]) == whole


@pytest.mark.parametrize("name", RUNS)
def test_prompt_is_not_read_through(name: str) -> None:
    class Prompt(list[int]):
        read = 0

        def __reversed__(self) -> Any:
            for id in super().__reversed__():
                self.read += 1
                yield id

    other = library(name)
    prompt = Prompt(other.encode("the end ") * 1000)
    stream = other.vocabulary.decode_stream(prompt)
    assert prompt.read <= 20
    ids = other.encode("on")
    shown = other.decode(prompt, False)
    assert shown + joined(stream, ids) == other.decode([*prompt, *ids], False)


# Runs of byte tokens


def llama_ids(column: str) -> list[int]:
    """Read a column of tokens: hexadecimal bytes, or the token itself."""
    source = library("llama").source
    names = [f"<0x{token}>" if len(token) == 2 else token for token in column.split()]
    ids = [source.token_to_id(name) for name in names]
    assert None not in ids
    return ids


@pytest.mark.parametrize(
    ("tokens", "steps"),
    [
        ("▁the ▁the", ["the", " the", ""]),
        ("20 20 ▁the", ["", "", "  the", ""]),
        ("▁ ▁the", ["", " the", ""]),
        ("C3 A9", ["", "", "é"]),
        ("C3 A9 ▁the", ["", "", "é the", ""]),
        ("F0 9F 99 82 F0 9F 99 82", [""] * 8 + ["🙂🙂"]),
        ("C3 A9 FF A9 ▁the", ["", "", "���", "�", " the", ""]),
        ("C3 ▁the A9", ["", "� the", "�", ""]),
        ("E4 B8", ["", "", "��"]),
        ("ED A0", ["", "��", ""]),
        ("41 E2 96 81", ["", "", "", "", "A▁"]),
        ("C3 <unk> A9", ["", "�<unk>", "�", ""]),
    ],
)
@pytest.mark.parametrize("options", [{}, {"stop_ids": [10**6]}])
def test_run_of_byte_tokens_is_told_when_it_cannot_change(
    tokens: str, steps: list[str], options: Any
) -> None:
    other, ids = library("llama"), llama_ids(tokens)
    stream = other.vocabulary.decode_stream(**options)
    assert [*map(stream.step, ids), stream.flush()] == steps
    assert "".join(steps) == other.decode(ids, False)


def test_skipped_special_token_does_not_end_a_run() -> None:
    stream = library("llama").vocabulary.decode_stream(skip_special_tokens=True)
    ids = llama_ids("<s> C3 </s> A9 ▁the")
    assert [*map(stream.step, ids)] == ["", "", "", "", "é the"]


@pytest.mark.parametrize(
    ("tokens", "steps"),
    [
        ("20 C3 A9 ▁the", ["", "", "é", " the", ""]),
        ("C3 A9 FF A9 E4 ▁the", ["", "é", "�", "�", "", "� the", ""]),
    ],
)
def test_without_byte_runs_characters_come_when_complete(tokens: str, steps: list[str]) -> None:
    vocabulary = StreamVocabulary(library("llama").source, buffer_byte_runs=False)
    stream = vocabulary.decode_stream()
    assert [*map(stream.step, llama_ids(tokens)), stream.flush()] == steps


def test_long_run_is_held_whole() -> None:
    ids = llama_ids("F0 9F 99 82") * 3000
    stream = library("llama").vocabulary.decode_stream()
    assert [*map(stream.step, ids)] == [""] * 12000
    assert stream.pending == "🙂".encode() * 3000
    broken = stream.copy()
    assert stream.flush() == "🙂" * 3000
    assert broken.step(ids[1]) == REPLACED * 12001


@pytest.mark.parametrize("errors", ["ignore", "backslashreplace"])
def test_other_errors_are_for_single_bytes(errors: str) -> None:
    stream = library("llama").vocabulary.decode_stream(errors=errors)
    text = joined(stream, llama_ids("▁ C3 A9 FF ▁the E4"))
    assert text == b"\xc3\xa9\xff the\xe4".decode("utf-8", errors)


def test_strict_error_has_the_text_without_what_is_stripped() -> None:
    tokenizer = tokenizers.Tokenizer(models.BPE({"Ġaÿ": 0, "ÿ": 1}, []))
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    stream = stream_of(tokenizer, errors="strict")
    with pytest.raises(DecodeStreamError) as caught:
        stream.step(0)
    error = caught.value
    assert (error.text, error.object, error.start, error.end) == ("a", b"a\xff", 1, 2)


def test_what_a_prompt_leaves_to_strip_is_stripped() -> None:
    tokenizer = tokenizers.Tokenizer(models.BPE({" ": 0, "a": 1}, []))
    tokenizer.decoder = decoders.Sequence([decoders.Fuse(), decoders.Strip(" ", 3, 0)])
    ids = [0, 0, 0, 0, 1]
    for size in range(len(ids)):
        shown = tokenizer.decode(ids[:size])
        stream = stream_of(tokenizer, prompt_ids=ids[:size])
        assert shown + joined(stream, ids[size:]) == tokenizer.decode(ids) == " a"


def test_strict_stream_of_a_run_tells_the_byte() -> None:
    stream = library("llama").vocabulary.decode_stream(errors="strict")
    ids = llama_ids("▁the C3 ▁the")
    assert stream.step(ids[:2]) == "the"
    with pytest.raises(DecodeStreamError) as caught:
        stream.step(ids[2])
    assert (caught.value.id, caught.value.index, caught.value.object) == (ids[2], 2, b"\xc3 the")


# Other features of streams


def test_stop_is_found_in_the_text_of_a_run() -> None:
    stream = library("llama").vocabulary.decode_stream(stop="🙂")
    ids = llama_ids("▁the C3 A9 F0 9F 99 82 C3 A9 ▁the")
    assert [*map(stream.step, ids)] == ["the", *[""] * 8, "é"]
    assert (stream.stop_reason, stream.text_after_stop) == ("🙂", "é the")


def test_tags_are_found_after_stripped_text() -> None:
    stream = library("llama").vocabulary.decode_stream(tags=["the"])
    pieces = stream.step_event(llama_ids("▁the ▁the")).pieces
    assert pieces == (Tag("the"), " ", Tag("the"))


def test_places_of_tokens_match_their_text() -> None:
    stream = library("llama").vocabulary.decode_stream()
    tokens = stream.step_event(llama_ids("▁the C3 A9 ▁the")).tokens
    assert [(token.bytes, token.start, token.end, token.text) for token in tokens] == [
        (b" the", 0, 3, "the"),
        (b"\xc3", 3, 3, ""),
        (b"\xa9", 3, 3, ""),
        (b" the", 3, 8, "é the"),
    ]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("options", [{}, {"stop": "\0no"}, {"errors": "ignore"}])
@few_examples
@given(data=st.data(), skips=st.booleans())
def test_stream_goes_on_from_any_saved_position(
    name: str, options: Any, data: st.DataObject, skips: bool
) -> None:
    other = library(name)
    ids = data.draw(runs(other) if name in RUNS else ids_of(other))
    cut = data.draw(st.integers(0, len(ids)))
    stream = other.vocabulary.decode_stream(skip_special_tokens=skips, **options)
    before = "".join(map(stream.step, ids[:cut]))
    state = json.loads(json.dumps(stream.to_state()))
    others = [
        stream.copy(),
        DecodeStream.from_state(other.vocabulary, state),
        pickle.loads(pickle.dumps(stream)),
    ]
    assert {other.pending for other in others} == {stream.pending}
    after = joined(stream, ids[cut:])
    assert [joined(each, ids[cut:]) for each in others] == [after] * 3
    if "errors" not in options:
        assert before + after == other.decode(ids, skips)


@pytest.mark.parametrize("name", ["llama", "everything"])
def test_state_of_a_stream_that_has_not_begun_is_small(name: str) -> None:
    stream = library(name).vocabulary.decode_stream(skip_special_tokens=True)
    stream.step(library(name).source.token_to_id("<s>"))
    assert len(json.dumps(stream.to_state())) <= 300


@pytest.mark.parametrize(
    "state",
    [
        {"version": 1, "decoder_state": "strip2"},
        {"version": 1, "decoder_state": "first"},
        {"version": 1, "decoder_state": "strip0"},
        {"version": 1, "decoder_state": "lost"},
        {"version": 1, "decoder_state": "broken", "pending": "c3"},
        {"version": 1, "pending": "c3ff"},
        {"version": 1, "pending": "c3", "errors": "ignore", "decoder_state": "broken"},
    ],
)
def test_state_that_no_stream_has_is_refused(state: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="a stream of this vocabulary cannot have"):
        DecodeStream.from_state(library("llama").vocabulary, state)


def test_state_of_a_run_is_refused_where_runs_are_not_read_whole() -> None:
    stream = library("llama").vocabulary.decode_stream()
    stream.step(llama_ids("▁the C3 A9"))
    state = {**stream.to_state(), "errors": "ignore"}
    with pytest.raises(ValueError, match="pending bytes 'c3a9'"):
        DecodeStream.from_state(library("llama").vocabulary, state)


def test_reset_begins_a_new_text() -> None:
    stream = library("llama").vocabulary.decode_stream()
    ids = llama_ids("▁the ▁the C3")
    assert stream.step(ids) == "the the"
    stream.reset()
    assert joined(stream, ids) == "the the�"
    assert joined(stream, ids) == "the the�"


def test_unknown_ids_are_skipped_as_in_the_library(other: Library) -> None:
    ids = other.encode(" to é the 🙂")
    spread = [each for id in ids for each in (10**6, id, 10**6)]
    stream = other.vocabulary.decode_stream(unknown="skip")
    assert joined(stream, spread) == other.decode(ids, False)


def test_unknown_id_is_an_error(other: Library) -> None:
    stream = other.vocabulary.decode_stream()
    with pytest.raises(KeyError, match="id 1000000 is not in this vocabulary"):
        stream.step(10**6)


def test_many_streams_share_a_vocabulary() -> None:
    streams: DecodeStreamBatch[str] = DecodeStreamBatch(library("llama").vocabulary, stop="!")
    ids = llama_ids("▁the ▁the C3")
    for key in "ab":
        streams.add(key)
    assert streams.step({"a": ids, "b": ids[:1]}) == {"a": "the the", "b": "the"}
    assert streams.finish("a") == REPLACED


def test_iterators_of_a_vocabulary_yield_its_text() -> None:
    vocabulary = StreamVocabulary({0: b"n\xc3", 1: b"\xa9"})
    assert [*vocabulary.stream([0, 1, 0])] == ["n", "é", "n", REPLACED]


# From a mapping


@few_examples
@given(
    tokens=st.dictionaries(st.integers(0, 2**32 - 1), st.binary(max_size=5), min_size=1),
    data=st.data(),
)
def test_stream_of_a_mapping_is_its_bytes_decoded(
    tokens: dict[int, bytes], data: st.DataObject
) -> None:
    ids = data.draw(st.lists(st.sampled_from(sorted(tokens)), max_size=20))
    specials = data.draw(st.sets(st.sampled_from(sorted(tokens))))
    for skips in (False, True):
        kept = [tokens[id] for id in ids if not (skips and id in specials)]
        stream = stream_of(tokens, special_ids=specials, skip_special_tokens=skips)
        assert joined(stream, ids) == b"".join(kept).decode("utf-8", "replace")


@pytest.mark.parametrize(
    ("vocabulary", "special_ids", "error", "reason"),
    [
        ({}, [], ValueError, "a vocabulary must have a token"),
        ({-1: b"a"}, [], ValueError, "the id -1 is not from 0 to 4294967295"),
        ({2**32: b"a"}, [], ValueError, "the id 4294967296 is not from 0 to 4294967295"),
        ({True: b"a"}, [], TypeError, "an id must be an integer, got the bool True"),
        ({"a": 1}, [], TypeError, "an id must be an integer, got str 'a'"),
        ({0: "a"}, [], TypeError, "the token of id 0 must be bytes, got str"),
        ({0: b"a"}, [1], ValueError, "the special id 1 has no bytes in the vocabulary"),
        ([b"a"], [], TypeError, "vocabulary must be a mapping of ids to bytes, a tiktoken"),
        (None, [], TypeError, "vocabulary must be .*, got NoneType"),
    ],
)
def test_wrong_mapping_is_refused(
    vocabulary: Any, special_ids: list[int], error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        StreamVocabulary(vocabulary, special_ids)


def test_vocabulary_tells_what_it_has() -> None:
    vocabulary = StreamVocabulary({7: b"a", 8: b"<s>"}, [8])
    assert repr(vocabulary) == "<StreamVocabulary: 2 ids, 1 special>"
    assert (len(vocabulary), *vocabulary.special_ids, vocabulary.token_bytes(7)) == (2, 8, b"a")


def test_streams_pickled_together_share_their_vocabulary() -> None:
    vocabulary = StreamVocabulary({id: str(id).encode() * 9 for id in range(1000)}, [8])
    streams = [vocabulary.decode_stream() for _ in range(100)]
    one, all = (len(pickle.dumps(each)) for each in (streams[0], streams))
    assert all < 2 * one
    again = pickle.loads(pickle.dumps(vocabulary))
    assert again.decode_stream(skip_special_tokens=True).step([7, 8]) == "7" * 9


# From a library


def test_special_ids_match_the_library() -> None:
    found = {name: library(name).vocabulary.special_ids for name in ("tiktoken", "llama")}
    assert found == {"tiktoken": {270}, "llama": {0, 1, 2}}


def test_special_ids_are_not_taken_with_a_tokenizer(other: Library) -> None:
    with pytest.raises(ValueError, match="special_ids are for a mapping"):
        StreamVocabulary(other.source, [1])


def test_buffer_byte_runs_is_a_bool() -> None:
    with pytest.raises(TypeError, match="buffer_byte_runs must be a bool, got int"):
        StreamVocabulary({0: b"a"}, buffer_byte_runs=1)  # type: ignore[arg-type]


def test_our_own_tokenizer_makes_its_own_streams() -> None:
    with pytest.raises(TypeError, match="got Tokenizer"):
        StreamVocabulary(Tokenizer.train("", 256))


SMALL = {"a": 0, "▁b": 1, "<0x41>": 2}


def small(decoder: Any) -> Any:
    """Return a tokenizer of three tokens with this decoder."""
    tokenizer = tokenizers.Tokenizer(models.BPE(SMALL, []))
    if decoder is not None:
        tokenizer.decoder = decoder
    return tokenizer


class OwnDecoder:
    """A decoder in Python."""

    def decode_chain(self, tokens: list[str]) -> list[str]:
        return tokens[::-1]


REGEX = tokenizers.Regex("a+")
CUSTOM = decoders.Decoder.custom(OwnDecoder())


@pytest.mark.parametrize(
    ("decoder", "reason"),
    [
        (None, "None cannot be streamed: tokens are joined with spaces"),
        (decoders.WordPiece(), "WordPiece cannot be streamed: it puts spaces between words"),
        (
            decoders.BPEDecoder(),
            "BPEDecoder cannot be streamed: it ends each word with a space, but",
        ),
        (decoders.CTC(), "CTC cannot be streamed: it drops repeated tokens"),
        (decoders.Replace(REGEX, "b"), "Replace cannot be .*: its pattern is a regular expression"),
        (decoders.Strip(" ", 0, 1), "Strip cannot be streamed: it strips the end of the text"),
        (CUSTOM, "Decoder.custom cannot be streamed: it cannot be described"),
        ([decoders.Fuse(), decoders.Replace("ab", "c")], "Replace cannot .*: it comes when tokens"),
        ([decoders.ByteFallback(), decoders.Metaspace()], "Metaspace .*: it comes when tokens"),
        ([decoders.ByteFallback(), decoders.Strip(" ", 1, 0)], "Strip .* each run of byte tokens"),
        (
            [decoders.Fuse(), decoders.Strip("a", 1, 0), decoders.Strip("b", 1, 0)],
            "Strip .* one character after another",
        ),
    ],
)
def test_decoder_that_is_no_concatenation_is_refused(decoder: Any, reason: str) -> None:
    sequence = decoders.Sequence(decoder) if isinstance(decoder, list) else decoder
    with pytest.raises(ValueError, match=f"the decoder {reason}"):
        stream_of(small(sequence))


@pytest.mark.parametrize("scheme", ["always", "first", "never"])
@pytest.mark.parametrize("ids", [[1, 1], [0, 1], [2, 1, 2]])
def test_first_token_matches_the_scheme(scheme: str, ids: list[int]) -> None:
    tokenizer = small(decoders.Metaspace(prepend_scheme=scheme))
    assert joined(stream_of(tokenizer), ids) == tokenizer.decode(ids)


def test_encoding_is_not_kept_alive_by_its_streams() -> None:
    encoding = tiktoken.Encoding(
        "a", pat_str=".", mergeable_ranks={b"a": 0, b"b": 1}, special_tokens={}
    )
    stream = stream_of(encoding)
    gone = weakref.ref(encoding)
    del encoding
    gc.collect()
    assert gone() is None
    assert stream.step(0) == "a"


def test_tokenizers_implementations_are_their_tokenizers() -> None:
    level = tokenizers.ByteLevelBPETokenizer({"Ġa": 0}, [])
    assert stream_of(level).step([0, 0]) == " a a"


# transformers


@cache
def fast() -> Any:
    """The class of a fast tokenizer."""
    return pytest.importorskip("transformers", exc_type=ImportError).PreTrainedTokenizerFast


def test_fast_tokenizer_that_cleans_up_spaces_is_refused() -> None:
    words = tokenizers.Tokenizer(models.WordLevel({"a": 0, " .": 1}, unk_token="a"))
    words.decoder = decoders.Fuse()
    tokenizer = fast()(tokenizer_object=words, clean_up_tokenization_spaces=True)
    assert tokenizer.decode([0, 1]) == "a."
    with pytest.raises(ValueError, match="clean_up_tokenization_spaces to False"):
        stream_of(tokenizer)
    tokenizer.clean_up_tokenization_spaces = False
    assert stream_of(tokenizer).step([0, 1]) == "a ."


def test_fast_tokenizer_that_cleans_up_bpe_text_is_refused() -> None:
    pairs = tokenizers.Tokenizer(models.BPE({"a": 0, "▁.": 1}, []))
    pairs.decoder = decoders.Metaspace()
    tokenizer = fast()(tokenizer_object=pairs, clean_up_tokenization_spaces=True)
    try:
        text = stream_of(tokenizer).step([0, 1])
    except ValueError:
        text = "a."
    assert text == tokenizer.decode([0, 1])


@pytest.mark.parametrize("name", ["decode", "_decode"])
def test_fast_tokenizer_with_its_own_decoding_is_refused(name: str) -> None:
    own = type("Own", (fast(),), {name: lambda *_, **__: ""})
    with pytest.raises(ValueError, match=r"the Own decodes in a way of its own .* backend_token"):
        stream_of(own(tokenizer_object=library("llama").source))


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *(("transformers", name) for name in ("decode", "_decode", "backend_tokenizer.decode")),
        *(("tokenizers", "decode"), ("tiktoken", "decode"), ("tiktoken", "decode_bytes")),
    ],
)
def test_replaced_decoding_is_refused(kind: str, name: str) -> None:
    tokenizer = copy.deepcopy(library("tiktoken" if kind == "tiktoken" else "byte level").source)
    if kind == "transformers":
        tokenizer = fast()(tokenizer_object=tokenizer)
    stream_of(tokenizer)
    owner = tokenizer.backend_tokenizer if "." in name else tokenizer
    setattr(owner, name.split(".")[-1], lambda *_, **__: "")
    with pytest.raises(ValueError, match=r"decodes in a way of its own \(.*<lambda>\)"):
        stream_of(tokenizer)


def test_accelerated_tokenizer_streams_the_same() -> None:
    tokenizer = fast()(tokenizer_object=library("byte level").source)
    ids = tokenizer.encode(TEXTS["english"])
    expected = stream_of(tokenizer).step(ids)
    from bpetite.transformers import accelerate  # needs transformers

    assert stream_of(accelerate(tokenizer)).step(ids) == expected


def test_slow_tokenizer_is_refused() -> None:
    transformers = pytest.importorskip("transformers", exc_type=ImportError)
    with pytest.raises(ValueError, match="the ByT5Tokenizer is a slow tokenizer"):
        stream_of(transformers.ByT5Tokenizer())
