"""Random chat templates, which are compared with transformers; each character has an origin.

A grammar makes the templates: statements and expressions over messages. Each message and the
template itself have characters of their own, which tell the origin of all that is printed.
"""

from __future__ import annotations

import random
from typing import Any

from bpetite.chat import ChatTemplate, ChatTemplateError, RenderedPrompt

_OF_TEMPLATE = 0xF000
_OF_MESSAGES = 0xE000
_PER_MESSAGE = 16

_OPERATIONS = (
    *("{}|trim", "{}|upper", "{}|lower", "{}|title", "{}|capitalize", "{}|reverse", "{}|string"),
    *("{}|list|join", "{}|list|join({})", "{}|first", "{}|last", "{}|safe", "{}|escape", "{}|e"),
    *("{}|indent", "{}|indent(2, true)", "{}|center(20)", "{}|replace({}, {})", "{}|default({})"),
    *("{}|tojson", "[{}, {}]|tojson", "{{'k': {}, {}: 1.5}}|tojson(indent=2)", "{}|truncate(7)"),
    *("[{}, {}]|tojson(ensure_ascii=true)", "{{'b': {}, 'a': [{}]}}|tojson(sort_keys=true)"),
    *("{}|wordwrap(5)", "{}|urlencode", "{}|striptags", "{}|forceescape", "{}|wordcount", "[{}]"),
    *("{} ~ {}", "{} + {}", "{} * 2", "({}|string)[1:]", "({}|string)[:-1]", "({}|string)[::2]"),
    *("({}|string)[::-1]", "({}|string)[0]", "({}|string)[1:3]", "{}.split({})|join({})"),
    *("{}.split()|join(' ')", "{}.split({})[0]", "{}.rsplit({}, 1)[-1]", "{}.partition({})[2]"),
    *("{}.rpartition({})[0]", "{}.splitlines()|join({})", "{}.strip({})", "{}.lstrip()"),
    *("{}.rstrip({})", "{}.replace({}, {}, 1)", "{}.replace('', {})", "{}.join([{}, {}])"),
    *("{}.join({})", "{}.upper()", "{}.lower()", "{}.title()", "{}.casefold()", "{}.swapcase()"),
    *("{}.removeprefix({})", "{}.removesuffix({})", "{}.center(9, 'x')", "{}.ljust(9)"),
    *("{}.zfill(9)", "'%s-%s' % ({}, {})", "'%5s|%-4s' % ({}, {})", "'{{}}{{}}'.format({}, {})"),
    *("'{{:>9}}{{0}}'.format({})", "'{{x}}'.format(x={})", "'%s%%' % {}", "'%(a)s' % {{'a': {}}}"),
    *("{}|format({})", "({} if {} else {})", "({} or {})", "({} and {})", "echo({})", "twice({})"),
    *("({}, {})|join({})", "[{}, {}]|sort|join", "[{}, {}]|map('upper')|join({})", "ns.x ~ {}"),
    *("[{}, {}]|unique|list|last", "{{'a': {}}}.a", "dict(a={}).a", "namespace(a={}).a", "({})"),
    *("{{'a': {}}}|string", "[{}, {}]|string", "{{{}: {}}}|items|list|string", "({})|pprint"),
    *("[{}, {}]|max", "[{}, {}]|min", "{{{}: {}}}|dictsort|list|first|join", "{} is string"),
    *("[{}, {}]|batch(1)|map('join')|join", "{} in {}", "{}|length", "'a'.startswith({})"),
)

_STATEMENTS = (
    *("{{{{ {} }}}}", "{{{{- {} -}}}}", "{{% set ns.x = {} %}}", "{{% set y = {} %}}{{{{ y }}}}"),
    *("{{% for c in {} %}}{{{{ c }}}}{{% endfor %}}", "{{% if {} %}}{{{{ {} }}}}{{% endif %}}"),
    *("{{% set z %}}a{{{{ {} }}}}{{% endset %}}{{{{ z|trim }}}}", "{{{{ echo({}) }}}} \n"),
    *("{{% filter upper %}}{{{{ {} }}}}{{% endfilter %}}",),
    *("{{% generation %}}{{{{ {} }}}}{{% endgeneration %}}",),
    *("{{% call twice({}) %}}{{{{ {} }}}}{{% endcall %}}", "{{% set ns.x = ns.x ~ {} %}}"),
    *("{{% for c in ({}|string).split() %}}{{{{ loop.index }}}}{{{{ c }}}}{{% endfor %}}",),
    *("{{% for m in messages %}}{{{{ m.role }}}}{{{{ {} }}}}{{% endfor %}}",),
    *("{{% for k, v in m.extra|items %}}{{{{ k }}}}{{{{ v }}}}{{{{ {} }}}}{{% endfor %}}",),
)  # fmt: skip

_HEAD = (
    "{% set ns = namespace(x='') %}{% set m = messages[0] %}"
    "{% macro echo(a) %}{{ a }}{% endmacro %}"
    "{% macro twice(a) %}{{ a }}{{ caller() if caller else a }}{% endmacro %}"
)

_ORDINARY = ("", " ", "\n", "a", "B", "<", "&", '"', "'", "ß", "é", "%", "{}", "\\", "x y", "1")


def own_text(random: random.Random, first: int) -> str:
    """Return a text of an author's own characters among ordinary ones."""
    characters = [chr(first + random.randrange(_PER_MESSAGE)) for _ in range(random.randrange(6))]
    return "".join(each + random.choice(_ORDINARY) for each in characters)


def expression(random: random.Random, depth: int) -> str:
    """Return a random expression."""
    if depth <= 0 or random.random() < 0.2:
        if random.random() < 0.4:
            text = own_text(random, _OF_TEMPLATE)
            return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"
        leaves = (
            "m.content",
            "m['content']",
            "messages[-1].content",
            "m.role",
            "m.extra.k",
            "ns.x",
        )
        return random.choice((*leaves, "messages[1].content", "m.extra", "tools", "3"))
    shape = random.choice(_OPERATIONS)
    count = shape.replace("{{", "").replace("}}", "").count("{}")
    return shape.format(*(expression(random, depth - 1) for _ in range(count)))


def template(random: random.Random) -> str:
    """Return a random template."""
    parts = [_HEAD]
    for _ in range(random.randrange(1, 5)):
        shape = random.choice(_STATEMENTS)
        parts.append(shape.format(*(expression(random, random.randrange(4)) for _ in range(3))))
        parts.append(chr(_OF_TEMPLATE + random.randrange(_PER_MESSAGE)))
    return "".join(parts)


def conversation(random: random.Random) -> list[dict[str, Any]]:
    """Return messages whose characters tell them apart."""

    def text(number: int) -> str:
        return own_text(random, _OF_MESSAGES + number * _PER_MESSAGE)

    return [
        {
            "role": role,
            "content": text(number),
            "extra": {"k": text(number), "n": [text(number), 7]},
        }
        for number, role in enumerate(("system", "user", "assistant"))
    ]


def fault_of(prompt: RenderedPrompt) -> str | None:
    """Return which character has the wrong origin, or None."""
    for piece in prompt.texts:
        for character in piece.text:
            code = ord(character)
            if _OF_TEMPLATE <= code < _OF_TEMPLATE + _PER_MESSAGE:
                is_right = piece.origin in ("template", "untracked")
            elif _OF_MESSAGES <= code < _OF_MESSAGES + 3 * _PER_MESSAGE:
                number = (code - _OF_MESSAGES) // _PER_MESSAGE
                is_right = piece.origin == "untracked" or piece.message == number
            else:
                continue
            if not is_right:
                return f"{character!r} is of {piece.origin} {piece.message}"
    return None


def fault(source: str, messages: list[dict[str, Any]]) -> str | None:
    """Return how bpetite differs from transformers on a template, or None."""
    from transformers.utils.chat_template_utils import render_jinja_template

    try:
        wanted = render_jinja_template([messages], chat_template=source)[0][0]
    except Exception:
        wanted = None
    try:
        prompt = ChatTemplate(source).render(messages)
    except ChatTemplateError as error:
        return None if wanted is None else f"refused: {error}"
    if wanted is None:
        return f"rendered {prompt.text!r}, which transformers refuses"
    if " object at 0x" in wanted:
        return None
    if prompt.text != wanted:
        return f"rendered {prompt.text!r} instead of {wanted!r}"
    return fault_of(prompt)


def untracked_share(source: str, messages: list[dict[str, Any]]) -> tuple[int, int]:
    """Return the untracked characters of a prompt, and all of them."""
    pieces = ChatTemplate(source).render(messages).texts
    counts = [(len(piece.text), piece.origin == "untracked") for piece in pieces]
    return sum(size for size, is_untracked in counts if is_untracked), sum(s for s, _ in counts)
