"""`bpetite.tiktoken` returns what tiktoken returns, and raises errors of the same classes."""

from __future__ import annotations

import array
import copy
import hashlib
import inspect
import os
import pickle
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from operator import attrgetter, methodcaller
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiktoken
import tiktoken.load
import tiktoken.model
from hypothesis import example, given
from hypothesis import strategies as st
from support import DATA
from support.engines import quick_once
from support.examples import randoms
from tools.public import public_encoding, public_file

import bpetite
import bpetite.tiktoken as door
from bpetite import PATTERNS, Tokenizer
from bpetite.formats._tiktoken_names import ENCODINGS
from bpetite.tiktoken import core, load, model, registry
from conftest import TEXTS

pytestmark = quick_once

GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
WORDS = r"[^ ]+| +"

BYTES = {bytes([byte]): byte for byte in range(256)}

LITERALS = ("<|endoftext|>", "<|a|>", "<|b|>")

Pair = tuple[tiktoken.Encoding, door.Encoding]
ENCODINGS_OF = (tiktoken.Encoding, door.Encoding)


def pair_of(**arguments: Any) -> Pair:
    """Return tiktoken's Encoding and ours."""
    return tiktoken.Encoding(**arguments), door.Encoding(**arguments)


@cache
def small(name: str) -> Pair:
    """Return both Encodings of a vocabulary trained on TEXTS."""
    pattern, specials = {
        "letters": (GPT2, {LITERALS[0]: 1000}),
        "words": (WORDS, {LITERALS[0]: 900, LITERALS[1]: 5000, LITERALS[2]: 902}),
        "shared id": (GPT2, {LITERALS[0]: 800, LITERALS[1]: 300, LITERALS[2]: 799}),
        "no special": (GPT2, {}),
    }[name]
    trained = Tokenizer.train([text * 3 for text in TEXTS.values()], 700, special_tokens=())
    ranks = {trained.token_bytes(id): id for id in trained.ids}
    arguments = {"pat_str": pattern, "mergeable_ranks": ranks, "special_tokens": specials}
    return pair_of(name=name, **arguments)


@cache
def public(name: str) -> Pair:
    """Return both Encodings of a public vocabulary."""
    if not DATA.exists():
        pytest.skip("needs the public files")
    theirs = public_encoding(name, DATA)
    ranks, specials = theirs._mergeable_ranks, theirs._special_tokens
    return theirs, door.Encoding(
        name, pat_str=theirs._pat_str, mergeable_ranks=ranks, special_tokens=specials
    )


SMALL = ("letters", "words", "shared id", "no special")
PUBLIC = ("gpt2", "cl100k_base", "o200k_base", "o200k_harmony")


NAMES = (*SMALL, *(PUBLIC if DATA.exists() else ()))


def both(name: str) -> Pair:
    """Return both Encodings of a vocabulary."""
    return public(name) if name in PUBLIC else small(name)


@pytest.fixture(params=NAMES)
def pair(request: pytest.FixtureRequest) -> Pair:
    """Both Encodings of one vocabulary."""
    return both(request.param)


PANIC = "a panic"


def outcome(call: Callable[[Any], Any], encoding: Any) -> Any:
    """Return the result of a call, or the class of its error."""
    try:
        result = call(encoding)
    except Exception as error:
        return type(error)
    except BaseException as error:  # no module exports the type of a panic
        if type(error).__name__ != "PanicException":
            raise
        return PANIC
    return (result.dtype, result.tolist()) if isinstance(result, np.ndarray) else result


def token_bytes(id: int, encoding: Any) -> Any:
    """Return the bytes of an id."""
    return encoding.decode_single_token_bytes(id)


def unstable_of(text: str, options: dict[str, Any], encoding: Any) -> Any:
    """Return the stable ids of a text, and its completions as a set."""
    stable, completions = encoding.encode_with_unstable(text, **options)
    return stable, {*map(tuple, completions)}


def unstable(text: str, allowed_special: Any, encoding: Any) -> Any:
    options = {"allowed_special": allowed_special, "disallowed_special": ()}
    return unstable_of(text, options, encoding)


def check(pair: Pair, *calls: Callable[[Any], Any]) -> None:
    """Check that calls give equal results, or errors of one class, for both Encodings."""
    theirs, ours = pair
    assert [outcome(call, ours) for call in calls] == [outcome(call, theirs) for call in calls]


PARTS = (*LITERALS, "<|endofprompt|>", "<|reserved_200018|>", "<|", "\ud83d", "\udc4d", "\ud800")

texts = st.lists(
    st.sampled_from(PARTS)
    | st.sampled_from(sorted(TEXTS.values())).map(lambda text: text[:20])
    | st.text(max_size=8),
    max_size=5,
).map("".join)

literals = st.frozensets(st.sampled_from((*LITERALS, "<|unknown|>", "a", "<|", "<|endofprompt|>")))
allowed = st.sampled_from(["all", frozenset()]) | literals


@given(st.sampled_from(NAMES), texts.filter(bool))
def test_single_tokens_and_pieces_match_tiktoken(name: str, text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    check(
        both(name),
        lambda each: each._encode_single_piece(text),
        lambda each: each._encode_single_piece(data),
        lambda each: each.encode_single_token(text),
        lambda each: each.encode_single_token(data),
        lambda each: each._encode_bytes(data),
        lambda each: each._encode_bytes(data[1:-1]),
    )


@given(st.sampled_from(SMALL), texts, allowed)
@example("letters", "e\x1c \x1f", "all")
def test_unstable_ids_match_tiktoken(name: str, text: str, yes: Any) -> None:
    check(small(name), partial(unstable, text, yes))


def named(value: object) -> str:
    """Return the `repr` of a value, without its address."""
    return "memoryview" if isinstance(value, memoryview) else repr(value)


TOKENS: tuple[Any, ...] = (
    *((97, 98), b"ab", bytearray(b"ab"), range(97, 99), {97}, {97: 1}, "ab", None, 97, ["a"]),
    *([True], [97.0], [-1], [2**32], [97, 2**40], [699_999_999], memoryview(b"ab"), [], [[97]]),
    *(array.array("i", [97, 98]), np.array([97, 98]), np.array([97], "uint8"), np.array([97.0])),
    np.array([[97]]),
)


@pytest.mark.parametrize("tokens", TOKENS, ids=named)
def test_sequences_of_ids_are_taken_as_in_tiktoken(tokens: Any) -> None:
    check(
        small("letters"),
        lambda each: each.decode(tokens),
        lambda each: each.decode_bytes(tokens),
        lambda each: each.decode_tokens_bytes(tokens),
        lambda each: each.decode_with_offsets(tokens),
    )


def test_an_iterator_is_no_sequence_of_ids() -> None:
    check(
        small("letters"),
        lambda each: each.decode(iter([97])),
        lambda each: each.decode_tokens_bytes(iter([97])),
    )


VALUES = ("a", b"a", bytearray(b"a"), memoryview(b"a"), [97], 97, None, 1.5, True, -1, "zzzz", ())


@pytest.mark.parametrize("value", VALUES, ids=named)
def test_wrong_arguments_raise_the_class_of_tiktoken(value: Any) -> None:
    check(
        small("letters"),
        lambda each: each.encode(value),
        lambda each: each.encode(value, allowed_special="all"),
        lambda each: each.encode_ordinary(value),
        lambda each: each.encode_to_numpy(value),
        lambda each: each.encode_single_token(value),
        lambda each: each._encode_single_piece(value),
        lambda each: each._encode_bytes(value),
        lambda each: each.encode("a", allowed_special=value),
        lambda each: each.encode("a", allowed_special=value, disallowed_special=()),
        lambda each: each.encode("b", disallowed_special=value),
        lambda each: each.decode_single_token_bytes(value),
        lambda each: each.encode_batch([value]),
        lambda each: each.encode_ordinary_batch([value]),
        lambda each: each.encode_batch(value and [value, value]),
        lambda each: each.is_special_token(value),
        lambda each: each.decode([255], value),
    )


KINDS: dict[str, Any] = {
    "list": list,
    "tuple": tuple,
    "dict": dict.fromkeys,
    "frozenset": frozenset,
    "keys": lambda names: dict.fromkeys(names).keys(),
    "str": "".join,
}


@pytest.mark.parametrize(
    "allowed", [*(kind(LITERALS[:1]) for kind in KINDS.values()), [], {1}, None, "all"]
)
@pytest.mark.parametrize("kind", [*KINDS, None, "all", "none"])
def test_kinds_of_allowed_and_disallowed_match_tiktoken(allowed: Any, kind: str | None) -> None:
    options: dict[str, Any] = {"allowed_special": allowed}
    if kind != "none":
        options["disallowed_special"] = KINDS[kind](LITERALS[1:]) if kind in KINDS else kind
    for text in ("men", *LITERALS, f"\ud800{LITERALS[1]}", "\ud800"):
        check(
            small("words"),
            *(methodcaller(name, text, **options) for name in ("encode", "encode_to_numpy")),
            methodcaller("encode_batch", [text, "a"], **options),
            partial(unstable, text, allowed),
        )


@pytest.mark.parametrize("count", [0, -1, None, "a", 3])
def test_numbers_of_threads_match_tiktoken(count: Any) -> None:
    check(
        small("letters"),
        lambda each: each.encode_batch(["a", "b"], num_threads=count),
        lambda each: each.encode_ordinary_batch(["a", "b"], num_threads=count),
        lambda each: each.decode_batch([[97], []], num_threads=count),
        lambda each: each.decode_bytes_batch([[97], []], num_threads=count),
    )


def test_a_str_is_a_batch_of_its_characters() -> None:
    check(small("letters"), lambda each: each.encode_batch("ab"))
    check(small("letters"), lambda each: each.encode_ordinary_batch("ab"))


def test_threads_of_a_batch_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []

    def encode_batch(*_: object, threads: int, **__: object) -> list[object]:
        given.append(threads)
        return []

    monkeypatch.setattr(Tokenizer, "encode_batch", encode_batch)
    encoding = small("letters")[1]
    encoding.encode_batch(["a"], num_threads=3)
    encoding.encode_ordinary_batch(["a"], num_threads=5)
    assert given == [3, 5]


def extra_threads(call: Callable[[], object]) -> int:
    """Return the most threads that a call starts, -1 if this thread never runs meanwhile.

    Python's switch interval is an hour, so this thread runs only if the call releases the GIL.
    """
    numbers = {len(os.listdir("/proc/self/task"))}
    calling = max(numbers) + 1
    found: list[int] = []
    begun = threading.Event()

    def run() -> None:
        begun.set()
        call()
        found.append(max(numbers) - calling)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(3600)
    try:
        thread = threading.Thread(target=run)
        thread.start()
        begun.wait()
        while thread.is_alive():
            numbers.add(len(os.listdir("/proc/self/task")))
            time.sleep(0.001)
    finally:
        sys.setswitchinterval(interval)
    thread.join()
    return found[0]


@pytest.mark.skipif(bpetite.engine != "native", reason="the Python engine has one thread")
@pytest.mark.skipif(sys.platform != "linux", reason="counts the threads of Linux")
@pytest.mark.parametrize("method", ["encode_batch", "encode_ordinary_batch"])
@pytest.mark.parametrize("count", [1, 3])
def test_batches_use_so_many_threads_while_others_run(method: str, count: int) -> None:
    texts = ["the hen then met ten men, né 你\n" * 10_000] * 12
    encode = partial(getattr(small("letters")[1], method), texts, num_threads=count)
    seen = -1
    for _ in range(20):  # a busy machine may let this thread wait
        seen = max(seen, extra_threads(encode))
        if seen >= count - 1:
            break
    assert seen == count - 1


def test_values_match_tiktoken(pair: Pair) -> None:
    check(
        pair,
        repr,
        lambda each: each.name,
        lambda each: each.n_vocab,
        lambda each: each.max_token_value,
        lambda each: each.eot_token,
        lambda each: each.special_tokens_set,
        lambda each: each.token_byte_values(),
        lambda each: [outcome(partial(token_bytes, id), each) for id in IDS],
        lambda each: [each.is_special_token(id) for id in IDS],
    )


IDS = (
    *range(0, 2000, 7),
    *range(50_250, 50_260),
    *range(100_250, 100_280),
    *range(199_990, 201_100),
)


TEXTS_AND_ODD_ONES = (*TEXTS.values(), "a\ud800b", "x\ud83d\udc4d<|endoftext|>")


def test_texts_have_the_ids_of_tiktoken(pair: Pair) -> None:
    texts = (*TEXTS_AND_ODD_ONES, "".join(TEXTS.values())[:5000])
    options: tuple[dict[str, Any], ...] = (
        {},
        {"allowed_special": "all"},
        {"disallowed_special": ()},
    )

    def ids(encoding: Any, method: str, **options: Any) -> Any:
        return [outcome(methodcaller(method, t, **options), encoding) for t in texts]

    for each in options:
        check(pair, partial(ids, method="encode", **each))
        check(pair, partial(ids, method="encode_to_numpy", **each))
    check(pair, partial(ids, method="encode_ordinary"))


def test_two_literals_of_one_id_both_count() -> None:
    text = "a<|endofprompt|>b<|reserved_200018|>"
    theirs, ours = public("o200k_harmony")
    check(
        (theirs, ours),
        lambda each: each.encode(text, allowed_special="all"),
        lambda each: each.encode(text),
        lambda each: each.encode(text, allowed_special={"<|reserved_200018|>"}),
        lambda each: each.encode(text, allowed_special={"<|endofprompt|>"}, disallowed_special=()),
        lambda each: each.encode_batch([text, "a"], allowed_special="all"),
        lambda each: each.encode_batch([text, "a"]),
        lambda each: each.decode([200018]),
        lambda each: each.decode([201088]),
    )
    assert ours.encode(text, allowed_special="all") == [64, 200018, 65, 200018]


def test_white_space_that_is_a_special_token_is_stable() -> None:
    pair = pair_of(
        name="spaces", pat_str=GPT2, mergeable_ranks=BYTES, special_tokens={"\n \n": 300}
    )
    check(pair, partial(unstable, "a\n \n\n", "all"), partial(unstable, "\n \n \n \n ", "all"))


def test_a_completion_merges_what_is_else_taken_whole() -> None:
    ranks = {**BYTES, b"abc": 256}
    theirs, ours = pair_of(
        name="whole", pat_str=r"[\s\S]+", mergeable_ranks=ranks, special_tokens={}
    )
    found = unstable("abc\n", "all", ours)
    assert found == unstable("abc\n", "all", theirs) == ([], {(97, 98, 99, 10)})


@pytest.mark.parametrize(
    "changed",
    [
        {"mergeable_ranks": {}},
        {"mergeable_ranks": {**BYTES, "a": 300}},
        {"mergeable_ranks": {**BYTES, b"ab": "1"}},
        {"pat_str": "("},
        {"pat_str": None},
        {"special_tokens": None},
        {"explicit_n_vocab": 5},
        {"explicit_n_vocab": 258},
        {"explicit_n_vocab": 257},
        {"explicit_n_vocab": 0},
        {"special_tokens": {"<|a|>": 400}, "explicit_n_vocab": 257},
        {"special_tokens": {"a": 97}},
        {"special_tokens": {"b": 97}},
    ],
    ids=repr,
)
def test_constructor_refuses_what_tiktoken_refuses(changed: dict[str, Any]) -> None:
    arguments = {
        "pat_str": WORDS,
        "mergeable_ranks": BYTES,
        "special_tokens": {"<|a|>": 256},
        **changed,
    }

    def make(module: Any) -> str:
        return repr(module.Encoding("small", **arguments))

    assert outcome(make, door) == outcome(make, tiktoken)


def test_a_pattern_that_leaves_text_out_is_refused() -> None:
    with pytest.raises(ValueError, match="leaves text out, which tiktoken would drop"):
        door.Encoding("small", pat_str=r"\p{L}+", mergeable_ranks=BYTES, special_tokens={})


def test_signatures_match_tiktoken() -> None:
    def parameters(function: Any) -> list[tuple[str, Any, Any]]:
        found = inspect.signature(function).parameters.values()
        return [(each.name, each.kind, each.default) for each in found]

    names = [
        name
        for name in vars(tiktoken.Encoding)
        if inspect.isfunction(getattr(tiktoken.Encoding, name))
    ]
    names.remove("__getstate__")
    names.remove("__setstate__")
    for name in names:
        expected = parameters(getattr(tiktoken.Encoding, name))
        assert (name, parameters(getattr(door.Encoding, name))) == (name, expected)
    for name in door.__all__:
        assert parameters(getattr(door, name)) == parameters(getattr(tiktoken, name))
    assert parameters(load.load_tiktoken_bpe) == parameters(tiktoken.load.load_tiktoken_bpe)


def test_names_of_models_match_tiktoken() -> None:
    assert model.MODEL_TO_ENCODING == tiktoken.model.MODEL_TO_ENCODING
    assert model.MODEL_PREFIX_TO_ENCODING == tiktoken.model.MODEL_PREFIX_TO_ENCODING
    for name in ("gpt-4o-mini", "ft:gpt-4o:x", "ft:gpt-4:x", "gpt-4-turbo", "gpt-5.1", "gpt2"):
        assert door.encoding_name_for_model(name) == tiktoken.encoding_name_for_model(name)
    for name in ("cl100k_base", "llama", ""):
        with pytest.raises(KeyError):
            door.encoding_name_for_model(name)


def test_names_of_encodings_match_tiktoken() -> None:
    assert door.list_encoding_names() == tiktoken.list_encoding_names() == [*ENCODINGS]


@pytest.mark.parametrize("name", [None, "unknown", 5])
def test_an_unknown_encoding_is_a_value_error(name: Any) -> None:
    with pytest.raises(ValueError, match="encoding"):
        door.get_encoding(name)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache, without encodings made before."""
    monkeypatch.setattr(registry, "ENCODINGS", {})
    monkeypatch.setattr(registry, "ENCODING_CONSTRUCTORS", None)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    return tmp_path


def fill(cache_folder: Path, *files: str) -> None:
    """Put public files into a cache, as tiktoken does."""
    if not DATA.exists():
        pytest.skip("needs the public files")
    for file in files:
        address = f"https://openaipublic.blob.core.windows.net/encodings/{file}"
        name = hashlib.sha1(address.encode()).hexdigest()
        cache_folder.joinpath(name).write_bytes(public_file(file, DATA))


@pytest.mark.parametrize("name", ["cl100k_base", "o200k_base", "o200k_harmony"])
def test_encodings_come_from_the_cache(name: str, names: Path) -> None:
    fill(names, f"{ENCODINGS[name].file}.tiktoken")
    encoding, expected = door.get_encoding(name), public(name)[0]
    assert encoding._mergeable_ranks == expected._mergeable_ranks
    assert encoding._special_tokens == expected._special_tokens
    assert door.get_encoding(name) is encoding
    text = "".join(TEXTS.values())
    assert encoding.encode_ordinary(text) == expected.encode_ordinary(text)
    assert pickle.loads(pickle.dumps(encoding)) is copy.copy(encoding) is encoding
    again = door.Encoding(
        "again",
        pat_str=encoding._pat_str,
        mergeable_ranks=encoding._mergeable_ranks,
        special_tokens={"<|new|>": 300_000},
    )
    assert again.encode("men<|new|>", allowed_special="all")[-1] == 300_000


def test_a_missing_file_is_asked_of_tiktoken(names: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tiktoken_ext import openai_public  # type: ignore[import-untyped]

    arguments = {
        "name": "p50k_base",
        "pat_str": WORDS,
        "mergeable_ranks": BYTES,
        "special_tokens": {},
    }
    monkeypatch.setitem(openai_public.ENCODING_CONSTRUCTORS, "p50k_base", lambda: arguments)
    assert door.encoding_for_model("text-davinci-003").encode("ab") == [97, 98]
    monkeypatch.setitem(sys.modules, "tiktoken_ext.openai_public", None)
    with pytest.raises(FileNotFoundError, match=f"^r50k_base is not in tiktoken's cache, {names}"):
        door.get_encoding("r50k_base")


@pytest.fixture
def plugin(names: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a plugin."""
    import tiktoken_ext

    monkeypatch.setattr(tiktoken_ext, "__path__", [*tiktoken_ext.__path__, str(names)])
    monkeypatch.delitem(sys.modules, "tiktoken_ext.small_plugin", raising=False)
    return names / "small_plugin.py"


PLUGIN = """
def small():
    ranks = {bytes([byte]): byte for byte in range(256)}
    return {"name": "small", "pat_str": "[^ ]+| +", "mergeable_ranks": ranks, "special_tokens": {}}

ENCODING_CONSTRUCTORS = {NAME: small}
"""


def test_plugins_add_encodings(plugin: Path) -> None:
    plugin.write_text(PLUGIN.replace("NAME", '"small"'), "utf-8")
    assert door.list_encoding_names() == [*ENCODINGS, "small"]
    assert door.get_encoding("small").encode("ab") == [97, 98]


@pytest.mark.parametrize("content", ["", PLUGIN.replace("NAME", '"gpt2"')], ids=["none", "taken"])
def test_a_bad_plugin_is_a_value_error(content: str, plugin: Path) -> None:
    plugin.write_text(content, "utf-8")
    for _ in range(2):
        with pytest.raises(ValueError, match=r"^the plugin tiktoken_ext.small_plugin has "):
            door.list_encoding_names()
        sys.modules.pop("tiktoken_ext.small_plugin")


@pytest.mark.parametrize(
    "make", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))]
)
def test_copies_give_the_same_ids(make: Callable[[Any], Any]) -> None:
    encoding = small("shared id")[1]
    copied = make(encoding)
    text = "".join(LITERALS) + "né 你🙂"
    assert copied.encode(text, allowed_special="all") == encoding.encode(
        text, allowed_special="all"
    )
    assert repr(copied) == repr(encoding)


def test_ranks_are_read_as_by_tiktoken(tmp_path: Path) -> None:
    path = tmp_path / "small.tiktoken"
    path.write_bytes(b"YQ== 0\nYg== 1\n\nYWI= 2\n")
    ranks = load.load_tiktoken_bpe(str(path))
    assert ranks == tiktoken.load.load_tiktoken_bpe(str(path)) == {b"a": 0, b"b": 1, b"ab": 2}
    with pytest.raises(ValueError, match="the SHA-256 is not 00"):
        load.load_tiktoken_bpe(str(path), "00")
    path.write_bytes(b"YQ== 0\nYg==\n")
    with pytest.raises(ValueError, match="line 2: expected a token in base64"):
        load.load_tiktoken_bpe(str(path))


def test_ranks_of_an_address_come_from_the_cache(names: Path) -> None:
    address = "https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken"
    with pytest.raises(FileNotFoundError, match=f"{address} is not in the cache"):
        load.load_tiktoken_bpe(address)
    fill(names, "cl100k_base.tiktoken")
    assert load.load_tiktoken_bpe(address) == public("cl100k_base")[0]._mergeable_ranks


def test_our_tokenizer_takes_an_encoding_of_the_door() -> None:
    encoding = small("letters")[1]
    text = "".join(TEXTS.values())
    assert Tokenizer.from_tiktoken(encoding).encode_ordinary(text) == encoding.encode_ordinary(text)


# Random vocabularies and calls


@st.composite
def vocabularies(draw: st.DrawFn) -> dict[str, Any]:
    """Return the arguments of an Encoding: tokens, ids in any order, special tokens, their number.

    tiktoken leaves undetermined which of two tokens has a rank, and text without a match.
    """
    rng = draw(randoms)
    tokens = [*small("letters")[0]._mergeable_ranks]
    if draw(st.booleans()):  # tokens that merges may never make
        alphabet = draw(st.sampled_from([b"ab \n", b"aeth ", "é你🙂 ".encode()]))
        made = {bytes(rng.choices(alphabet, k=rng.randint(2, 6))) for _ in range(40)}
        tokens = [*BYTES, *sorted(made)]
    ids = [*range(len(tokens))]
    if draw(st.booleans()):  # any order, with gaps
        ids = rng.sample(range(2 * len(tokens)), len(tokens))
    specials: dict[str, int] = {}
    for literal in draw(st.lists(st.sampled_from((*LITERALS, "\n \n", "é🙂")), unique=True)):
        free, taken = max(ids) + 1 + len(specials), [*specials.values(), *ids[:1]]
        specials[literal] = rng.choice([free, free, free, free + 100, rng.choice(taken)])
    total = len(tokens) + len(specials)
    return {
        "name": "random",
        "pat_str": draw(st.sampled_from([*PATTERNS.values(), WORDS, r"[\s\S]"])),
        "mergeable_ranks": dict(zip(tokens, ids, strict=True)),
        "special_tokens": specials,
        **draw(
            st.sampled_from([{}, {}, *({"explicit_n_vocab": n} for n in (total, total + 1, 0))])
        ),
    }


odd_texts = st.sampled_from([None, b"a", 5, ["a"], bytearray(b"a")])
odd_ids = st.sampled_from([-1, 2**32, 2**70, True, "1", 1.0, None, 2**32 - 1])
some_text = texts | st.sampled_from(sorted(TEXTS.values())) | odd_texts
special = st.fixed_dictionaries(
    {},
    optional={
        "allowed_special": allowed,
        "disallowed_special": st.sampled_from(["all", ()]) | literals | literals.map(sorted),
    },
)
threads = st.fixed_dictionaries({}, optional={"num_threads": st.sampled_from([1, 2, 3, 0])})
errors = st.sampled_from(
    ["replace", "strict", "ignore", "backslashreplace", "surrogateescape", "unknown"]
)
none: Any = st.just({})
spaced = st.lists(
    st.sampled_from([*" \n\t", "  ", "ab", "the", "é", "🙂", "'s", *LITERALS]), max_size=9
)
some_bytes = (texts | spaced.map("".join)).map(lambda text: text.encode("utf-8", "surrogatepass"))
cut = st.tuples(some_bytes, st.integers(0, 4), st.integers(0, 4)).map(
    lambda found: found[0][found[1] : len(found[0]) - found[2]]
)
DECODERS = ("decode", "decode_bytes", "decode_tokens_bytes", "decode_with_offsets")
ATTRIBUTES = ("name", "n_vocab", "max_token_value", "eot_token", "special_tokens_set")


def calls_of(known: list[int]) -> Any:
    """Return a strategy of calls: a method, its arguments and its options."""
    id = st.sampled_from(known)
    some_id: Any = id | odd_ids | st.just(max(known) + 1)
    ids = st.lists(id, max_size=20)
    lists: Any = st.one_of(
        *(ids, ids.map(tuple), st.lists(id | some_id, max_size=9)),
        *(ids.map(lambda ids: array.array("Q", ids)), ids.map(np.array)),
    )
    calls: list[tuple[str, tuple[Any, ...], Any]] = [
        ("encode", (some_text,), special),
        ("encode_ordinary", (some_text,), none),
        ("encode_to_numpy", (some_text,), special),
        ("encode_batch", (st.lists(some_text, max_size=4),), special),
        ("encode_ordinary_batch", (st.lists(some_text, max_size=4),), threads),
        ("_encode_bytes", (cut,), none),
        ("_encode_only_native_bpe", (texts,), none),
        ("_encode_single_piece", ((texts | cut).filter(bool),), none),
        ("encode_with_unstable", (spaced.map("".join) | texts,), special),
        ("encode_single_token", (texts.map(lambda text: text[:3]) | cut | odd_texts,), none),
        ("decode", (lists,), none),
        ("decode", (lists, errors), none),
        ("decode_bytes", (lists,), none),
        ("decode_tokens_bytes", (lists,), none),
        ("decode_with_offsets", (lists,), none),
        ("decode_batch", (st.lists(lists, max_size=3), errors), threads),
        ("decode_bytes_batch", (st.lists(lists, max_size=3),), threads),
        ("decode_single_token_bytes", (some_id,), none),
        ("is_special_token", (some_id,), none),
    ]
    return st.sampled_from(calls).flatmap(
        lambda call: st.tuples(st.just(call[0]), st.tuples(*call[1]), call[2])
    )


@given(st.sampled_from((*SMALL * 3, *NAMES)) | vocabularies(), st.data())
def test_random_calls_match_tiktoken(made_of: str | dict[str, Any], data: st.DataObject) -> None:
    """`scripts/fuzz door` makes many more. Only calls on which tiktoken panics may differ."""
    if isinstance(made_of, str):
        theirs, ours = both(made_of)
    else:
        arguments = made_of
        both_made = [outcome(lambda kind: kind(**arguments), each) for each in ENCODINGS_OF]
        if isinstance(both_made[0], type):
            assert both_made[0] == both_made[1]
            return
        theirs, ours = both_made
    uses = Counter([*theirs._special_tokens.values(), *theirs._mergeable_ranks.values()])
    known = [id for id, count in uses.items() if count == 1]  # tiktoken decodes others as either
    check((theirs, ours), *map(attrgetter, ATTRIBUTES))
    if made_of not in PUBLIC:  # where these are slow
        check((theirs, ours), methodcaller("token_byte_values"))
    for name, given_, options in data.draw(st.lists(calls_of(known), min_size=1, max_size=30)):
        if name == "encode_with_unstable" and made_of in PUBLIC:
            continue  # slow
        call: Callable[[Any], Any] = methodcaller(name, *given_, **options)
        if name == "encode_with_unstable":
            call = partial(unstable_of, given_[0][:40], options)
        expected, found = outcome(call, theirs), outcome(call, ours)
        if expected != PANIC:
            assert (found, type(found)) == (expected, type(expected)), (name, given_, options)


@pytest.mark.parametrize("ids", [[699_999, -1], [-1, 699_999], [97, 699_999, "a"]], ids=str)
def test_first_of_two_bad_ids_is_told(ids: Any) -> None:
    check(
        small("letters"),
        *(lambda each, method=method: getattr(each, method)(ids) for method in DECODERS),
    )


def test_the_first_bad_text_of_a_batch_is_told() -> None:
    check(
        small("letters"),
        lambda each: each.encode_batch(["a", LITERALS[0], None]),
        lambda each: each.encode_batch(["a", None, LITERALS[0]]),
        lambda each: each.encode_ordinary_batch([None], num_threads=0),
    )


def test_tiktoken_is_not_imported(tmp_path: Path) -> None:
    program = """
import sys
import bpetite.tiktoken as tiktoken
ranks = {bytes([byte]): byte for byte in range(256)}
encoding = tiktoken.Encoding("x", pat_str="[^ ]+| +", mergeable_ranks=ranks, special_tokens={})
assert encoding.decode(encoding.encode("a b")) == "a b"
assert "gpt2" in tiktoken.list_encoding_names()
try:
    tiktoken.get_encoding("gpt2")
except FileNotFoundError:
    pass
print([name for name in sys.modules if name == "tiktoken" or name.startswith("tiktoken.")])
"""
    environment = {**os.environ, "TIKTOKEN_CACHE_DIR": str(tmp_path)}
    block = "import sys; sys.modules['tiktoken_ext'] = None\n"
    result = subprocess.run(
        [sys.executable, "-c", block + program], capture_output=True, env=environment, timeout=60
    )
    assert (result.stdout.strip(), result.stderr) == (b"[]", b"")


def test_core_module_has_the_class() -> None:
    assert core.Encoding is door.Encoding
