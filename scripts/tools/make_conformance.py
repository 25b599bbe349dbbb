"""Write the results in tests/data/conformance.json again, for the texts and tokens that it has.

To add a case, add its line without results, then run
`.venv/bin/python scripts/tools/make_conformance.py`. The results come from the textbook in
`tests/support/reference.py`, except the steps of `encode_stream`: these are bpetite's own, and a
test compares their ids with the textbook.
"""

import json
import sys
from pathlib import Path
from typing import Any
from unicodedata import combining

import regex

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))

from support import reference
from support.conformance import END, PATH, conformance, token_bytes, tokenizer_named

from bpetite import PATTERNS


def pieces_case(case: dict[str, Any]) -> dict[str, Any]:
    """Return a case of the pieces of a text."""
    return {**case, "pieces": regex.findall(PATTERNS[case["pattern"]], case["text"])}


def encode_case(case: dict[str, Any]) -> dict[str, Any]:
    """Return a case of a text's ids, and the character in which each id begins."""
    vocabulary, text = conformance()["vocabularies"][case["vocabulary"]], case["text"]
    merges = [tuple(pair) for pair in vocabulary["merges"]]
    special_tokens = vocabulary["special_tokens"]
    ids = reference.encode(text, merges, special_tokens)
    literals = {id: literal.encode() for literal, id in special_tokens.items()}
    token_of = reference.tokens(merges) | literals
    character_of = [index for index, character in enumerate(text) for _ in character.encode()]
    starts = [sum(len(token_of[id]) for id in ids[:count]) for count in range(len(ids))]
    return {**case, "ids": ids, "offsets": [character_of[start] for start in starts]}


def decode_stream_case(case: dict[str, Any]) -> dict[str, Any]:
    """Return a case of the texts of steps, flush's text last."""
    skips = case.get("skip_special_tokens", False)

    def shown(tokens: list[str]) -> list[bytes]:
        return [b"" if skips and token == END else token_bytes(token) for token in tokens]

    # An unfinished character of the prompt acts like a first token.
    before = reference.unfinished(b"".join(shown(case.get("prompt", []))))
    result = reference.streamed(
        [before, *shown(case["tokens"])],
        stop=case.get("stop", ()),
        include_stop=case.get("include_stop", False),
    )
    texts = ["".join(text for text, _ in step) for step in result.steps[1:]]
    ended = {"stop_reason": result.stopped, "text_after_stop": result.text_after_stop}
    return {**case, "texts": texts} | (ended if result.stopped else {})


def encode_stream_case(case: dict[str, Any]) -> dict[str, Any]:
    """Return a case of the ids of steps, flush's ids last."""
    stream = tokenizer_named(case["vocabulary"]).encode_stream()
    return {**case, "ids": [*map(stream.step, case["steps"]), stream.flush()]}


KINDS = {
    "pieces": pieces_case,
    "encode": encode_case,
    "decode_stream": decode_stream_case,
    "encode_stream": encode_stream_case,
}


def as_line(value: object) -> str:
    """Return a value as JSON, with escapes for marks and for invisible characters."""
    line = json.dumps(value, ensure_ascii=False)
    return "".join(c if c.isprintable() and not combining(c) else json.dumps(c)[1:-1] for c in line)


def written() -> str:
    """Return the document with all results computed again, one case on each line."""
    document = conformance()
    vocabularies = [
        f"{as_line(name)}: {as_line(fields)}" for name, fields in document["vocabularies"].items()
    ]
    parts = ['"vocabularies": {\n' + ",\n".join(vocabularies) + "\n}"]
    for kind, found in KINDS.items():
        lines = [as_line(found(case)) for case in document[kind]]
        parts.append(f'"{kind}": [\n' + ",\n".join(lines) + "\n]")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    PATH.write_bytes(written().encode())
