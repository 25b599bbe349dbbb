# ruff: noqa: ARG005
"""Each character of a text keeps its origin through every operation, or becomes untracked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given, note
from hypothesis import strategies as st
from support.engines import once

from bpetite.chat._text import TEMPLATE, UNTRACKED, Safe, Text, as_text, escaped, joined, whole

pytestmark = once

PER_ORIGIN = 8
ORIGINS = (TEMPLATE, UNTRACKED, 0, 2, 4)
ORDINARY = " \n,<&"


def letters(origin: int) -> str:
    """Return the characters that only text of this origin has: no case, no white space."""
    first = 0xE000 + ORIGINS.index(origin) * PER_ORIGIN
    return "".join(map(chr, range(first, first + PER_ORIGIN)))


def origin_of(character: str) -> int | None:
    number = (ord(character) - 0xE000) // PER_ORIGIN
    return ORIGINS[number] if 0 <= number < len(ORIGINS) else None


runs = st.sampled_from(ORIGINS).flatmap(
    lambda origin: st.builds(
        whole, st.text(alphabet=letters(origin) + ORDINARY, max_size=6), st.just(origin)
    )
)
texts = st.lists(runs, max_size=4).map(joined)
numbers = st.integers(-9, 9)


def check(found: Any, wanted: Any, may_hide: bool = False) -> None:
    """Compare a result with what `str` gives, and each character with its origin."""
    if isinstance(wanted, (list, tuple)):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            check(one, other, may_hide)
        return
    assert str.__str__(found) == wanted
    for run, origin in as_text(found).runs():
        for character in run:
            own = origin_of(character)
            assert own in (None, origin) or (may_hide and origin == UNTRACKED)


CUTS: dict[str, Callable[[Any, Any, int, int], Any]] = {
    "item": lambda a, b, i, j: a[i] if -len(a) <= i < len(a) else "",
    "slice": lambda a, b, i, j: a[i:j],
    "steps": lambda a, b, i, j: a[i :: j or 1],
    "iterate": lambda a, b, i, j: [*a],
    "reversed": lambda a, b, i, j: [*reversed(a)],
    "add": lambda a, b, i, j: a + b,
    "times": lambda a, b, i, j: a * i,
    "times-left": lambda a, b, i, j: i * a,
    "strip": lambda a, b, i, j: (a.strip(), a.lstrip(), a.rstrip()),
    "strip-characters": lambda a, b, i, j: (a.strip(b), a.lstrip(b), a.rstrip(b)),
    "split": lambda a, b, i, j: (a.split(), a.rsplit(), a.split(None, i), a.rsplit(None, i)),
    "split-at": lambda a, b, i, j: (a.split(b or "x", i), a.rsplit(b or "x", i)),
    "split-at-own": lambda a, b, i, j: (a.split(a[:2] or "x"), a.rsplit(a[:2] or "x", i)),
    "splitlines": lambda a, b, i, j: (a.splitlines(), a.splitlines(True)),
    "partition": lambda a, b, i, j: (a.partition(b or ","), a.rpartition(b or ",")),
    "affixes": lambda a, b, i, j: (a.removeprefix(b), a.removesuffix(b), a.removeprefix(a[:2])),
    "replace": lambda a, b, i, j: (a.replace(b, a), a.replace(",", b, i), a.replace("", b, i)),
    "replace-own": lambda a, b, i, j: a.replace(a[:1] or "x", b, i),
    "join": lambda a, b, i, j: (a.join([b, a, b]), a.join([]), a.join([b]), a.join(b)),
    "cases": lambda a, b, i, j: (a.lower(), a.upper(), a.casefold(), a.swapcase()),
}
"""Operations that keep all origins."""

HIDING: dict[str, Callable[[Any, Any, int, int], Any]] = {
    "title": lambda a, b, i, j: (a.title(), a.capitalize()),
    "padding": lambda a, b, i, j: (a.center(i, "-"), a.ljust(i), a.rjust(i), a.zfill(i)),
    "tabs": lambda a, b, i, j: a.expandtabs(),
    "translate": lambda a, b, i, j: a.translate({44: "--"}),
    "plain": lambda a, b, i, j: ("-".join([a, b]), f"{a}{b}", "{} {}".format(a, b)),  # noqa: UP032
    "percent": lambda a, b, i, j: "%9s|%-3s|%r" % (a, b, a),  # noqa: UP031
}
"""Operations that may make text untracked."""


@given(texts, texts, numbers, numbers)
def test_operations_keep_origins_or_hide_them(a: Text, b: Text, i: int, j: int) -> None:
    for name, operation in {**CUTS, **HIDING}.items():
        note(name)
        check(operation(a, b, i, j), operation(plain(a), plain(b), i, j), name in HIDING)


def plain(text: str) -> str:
    return "".join(run for run, _ in as_text(text).runs())


@given(texts)
def test_escaping_gives_entities_the_origin_of_their_character(text: Text) -> None:
    result = escaped(text)
    assert str.__str__(result) == plain(text).replace("&", "&amp;").replace("<", "&lt;")
    check(result, str.__str__(result))


@given(texts, texts)
def test_formats_keep_the_origins_of_whole_values(a: Text, b: Text) -> None:
    form = whole("%s,%%%s", TEMPLATE)
    check(form % (a, b), f"{plain(a)},%{plain(b)}")
    check(whole("%(x)s", 4) % {"x": a}, plain(a))
    for rare, values in (("%*d", (3, 5)), ("%(x(y))s", {"x(y)": a})):
        result = whole(rare, TEMPLATE) % values
        assert [*result.runs()] == [*Text(rare % values).runs()]


def test_every_method_of_str_is_known() -> None:
    """A method that a later Python adds returns a plain `str`, which is untracked."""
    own = {name for name in vars(Text) if not name.startswith("_")}
    plain_results = {"encode", "expandtabs", "format", "format_map", "translate", "maketrans"}
    no_text = {name for name in dir(str) if name.startswith("is")} | {
        *("count", "find", "rfind", "index", "rindex", "startswith", "endswith")
    }
    public = {name for name in dir(str) if not name.startswith("_")}
    assert public - own - plain_results == no_text


def test_new_text_is_untracked() -> None:
    assert [*Text("ab").runs()] == [("ab", UNTRACKED)]
    assert [*(whole("a", 0) + "b").runs()] == [("a", 0), ("b", UNTRACKED)]
    assert [*("b" + whole("a", 0)).runs()] == [("b", UNTRACKED), ("a", 0)]


def test_safe_text_escapes_what_is_added() -> None:
    safe = joined([whole("<b>", TEMPLATE)]).strip()
    text = escaped(whole("<", 0))
    assert [*(text + safe).runs()] == [("&lt;", 0), ("&lt;b&gt;", TEMPLATE)]
    assert [*(safe + text).runs()] == [("&lt;b&gt;", TEMPLATE), ("&lt;", 0)]
    assert type(text + safe) is Safe
