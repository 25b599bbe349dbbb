"""Fixtures of many tests: texts of every kind, and a tokenizer trained on real text."""

from __future__ import annotations

import heapq
import inspect
import shutil
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pydoc_data.topics import topics
from types import MappingProxyType
from typing import Any

import pytest

from bpetite import PATTERNS, Tokenizer

TEXTS = MappingProxyType(
    {
        "empty": "",
        "one letter": "a",
        "one space": " ",
        "one newline": "\n",
        "english": "Hello world, it's 2026! The quick brown fox jumps over the lazy dog.",
        "contractions": "don't it's we'll you're I've I'm he'd 'twas rock'n'roll",
        "no contractions": "DON'T IT'S WE'LL it’s y'all 'll 's'd'm't ' 's",
        "code": "def f(x: int) -> str:\n    return f'{x!r:>10}'  # why?\n\n\nclass A: ...\n",
        "url": "https://example.org/a/b?c=d&e=%F0%9F%99%82#top",
        "two-byte scripts": "Ünïcödé ß ñ Ελληνικά русский язык עברית العربية հայերեն",
        "three-byte scripts": "你好，世界 日本語テキスト 한국어 हिन्दी ภาษาไทย ქართული አማርኛ",
        "four-byte scripts": "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𐍈𐌰𐌹 𠜎𠜱𠝹 𓀀𓂀 𞤀𞤣",
        "all in one word": "aé你🙂zя한𝔘",
        "emoji": "🙂🙃 👍🏽 ❤️ ☎︎ 🎉!!",
        "emoji with joiners": "👩‍👩‍👧‍👦 🏳️‍🌈 👩🏽‍💻 🧑‍🚀",
        "flags and keycaps": "🇩🇪🇫🇷🇯🇵🇺 🏴\U000e0067\U000e0062\U000e0073\U000e007f 1️⃣#️⃣",
        "combining": "e\u0301 n\u0303 a\u0308\u0323 \u0301 Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚a̴l͖g͔o̸",
        "composed and decomposed": "é e\u0301 Å A\u030a \u212b ﬁ fi ½ 1⁄2",
        "digits": "0 42 3.14 1,000,000 0x1F 10e-3 007 1a2b3c",
        "digits of other scripts": "٠١٢ ०१२ ๐๑๒ ０１２ Ⅳ ⅷ ½ ² ₃ ④ 〇 𝟘𝟙 𐄇 一二三",
        "tabs": "\ta\tb\t\tc\t \td",
        "newlines": "a\r\nb\nc\rd\r\n\r\ne\n\n\nf\r\r\n",
        "white-space runs": "a  b   c    d \n e  \n\n  f   ",
        "other white space": "a\xa0b\u2003c\u2003\u2003d\u3000e\u1680f\u2028g\u2029h\x85i\x0bj\x0c",
        "separators that are not white space": "a\x1cb\x1dc\x1ed\x1fe \x1c \x1f",
        "no width, or a direction": "a\u200bb\u200cc\u200dd \u200eשלום\u200f \u202eab\xad",
        "control characters": "\x00a\x00\x00b\x01\x02\x7f\x80\x9f\x1b[0m",
        "byte order mark": "\ufeffa \ufeff b\ufeff",
        "replacement character": "a\ufffdb \ufffd\ufffd � c",
        "private use": "\ue000\uf8ff \U000f0000\U0010fffd x\ue001",
        "noncharacters": "\ufdd0\ufdef\ufffe\uffff a\U0001fffe\U0010ffff",
        "edges of the encoding": "\x7f\x80\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff",
        "beginning of a literal": "<|endoftext <|endoftext| <| |> endoftext|> <|endoftex<|",
        "literal": "a<|endoftext|>b",
        "literals in a row": "<|endoftext|><|endoftext|>\n<|endoftext|>",
        "run of a letter": "a" * 300,
        "run of spaces": " " * 300 + "x",
        "run of newlines": "\n" * 300,
        "run of digits": "1234567890" * 20,
        "run of symbols": "-" * 200 + "=" * 77,
        "run of emoji": "🙂" * 100,
        "run of Chinese": "你好世界" * 50,
        "longer than a block": "the hen then met the ten men, 你好! " * 300,
        "longer than a block, without white space": "thehenthenmet" * 700,
    }
)
"""Texts of each kind that some tokenizer has encoded wrongly."""

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


# Of no wider scope: pytest would group all tests by text, and make other fixtures anew for each.
@pytest.fixture(params=list(TEXTS.values()), ids=list(TEXTS))
def text_case(request: pytest.FixtureRequest) -> str:
    """One of TEXTS: a test with this fixture runs with each of them."""
    text: str = request.param
    return text


@pytest.fixture(scope="session")
def real_texts() -> list[str]:
    """Several hundred kB of English and Python code that come with every Python."""
    sources = [inspect.getsource(module) for module in (heapq, textwrap)]
    return [*topics.values(), *sources]


@pytest.fixture(scope="session")
def tokenizer(real_texts: list[str]) -> Tokenizer:
    """A tokenizer of 1,000 bytes and merges, trained on real text and on TEXTS."""
    return Tokenizer.train([*real_texts, *(text * 20 for text in TEXTS.values())], 1000)


@pytest.fixture(scope="session")
def tokenizers() -> dict[str, Tokenizer]:
    """A tokenizer for each pattern, for a pattern of the user's own, and for a normal form."""
    patterns = {**PATTERNS, "own": r"\p{L}+| ?\d|\s+(?!\S)|\s+"}
    corpus, literals = [*TEXTS.values()] * 3, ["<|endoftext|>", "<|a|>"]
    found = {
        name: Tokenizer.train(corpus, 420, pattern=pattern, special_tokens=literals)
        for name, pattern in patterns.items()
    }
    return {
        **found,
        "normal form": Tokenizer(replace(found["gpt2"]._vocabulary, normalizer="NFC")),
    }


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, without a window."""
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM)
        yield chromium
        chromium.close()


@pytest.fixture
def switching_often() -> Iterator[None]:
    """Let threads take turns as often as possible."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)
