"""Ids do not depend on the number of threads, on the calling thread, or on a fork."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engines import native_only
from support.examples import few_examples, slow_except
from support.programs import output_of
from support.texts import FORMS

import bpetite
from bpetite import PATTERNS, Tokenizer
from bpetite._pretokenizer import MATCH_ALL
from bpetite._vocabulary import ONE_SPACE, Stages, Vocabulary

A, END = "<|a|>", "<|endoftext|>"

LONG = 600_000 if bpetite.engine == "native" else 15_000
"""Bytes of a text that the native engine splits for several threads."""

OWN = r"\p{L}+| ?\d|\s+"

OTHERS = ["own pattern", "normal form", "patterns in turn", "byte fallback"]

NAMES = [*PATTERNS, *OTHERS]

UNITS = {
    "english": "It's the hen: then, met the ten men's.  They'd go\n\n\tat 12345 o'clock! ",
    "code": "def f(x):\r\n    return [x//1000, '''a''']  \r\n\r\n\r\n#####\n        }\n/ /\n",
    "no white space": "thehenthenmet",
    "one letter": "a",
    "spaces": " ",
    "newlines": "\n",
    "newlines and spaces": " \n\r\n   \n \t",
    "digits": "1234567890",
    "symbols": "-=!'/",
    "chinese": "你好世界，天地玄黄。",
    "accents": "Åström e\u0301te\u0301 \u0301",
    "white space of many bytes": "\u2003\u3000\x85a\u2028\u00a0",
    "emoji": "👩‍👩‍👧‍👦🏳️‍🌈🙂",
    "special tokens": f"ab{END}{A}",
    "halves of special tokens": f"<|endof{END}text|><|a{A}|>",
    "a special token at every offset": f"abcdefg{END}",
    "all": f"The 你 hen's\r\n {END} 12345  --- é🙂 ",
}


@pytest.fixture(scope="module")
def tokenizers() -> dict[str, Tokenizer]:
    """A tokenizer for each name in NAMES."""
    corpus = "".join(UNITS.values()) * 3
    by_name = {
        name: Tokenizer.train(corpus, 340, pattern=pattern, special_tokens=[END, A])
        for name, pattern in {**PATTERNS, OTHERS[0]: OWN}.items()
    }
    gpt2 = by_name["gpt2"]
    by_name[OTHERS[1]] = Tokenizer(
        Vocabulary(gpt2.merges, gpt2.special_tokens, gpt2.patterns[0], normalizer="NFC")
    )
    in_turn = Vocabulary(gpt2.merges, gpt2.special_tokens, r"\p{N}", more_patterns=gpt2.patterns)
    by_name[OTHERS[2]] = Tokenizer(in_turn)
    ascii_merges = Tokenizer.train(UNITS["english"] * 3, 300).merges
    stages = Stages((("Prefix", " "), ONE_SPACE), byte_fallback=True)
    fallback = Vocabulary(ascii_merges, {END: 900, A: 901}, MATCH_ALL, stages=stages)
    by_name[OTHERS[3]] = Tokenizer(fallback)
    return by_name


def repeated(unit: str, length: int = LONG) -> str:
    """Return a text of about `length` bytes that ends inside a unit."""
    return unit * (length // len(unit.encode())) + unit[: len(unit) // 2]


# By any number of threads


@pytest.mark.parametrize("name", slow_except(PATTERNS, "o200k"))
@pytest.mark.parametrize("kind", UNITS)
def test_any_number_of_threads_gives_the_same_ids(
    tokenizers: dict[str, Tokenizer], name: str, kind: str
) -> None:
    tokenizer, text = tokenizers[name], repeated(UNITS[kind])
    ids = tokenizer.encode(text, dtype="uint32")
    for threads in (2, 7):
        assert tokenizer.encode(text, threads=threads, dtype="uint32") == ids


@pytest.mark.parametrize("name", NAMES)
def test_any_number_of_threads_gives_the_ids_in_any_form(
    tokenizers: dict[str, Tokenizer], name: str
) -> None:
    tokenizer = tokenizers[name]
    text = repeated(UNITS["all"], LONG if name in PATTERNS else LONG // 10)
    ids = tokenizer.encode(text, dtype="uint32")
    for threads in (2, None):
        assert tokenizer.encode(text, threads=threads, dtype="uint32") == ids
    assert tokenizer.encode(text.encode(), threads=2, dtype="uint32") == ids
    assert tokenizer.encode(text, dtype="uint16", threads=3).tolist() == ids.tolist()


@pytest.mark.parametrize("kind", UNITS)
@pytest.mark.parametrize("threads", [1, 3])
def test_threads_split_between_special_tokens(
    tokenizers: dict[str, Tokenizer], kind: str, threads: int
) -> None:
    """A special token ends a piece, wherever a thread begins."""
    tokenizer = tokenizers["cl100k"]
    part = repeated(UNITS[kind], LONG // 10)
    ids = [*tokenizer.encode(part), tokenizer.special_tokens[A]]
    assert tokenizer.encode((part + A) * 10, threads=threads) == ids * 10


@pytest.mark.parametrize("threads", [1, 3, None])
@pytest.mark.parametrize("allowed", ["all", (), {A}], ids=str)
def test_threads_give_the_same_ids_in_every_form(
    tokenizers: dict[str, Tokenizer], threads: Any, allowed: Any
) -> None:
    tokenizer, text = tokenizers["cl100k"], repeated(UNITS["all"]) + A
    ids = tokenizer.encode(text, allowed_special=allowed)
    found = {
        way: form(tokenizer, text, allowed_special=allowed, threads=threads)
        for way, form in FORMS.items()
    }
    assert found == dict.fromkeys(FORMS, ids)


@pytest.mark.parametrize("count", [0, 1, 2, 5, 20])
def test_any_number_of_threads_gives_the_same_batch(
    tokenizers: dict[str, Tokenizer], count: int
) -> None:
    """The texts have very different lengths, and some are empty."""
    tokenizer = tokenizers["o200k"]
    units = [*UNITS.values()] * 6
    texts = [repeated(unit, LONG >> 3 * (i % 5)) for i, unit in enumerate(units[:count])]
    batch = [tokenizer.encode(text) for text in texts]
    any_number: list[Any] = [2, 3, 10**20, np.int64(2), None]
    for threads in any_number:
        ids, offsets = tokenizer.encode_batch(texts, threads=threads, dtype="uint32")
        assert ids.tolist() == [id for each in batch for id in each]
        assert [j - i for i, j in pairwise(offsets)] == list(map(len, batch))
    assert tokenizer.encode_batch(texts, threads=1) == batch
    assert tokenizer.encode_batch(texts, threads=3) == batch


@pytest.mark.parametrize("name", ["cl100k", *OTHERS])
@few_examples
@given(
    st.lists(
        st.lists(st.sampled_from([A, END, "<|a|", *UNITS.values()]), max_size=9).map("".join),
        max_size=6,
    ),
    st.integers(2, 9),
)
def test_a_batch_with_some_special_tokens_ignores_threads(
    tokenizers: dict[str, Tokenizer], name: str, texts: list[str], threads: int
) -> None:
    tokenizer = tokenizers[name]
    expected = [tokenizer.encode(text, allowed_special={A}) for text in texts]
    assert tokenizer.encode_batch(texts, allowed_special={A}, threads=threads) == expected
    ids, offsets = tokenizer.encode_batch(
        texts, allowed_special={A}, threads=threads, dtype="uint32"
    )
    assert ids.tolist() == [id for each in expected for id in each]
    assert [j - i for i, j in pairwise(offsets)] == list(map(len, expected))


@pytest.mark.parametrize("threads", [1, 3, None])
@pytest.mark.parametrize("offset", [0, LONG // 2, LONG])
def test_errors_of_a_long_text_ignore_threads(
    tokenizers: dict[str, Tokenizer], threads: Any, offset: int
) -> None:
    tokenizer, text = tokenizers["gpt2"], repeated("a bc ")[:LONG]
    for data in (text[:offset] + "\ud800" + text[offset:], text.encode()[:offset] + b"\xe4\xbd"):
        for form in FORMS.values():
            for allowed in ("all", {A}):
                with pytest.raises(UnicodeError) as caught:
                    form(tokenizer, data, threads=threads, allowed_special=allowed)
                assert caught.value.start == offset  # type: ignore[attr-defined]
    assert tokenizer.encode(text, threads=threads) == tokenizer.encode(text)


# The number of threads


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
@pytest.mark.parametrize(
    ("threads", "error", "message"),
    [
        (0, ValueError, "threads must be at least 1, got 0"),
        (-2, ValueError, "threads must be at least 1, got -2"),
        (True, TypeError, "threads must be an integer or None, got bool"),
        (False, TypeError, "threads must be an integer or None, got bool"),
        (2.0, TypeError, "threads must be an integer or None, got float"),
        ("2", TypeError, "threads must be an integer or None, got str"),
    ],
)
def test_another_number_of_threads_is_refused(
    form: Callable[..., object], threads: Any, error: type[Exception], message: str
) -> None:
    tokenizer = Tokenizer.train("ab ab", 257)
    with pytest.raises(error) as caught:
        form(tokenizer, "ab", threads=threads)
    assert str(caught.value) == message


# From any thread


@pytest.mark.usefixtures("switching_often")
@pytest.mark.parametrize("name", ["gpt2", "o200k"])
def test_many_threads_use_one_tokenizer_in_all_ways_at_once(
    tokenizers: dict[str, Tokenizer], name: str
) -> None:
    shared: Tokenizer = pickle.loads(pickle.dumps(tokenizers[name]))  # an empty cache
    texts = [repeated(unit, length) for unit in UNITS.values() for length in (11, 500, LONG // 10)]
    expected = [tokenizers[name].encode(text) for text in texts]

    def ids_in_all_ways(text: str) -> list[list[int]]:
        return [
            *(form(shared, text, threads=2) for form in FORMS.values()),
            shared.encode(text.encode()),
        ]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(ids_in_all_ways, texts * 2))
    assert found == [[ids] * 5 for ids in expected * 2]


@pytest.mark.usefixtures("switching_often")
def test_errors_in_one_thread_do_not_disturb_another(tokenizers: dict[str, Tokenizer]) -> None:
    shared = tokenizers["cl100k"]
    text = repeated(UNITS["english"], 20_000)
    ids = shared.encode(text)

    def encode(number: int) -> object:
        try:
            return shared.encode(text.encode() + b"\xff" if number % 2 else text, threads=2)
        except UnicodeDecodeError as error:
            return error.start

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(encode, range(40))) == [ids, len(text)] * 20


# After a fork, and in copies

FORK = f"""
import os, threading
from bpetite import Tokenizer
text = {UNITS["all"]!r} * {LONG // 50}
tokenizer = Tokenizer.train(text[:1000], 280)
ids = tokenizer.encode(text, threads=2)
batch = tokenizer.encode_batch([text, "ab", text], threads=2)
enough = threading.Event()

def go_on():
    while not enough.is_set():
        tokenizer.encode_batch([text, text], threads=2)

threads = [threading.Thread(target=go_on) for _ in range(2)]
for thread in threads:
    thread.start()
codes = []
for _ in range(6):
    child = os.fork()
    if child == 0:
        same = tokenizer.encode(text, threads=2) == tokenizer.encode(text) == ids
        same &= tokenizer.encode_batch([text, "ab", text], threads=2) == batch
        os._exit(0 if same else 1)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
enough.set()
for thread in threads:
    thread.join()
print(codes, tokenizer.encode(text, threads=2) == ids)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_has_the_ids_of_its_parent() -> None:
    """The child must not wait for threads of its parent."""
    assert output_of(FORK) == "[0, 0, 0, 0, 0, 0] True\n"


FORK_WHILE_A_TABLE_IS_MADE = """
import os, signal, sys, threading, time
from array import array
from bpetite import Tokenizer
from bpetite._engine._native import TokenBytes
tokens = {id: b"<|reserved %d|>" % id for id in range(100_000)}
ids = memoryview(array("I", [5]) * 20_000)
sys.setswitchinterval(1e-6)
codes = set()
for turn in range(40):
    table, tokenizer = TokenBytes(tokens), Tokenizer.train("ab ab", 257)
    begun = threading.Event()
    make = lambda: (begun.set(), tokenizer.encode("ab"), table.characters(ids))
    thread = threading.Thread(target=make)
    thread.start()
    begun.wait()
    time.sleep(turn / 10_000)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        same = tokenizer.encode("ab") == tokenizer.encode("ab", dtype="uint32").tolist()
        same &= table.characters(ids[:300]) == 300 * len("<|reserved 5|>")
        os._exit(not same)
    codes.add(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    thread.join()
print(codes)
"""


@native_only
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_waits_for_no_table() -> None:
    assert output_of(FORK_WHILE_A_TABLE_IS_MADE) == "{0}\n"


SECOND_INTERPRETER = """
import os
try:
    import _interpreters as interpreters
except ModuleNotFoundError:
    import _xxsubinterpreters as interpreters
program = '''
from bpetite import Tokenizer, Trusted
tokenizer = Tokenizer.train("ab ab", 257, special_tokens=["<s>"])
print(tokenizer.encode_parts([Trusted("<s>"), "ab<s>"]), flush=True)
'''
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # Python's own decimal warns there
for _ in range(2):
    interpreter = interpreters.create()
    error = interpreters.run_string(interpreter, program)
    assert error is None, error
    interpreters.destroy(interpreter)
exec(program)
"""


def test_each_interpreter_of_a_process_has_the_same_ids() -> None:
    assert output_of(SECOND_INTERPRETER) == "([257, 256, 60, 115, 62], [0, 1, 5])\n" * 3
