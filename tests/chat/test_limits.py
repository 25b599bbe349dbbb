"""A template is a stranger's program, so its use of each resource is limited; tests are quick."""

from __future__ import annotations

import time
import tracemalloc

import pytest
from support.engines import once

from bpetite.chat import ChatTemplate, ChatTemplateError, Limits

pytestmark = once

MESSAGES = [{"role": "user", "content": "some words"}]

HOSTILE = {
    "endless loops": "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
    "long output": "{% for a in range(99999) %}{{ 'x' * 9999 }}{% endfor %}",
    "times": "{{ ('x' * 9999999999)|length }}",
    "times of lists": "{{ ([1] * 9999999999)|length }}",
    "times of bytes": "{{ 'x'.encode() * 9999999999 }}",
    "power": "{{ (9 ** (9 ** 9))|string|length }}",
    "squares": (
        "{% set n = namespace(x=9) %}{% for a in range(99) %}{% set n.x = n.x * n.x %}{% endfor %}"
    ),
    "range": "{{ range(999999999)|list|length }}",
    "percent": "{{ '%999999999d' % 1 }}",
    "percent with a star": "{{ '%*d' % (999999999, 1) }}",
    "format method": "{{ '{:>999999999}'.format(1) }}",
    "nested format": "{{ '{:{}}'.format(1, 999999999) }}",
    "format filter": "{{ '%0999999999d'|format(1) }}",
    "center method": "{{ 'x'.center(9999999999) }}",
    "center filter": "{{ 'x'|center(9999999999) }}",
    "justified": "{{ 'x'.ljust(9999999999) }}{{ 'x'.rjust(9999999999) }}",
    "zeros": "{{ '1'.zfill(9999999999) }}",
    "tabs": "{{ '\\t'.expandtabs(9999999999) }}",
    "translate": "{{ ('x' * 9999).translate({120: 'x' * 9999999}) }}",
    "bytes of a number": "{{ (1).to_bytes(9999999999, 'big') }}",
    "replace method": "{{ ('x' * 99999).replace('x', 'y' * 99999) }}",
    "replace filter": "{{ ('x' * 99999)|replace('', 'y' * 99999) }}",
    "replace in an untracked text": "{{ 'x y z'|wordwrap(1)|replace('x', 'y' * 16777217) }}",
    "join": "{{ ('x' * 99999).join('y' * 99999) }}",
    "join filter": "{{ range(99999)|join('y' * 99999) }}",
    "indent": "{{ 'x\\ny'|indent(9999999999) }}",
    "indent of JSON": "{{ [[1]]|tojson(indent=9999999999) }}",
    "slices": "{{ [1]|slice(9999999999)|list|length }}",
    "batches": "{{ [1]|batch(9999999999, 0)|list|length }}",
    "rounding": "{{ 1.5|round(999999999, 'ceil') }}",
    "sums of lists": "{{ [[1]]|sum(start=[])|string }}",
    "wrapping": "{{ ('x ' * 99999)|wordwrap(1, wrapstring='y' * 99999) }}",
    "doubled text": (
        "{% set n = namespace(x='x') %}{% for a in range(99) %}{% set n.x=n.x ~ n.x %}{% endfor %}"
    ),
    "doubled list": (
        "{% set n = namespace(x=[1]) %}{% for a in range(99) %}{% set n.x=n.x + n.x %}{% endfor %}"
    ),
    "nested lists": (
        "{% set n = namespace(x=[1]) %}{% for a in range(99) %}{% set n.x=[n.x, n.x] %}{% endfor %}"
        "{{ n.x }}"
    ),
    "nested dictionaries": (
        "{% set n = namespace(x=1) %}{% for a in range(99) %}{% set n.x = dict(a=n.x, b=n.x) %}"
        "{% endfor %}{{ n.x|tojson }}"
    ),
    "nested arguments": (
        "{% set n = namespace(x=[1]) %}{% macro f() %}{% set n.x = varargs %}{% endmacro %}"
        "{% for a in range(99) %}{{ f(n.x, n.x) }}{% endfor %}{{ n.x }}"
    ),
    "kept strings": (
        "{% set n = namespace(x=[]) %}{% for a in range(99999) %}"
        "{% set n.x = namespace(a=n.x, b='x' * 9999999) %}{% endfor %}"
    ),
    "kept lists": (
        "{% set n = namespace(x=[]) %}{% for a in range(99999) %}"
        "{% set n.x = namespace(a=n.x, b=range(99999)|list) %}{% endfor %}"
    ),
    "many characters": "{% for a in range(99999) %}{{ ('x' * 99999)|list|length }}{% endfor %}",
    "endless calls": "{% macro f(a) %}{{ f(a) }}{{ f(a) }}{% endmacro %}{{ f(1) }}",
    "calls without end": (
        "{% macro f(a) %}{% if a %}{{ f(a - 1) }}{{ f(a - 1) }}{% endif %}{% endmacro %}{{ f(99) }}"
    ),
    "random words": "{{ lipsum(n=99999999) }}",
    "Python inside": "{{ ''.__class__.__mro__ }}",
    "Python in a format": "{{ '{0.__class__.__mro__}'.format('') }}",
    "the runs of a text": "{{ messages[0].content._origins[0] }}",
    "printed namespace": "{% set n = namespace() %}{{ n }}",
}


@pytest.mark.parametrize(
    "source", HOSTILE.values(), ids=[name.replace(" ", "-") for name in HOSTILE]
)
def test_hostile_template_is_refused_in_time_and_memory(source: str) -> None:
    limits = Limits(turns=20_000, characters=1 << 18, seconds=1)
    tracemalloc.start()
    begin = time.monotonic()
    try:
        with pytest.raises(ChatTemplateError):
            ChatTemplate(source, limits=limits).render(MESSAGES)
    finally:
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert time.monotonic() - begin < 20
    assert most < 300 << 20


def test_letters_that_become_two_take_no_object_each() -> None:
    template = ChatTemplate("{{ ('ß' * 1000000)|upper }}")
    tracemalloc.start()
    try:
        text = template.render(MESSAGES).text
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert text == "SS" * 1_000_000
    assert most < 20 << 20


def test_limits_have_defaults() -> None:
    assert Limits() == Limits(turns=1_000_000, characters=16 << 20, seconds=10.0)


@pytest.mark.parametrize(
    ("limits", "source", "words"),
    [
        (
            Limits(turns=9),
            "{% for a in range(9) %}{% endfor %}\n{{ 1 }}{% for a in range(2) %}{% endfor %}",
            "the template takes more than 9 turns and calls",
        ),
        (
            Limits(characters=9),
            "12345\n{{ messages[0].content }}",
            "the template makes a value of more than 9 characters",
        ),
        (
            Limits(seconds=0),
            "\n{% for a in range(999) %}{% endfor %}",
            "the template takes more than 0 s",
        ),
    ],
    ids=["turns", "characters", "seconds"],
)
def test_each_limit_has_its_error(limits: Limits, source: str, words: str) -> None:
    with pytest.raises(ChatTemplateError) as caught:
        ChatTemplate(source, limits=limits).render(MESSAGES)
    assert str(caught.value) == words


def test_error_has_the_line_of_the_template() -> None:
    with pytest.raises(ChatTemplateError) as caught:
        ChatTemplate("a\nb\n{{ 'x'.center(9999999999) }}").render(MESSAGES)
    assert caught.value.line == 3


def test_rendering_has_all_of_its_limits_each_time() -> None:
    template = ChatTemplate("{% for a in range(9) %}{{ a }}{% endfor %}", limits=Limits(turns=12))
    assert [template.render(MESSAGES).text for _ in range(9)] == ["012345678"] * 9


def test_nesting_too_deep_to_compile_is_refused() -> None:
    with pytest.raises(ChatTemplateError, match="nested too deeply"):
        ChatTemplate("{{ " + "(" * 9999 + "1" + ")" * 9999 + " }}")


def test_long_source_is_refused() -> None:
    with pytest.raises(ChatTemplateError, match="at most 1,048,576 characters"):
        ChatTemplate("x" * ((1 << 20) + 1))
