"""Libraries of grammars take the tokens by the programs of docs/engines.md.

xgrammar needs torch: `scripts/test --doors` runs its cases.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema
import pytest
from support.engines import once
from support.pages import programs_of

from bpetite import Tokenizer

pytestmark = once

END = "<|endoftext|>"
TOKENIZER = Tokenizer.train(
    'ab abab é é 🙂 🙂 true false "a": [1, 2] ' * 3, 280, special_tokens=[END, "<|a|>"]
)
END_ID = TOKENIZER.special_tokens[END]


class Matcher(NamedTuple):
    allowed: Callable[[], list[int]]
    accept: Callable[[int], Any]


def llguidance_matcher(names: Any, kind: str, grammar: str) -> Matcher:
    from llguidance import LLMatcher

    make = getattr(LLMatcher, f"grammar_from_{kind}")
    matcher = LLMatcher(names["tokens"], make(grammar))

    def allowed() -> list[int]:
        mask = matcher.compute_logit_bias()
        return [id for id in range(TOKENIZER.n_vocab) if mask[id]]

    return Matcher(allowed, matcher.consume_token)


def xgrammar_matcher(names: Any, kind: str, grammar: str) -> Matcher:
    import xgrammar

    compiler = xgrammar.GrammarCompiler(names["tokens"])
    matcher = xgrammar.GrammarMatcher(getattr(compiler, f"compile_{kind}")(grammar))

    def allowed() -> list[int]:
        mask = xgrammar.allocate_token_bitmask(1, TOKENIZER.n_vocab)
        matcher.fill_next_token_bitmask(mask)
        words = mask[0].tolist()
        return [id for id in range(TOKENIZER.n_vocab) if words[id // 32] >> id % 32 & 1]

    return Matcher(allowed, matcher.accept_token)


def outlines_matcher(names: Any, kind: str, grammar: str) -> Matcher:
    from outlines_core import Guide, Index
    from outlines_core.json_schema import build_regex_from_schema

    pattern = build_regex_from_schema(grammar) if kind == "json_schema" else grammar
    guide = Guide(Index(pattern, names["tokens"]))
    return Matcher(lambda: sorted(guide.get_tokens()), guide.advance)


@pytest.fixture(
    params=[
        ("llguidance", llguidance_matcher),
        ("xgrammar", xgrammar_matcher),
        ("outlines_core", outlines_matcher),
    ],
    ids=lambda param: param[0],
)
def matcher_of(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, str], Matcher]:
    """Return a function that makes the matcher of a grammar, from its kind and itself."""
    package, make = request.param
    pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    TOKENIZER.save("model.json")
    names: dict[str, Any] = {}
    exec(programs_of("engines.md")[f"for_{package.removesuffix('_core')}.py"], names)
    return lambda kind, grammar: make(names, kind, grammar)


def test_a_grammar_allows_exactly_the_ids_that_go_on(
    matcher_of: Callable[[str, str], Matcher],
) -> None:
    """They are those whose bytes go on with one of some strings, and the end after one."""
    strings = ["abab é", "é🙂 ab"]
    encoded = [string.encode() for string in strings]
    special_ids = {*TOKENIZER.special_tokens.values()}
    for string in strings:
        matcher = matcher_of("regex", "|".join(strings))
        before = b""
        for id in TOKENIZER.encode(string + END):
            expected = [
                other
                for other in TOKENIZER.ids
                if (other == END_ID and before in encoded)
                or (
                    other not in special_ids
                    and any(each.startswith(before + TOKENIZER.tokens[other]) for each in encoded)
                )
            ]
            allowed = matcher.allowed()
            # llguidance gives text that must follow its usual ids.
            assert allowed == expected or (allowed == [id] and id in expected)
            if id != END_ID:
                matcher.accept(id)
                before += TOKENIZER.tokens[id]


def random_schema(rng: random.Random, depth: int = 2) -> dict[str, Any]:
    """Return a JSON schema whose values are short."""
    kind = rng.choice(("enum", "boolean", "integer", "array", "object")[: 5 if depth else 3])
    if kind == "enum":
        return {"enum": rng.sample(["ab", "é\n", '"🙂"', "<|a|>", END, "a\\b"], 3)}
    if kind == "array":
        return {"type": kind, "items": random_schema(rng, depth - 1), "minItems": 1, "maxItems": 3}
    if kind == "object":
        names = rng.sample(["a", "é🙂", "ab ab", "true"], rng.randint(1, 3))
        return object_of({name: random_schema(rng, depth - 1) for name in names})
    return {"type": kind}


def object_of(fields: dict[str, Any]) -> dict[str, Any]:
    required = {"required": [*fields], "additionalProperties": False}
    return {"type": "object", "properties": fields, **required}


def test_text_generated_by_a_grammar_is_valid(matcher_of: Callable[[str, str], Matcher]) -> None:
    """A model without sense chooses among the allowed ids; the text satisfies the schema."""
    rng = random.Random(0)
    for _ in range(40):
        schema = object_of({"é": random_schema(rng)})
        matcher = matcher_of("json_schema", json.dumps(schema))
        ids = list[int]()
        while END_ID not in (allowed := matcher.allowed()):
            ids.append(rng.choice(allowed))
            matcher.accept(ids[-1])
        jsonschema.validate(json.loads(TOKENIZER.decode(ids)), schema)
