"""Of JSON Lines, the texts are taken that `json.loads` finds, and no others."""

from __future__ import annotations

import json
from itertools import chain, pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engines import native_only

from bpetite.corpora import Corpus

Document = tuple[int, bytes]
"""The line of a text, and its UTF-8."""

Refused = tuple[int, int, str]
"""The line, the byte where it begins, and the reason."""

Result = tuple[list[Document], list[Refused]]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lines") / "a.jsonl"


def found(path: Path, data: bytes, block_bytes: int = 1 << 20, field: str = "text") -> Result:
    """Return what a corpus finds in a file, of which it reads blocks of a length."""
    path.write_bytes(data)
    log = path.with_suffix(".log")
    corpus = Corpus(path, text_field=field, on_bad="skip", bad_log=log)
    documents: list[Document] = []
    for text, offsets, rows in corpus.batches(batch_bytes=block_bytes):
        texts = [bytes(text[start:end]) for start, end in pairwise(offsets)]
        documents += zip(rows, texts, strict=True)
    bad = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    return documents, [(one["line"] - 1, one["byte"], one["reason"]) for one in bad]


def expected(data: bytes) -> Result:
    """Return what `json.loads` finds in the lines of data."""
    documents: list[Document] = []
    refused: list[Refused] = []
    start = 0
    for row, line in enumerate(data.split(b"\n")):
        verdict = verdict_of(line)
        if isinstance(verdict, bytes):
            documents.append((row, verdict))
        elif verdict is not None:
            refused.append((row, start, verdict))
        start += len(line) + 1
    return documents, refused


def verdict_of(line: bytes) -> bytes | str | None:
    """Return the text of a line, or the reason to refuse it, or None for a blank line."""
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return "not UTF-8"
    if not line.removeprefix(b"\xef\xbb\xbf").strip(b" \t\r"):
        return None
    if b"\0" in line:
        return "not JSON"  # `json.loads` takes bytes with zeros for UTF-16 or UTF-32
    try:
        value = json.loads(line)
    except ValueError:
        return "not JSON"
    if not isinstance(value, dict) or "text" not in value:
        return "no field"
    if not isinstance(value["text"], str):
        return "not a string"
    try:
        return value["text"].encode("utf-8")
    except UnicodeEncodeError:
        return "lone surrogate"


# One line each

TAKEN: dict[bytes, str] = {
    b'{"text": "abc"}': "abc",
    b'{"text":""}': "",
    b' \t\r{ \t\r"text"\t : \r"abc" \t, "a" :[ 1 , 2 ] } \r': "abc",
    rb'{"text": "\"\\\/\b\f\n\r\t"}': '"\\/\b\f\n\r\t',
    rb'{"text": "\u0041\u00e9\u20AC\u0000 \ud83d\ude42\uD83D\uDE42"}': "Aé€\0 🙂🙂",
    '{"text": "é你🙂\x7f\u2028\ufeff"}'.encode(): "é你🙂\x7f\u2028\ufeff",
    rb'{"\u0074e\u0078t": "abc"}': "abc",
    rb'{"text": "a", "text": 1, "te\u0078t": "c"}': "c",
    rb'{"text": "longer", "b": NaN, "text": "c"}': "c",
    rb'{"text": "\ud800", "text": "b"}': "b",
    rb'{"\ud800": "\udc00", "text": "b", "c": ["\ud800"]}': "b",
    b'{"a": NaN, "b": [-Infinity, Infinity, null, true, false], "text": "b"}': "b",
    b'{"a": [0, -0, -1.5, 10e5, 1E+05, 0.0e-9, 12345678901, 1e999], "text": "b"}': "b",
    b'{"a": {"text": "x", "b": [{}, [], [[]]]}, "text": "b"}': "b",
    rb'{"a": "{[\"", "text": "}]\"", "b": "\\"}': '}]"',
    b'\xef\xbb\xbf{"text": "\xef\xbb\xbfabc"}': "\ufeffabc",
}

REFUSED: dict[str, list[bytes]] = {
    "not UTF-8": [
        *(b'{"text": "a\xff"}', b'{"text": "\xe4\xbd"}', b'{"text": "\xed\xa0\x80"}'),
        *(b'{"text": "\xc0\x80"}', b'{"a": "\xf5", "text": "a"}', b'{"a": ["\xf5"]}', b"{\xff"),
    ],
    "not JSON": [
        *(b"hello", b"}", b"{,}", b"{'text': 'a'}", b"\x0c", b'{"text" "a"}', b'{"text":}'),
        *(b'{"text": "a"', b'{"text": "a', b'{"text": "a\\', b'{"text": "a\\"}'),
        *(b'{"text": "a",}', b'{"text": "a",, "b": 1}', b'{"text": "a" "b": 1}'),
        *(b'{"text": "a"} {"text": "b"}', b'{"text": "a"}x', b'{"text": "a"}\x0b'),
        *(b'{:"text"}', b'{1: "a", "text": "a"}', b'{"a": {1: "a"}, "text": "a"}'),
        *(b'{"text": "a", "b": [1,]}', b'{"text": "a", "b": [,1]}', b'{"text": "a", "b": [1'),
        *(b'{"a": [1}, "text": "a"}', b'{"a": [1]], "text": "a"}', b'[1, {"text": "a"}'),
        *(b'{"text": "a\tb"}', b'{"text": "a\0b"}', b'{"a\x1f": 1, "text": "a"}'),
        *(rb'{"text": "\x41"}', '{"text": "\\é"}'.encode(), rb'{"text": "\u004"}'),
        *(rb'{"text": "\u+041"}', rb'{"text": "\ud83d\ude4g"}', rb'{"a": "\a", "text": "a"}'),
        *(b'{"a": %s, "text": "a"}' % number for number in b"01 +1 - 1. .5 1.e5 1e 1e+".split()),
        *(b'{"a": %s, "text": "a"}' % word for word in b"True nulls tru -NaN -Inf".split()),
        '{"a": ١, "text": "a"}'.encode(),
        '{"text":\u00a0"a"}'.encode(),
        *(b'\xef\xbb\xbf\xef\xbb\xbf{"text": "a"}', b' \xef\xbb\xbf{"text": "a"}'),
        rb'{"text": 1, "text": "\ud800", "a": }',
    ],
    "no field": [
        *(b"{}", b'{"Text": "a", "tex": "b", "textt": "c"}', b'{"a": {"text": "a"}}'),
        *(b'["text", "a"]', b'[{"text": "a"}]', b'"text"', b"1.5", b"null", b"NaN"),
    ],
    "not a string": [
        *(b'{"text": %s}' % value for value in (b"null", b"12", b"NaN", b'["a"]', b"1e999")),
        *(b'{"text": {"text": "a"}}', b'{"text": "a", "text": false}'),
    ],
    "lone surrogate": [
        *(rb'{"text": "a\ud83d"}', rb'{"text": "\ude42 b"}', rb'{"text": "\ude42\ud83d"}'),
        *(rb'{"text": "\ud83d\ud83d\ude42"}', rb'{"text": "\ud83d\u0041"}'),
    ],
}

BLANK = [b"", b" ", b"\t", b"\r", b" \t\r \t\r", b"\xef\xbb\xbf", b"\xef\xbb\xbf \r"]


@pytest.mark.parametrize("line", TAKEN)
def test_a_text_is_taken(line: bytes, path: Path) -> None:
    assert found(path, line) == ([(0, TAKEN[line].encode())], []) == expected(line)


@pytest.mark.parametrize("reason", REFUSED)
def test_lines_without_a_text_are_refused(reason: str, path: Path) -> None:
    for line in REFUSED[reason]:
        assert found(path, line) == ([], [(0, 0, reason)]) == expected(line), line


# Lines


@pytest.mark.parametrize("block_bytes", [1, 7, 64, 1000, 1 << 20])
def test_blocks_may_end_anywhere(block_bytes: int, path: Path) -> None:
    lines = [*TAKEN, *chain(*REFUSED.values()), *BLANK]
    data = b"\r\n".join(part for line in lines for part in (line, b'{"text": "next"}')) + b"\n"
    assert found(path, data, block_bytes) == expected(data)


@pytest.mark.parametrize("blank", BLANK)
@pytest.mark.parametrize("end", [b"\n", b""])
def test_blank_lines_are_counted_but_not_refused(blank: bytes, end: bytes, path: Path) -> None:
    text = b'{"text": "a"}'
    data = b"\n".join([blank, text, blank, blank, b"x", blank]) + end
    start = 3 * len(blank) + len(text) + 4
    assert found(path, data) == ([(1, b"a")], [(4, start, "not JSON")]) == expected(data)


def test_a_newline_ends_a_line_inside_a_text(path: Path) -> None:
    data = b'{"text": "a\nb"}\n{"text": "c"}'
    assert found(path, data) == ([(2, b"c")], [(0, 0, "not JSON"), (1, 12, "not JSON")])


@pytest.mark.parametrize("end", ["\r", "\x0b", "\x0c", "\x85", "\u2028", "\u2029", "\x1c"])
def test_only_a_newline_ends_a_line(end: str, path: Path) -> None:
    data = f'{{"text": "a"}}{end}{{"text": "b"}}'.encode()
    assert found(path, data) == ([], [(0, 0, "not JSON")])


@pytest.mark.parametrize("field", ["", "a", "é", "你好🙂", "a\nb", 'a"b\\', "x" * 200, "\0"])
@pytest.mark.parametrize("is_ascii", [True, False])
def test_a_field_may_have_any_name(field: str, is_ascii: bool, path: Path) -> None:
    line = json.dumps({f"{field}x": 1, field: "found", "x" + field: 2}, ensure_ascii=is_ascii)
    assert found(path, line.encode(), field=field) == ([(0, b"found")], [])


# Long and deep lines

DEEP = 5_000
"""Levels of nesting, more than Python's limit of recursion."""

OPEN, SHUT = b"[" * DEEP, b"]" * DEEP


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        (b'{"a": ' + OPEN + SHUT + b', "text": "b"}', b"b"),
        (b'{"a": ' + OPEN + SHUT + b', "c": NaN, "text": "b"}', b"b"),
        (b'{"text": "b", "a": ' + b'[{"text": ' * DEEP + b"1" + b"}, 2]" * DEEP + b"}", b"b"),
        (b'{"text": "b", "a": ' + b"[1,{}," * DEEP + b"[]" + SHUT + b"}", b"b"),
        (b'{"text": ' + OPEN + SHUT + b"}", "not a string"),
        (OPEN + SHUT, "no field"),
        (b'[{"text": "a"},' * DEEP + b'{"text": "a"}' + SHUT, "no field"),
        (b'{"": ' + OPEN + SHUT + b"}", "no field"),
        (b'{"text": "\\ud800", "a": ' + OPEN + SHUT + b"}", "lone surrogate"),
        (b'{"text": "x", "a": ' + OPEN, "not JSON"),
        (b'{"a": ' + OPEN + SHUT[1:] + b"}}", "not JSON"),
        (b'{"a": ' + OPEN + SHUT + b"} 1", "not JSON"),
        (b'{"a": ' + OPEN + SHUT + b",}", "not JSON"),
        (b'{"a": ' + OPEN + b"1 1" + SHUT + b"}", "not JSON"),
        (b'{"a": ' + b'{"a":' * DEEP + b"{1", "not JSON"),
        (b'{"a": ' + b'{"a":' * DEEP + b'{"a"1', "not JSON"),
    ],
    ids=range(16),
)
def test_values_nest_to_any_depth(line: bytes, verdict: bytes | str, path: Path) -> None:
    result = ([(0, verdict)], []) if isinstance(verdict, bytes) else ([], [(0, 0, verdict)])
    assert found(path, line) == result


def test_integers_have_any_number_of_digits(path: Path) -> None:
    """`json.loads` refuses integers of more than 4,300 digits, which it need not read."""
    digits = b"1234567890" * 1000
    line = b'{"text": "a", "b": -' + digits + b', "c": [NaN, ' + digits + b"]}"
    assert found(path, line) == ([(0, b"a")], [])


def test_a_line_may_be_longer_than_many_blocks(path: Path) -> None:
    text = b"0123456789" * 300_000
    lines = b'{"text": "a"}\n{"text": "' + text + b'"}\n{"text": "b"}\n{'
    result = found(path, lines, 1 << 16)
    assert result == ([(0, b"a"), (1, text), (2, b"b")], [(3, len(lines) - 1, "not JSON")])


@native_only
def test_skipped_values_make_no_objects(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bpetite.corpora._inputs.line_texts._read_line", None)
    lines = [b'{"a": [{"b": {}}], "text": "a"}', b'{"a": [{"b": {}}]}', b'[{"text": "a"}]']
    start = len(lines[0]) + 1
    refused = [(1, start, "no field"), (2, start + len(lines[1]) + 1, "no field")]
    assert found(path, b"\n".join(lines)) == ([(0, b"a")], refused)


# Generated lines, compared with `json.loads`

TEXTS = st.text(st.sampled_from('"\\/\n\0a é你🙂\ufeff\ud83d\ude42'), max_size=8)
NAMES = st.sampled_from(["text", "text", "id", "", "te", "\ud800"])
ATOMS = st.sampled_from([0, -1.5, 1e300, 10**30, float("nan"), float("-inf"), None, True])
VALUES = st.recursive(
    TEXTS | ATOMS,
    lambda values: st.lists(values, max_size=3) | st.dictionaries(NAMES, values, max_size=3),
    max_leaves=5,
)
WRONG = [*(bytes([byte]) for byte in b'"\\{}[],:\n\r\0 0-.eu\xff\x80'), b"\\ud83d", b"", b"true"]


@st.composite
def json_lines(draw: st.DrawFn) -> bytes:
    """Lines of members with repeated names, some of them with a few wrong bytes."""
    lines = []
    for members in draw(st.lists(st.lists(st.tuples(NAMES, VALUES), max_size=4), max_size=4)):
        ascii = draw(st.booleans())
        quoted = [[json.dumps(part, ensure_ascii=ascii) for part in pair] for pair in members]
        line = f"{{{','.join(map(': '.join, quoted))}}}".encode("utf-8", "surrogatepass")
        for at in draw(st.lists(st.integers(0, len(line)), max_size=2)):
            line = line[:at] + draw(st.sampled_from(WRONG)) + line[at + draw(st.integers(0, 2)) :]
        lines.append(line)
    return b"\n".join(lines)


@given(json_lines(), st.integers(1, 100))
def test_generated_lines_have_the_texts_of_json(path: Path, data: bytes, block_bytes: int) -> None:
    assert found(path, data, block_bytes) == expected(data)
