"""Read Hugging Face's tokenizer.json, if it is byte-level BPE.

Each field is honoured or refused. No field that could change an id or a text is ignored. The rules
are those of huggingface/tokenizers, 0.13 to 0.23.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from typing import Any, Literal

from bpetite._automaton import automaton_of
from bpetite._pretokenizer import GPT2_PATTERN
from bpetite._unicode.byte_characters import is_byte_character, to_characters
from bpetite._vocabulary import BYTE_COUNT, IMPOSSIBLE_BYTES, Vocabulary, is_encodable
from bpetite.formats._files import SourceFile, shown
from bpetite.formats._portable_regex import to_portable

MATCH_ALL = r"[\s\S]+"
"""The pattern that leaves a text in one piece."""

VERSION_PREFIX = "#version"
"""The beginning of the first line of merges.txt."""

_BYTE_LEVEL_FIELDS = "type add_prefix_space trim_offsets use_regex"
_BOOL = (True, False)
_AROUND = "TemplateProcessing", "RobertaProcessing", "BertProcessing"
_NEVER = dict.fromkeys(("single_word", "lstrip", "rstrip"), (False,))

_Around = tuple[tuple[int, ...], tuple[int, ...]]
"""The ids before and behind a text."""

# A literal that is in a text exactly if it is in the text's normal form C: no character of Unicode
# becomes one of the literal's, and none joins its last one.
_NORMALIZES_TO_ITSELF = r"[^K;`\u0080-\U0010ffff]*[^A-Za-z<=>;`\u0080-\U0010ffff]"

# The largest sum of squared literal lengths for which overlaps are searched.
_MAX_OVERLAP_WORK = 2_000_000


def read(file: SourceFile) -> Vocabulary:
    """Return the vocabulary of a tokenizer.json.

    Raises ValueError for every fault and every unsupported value, naming file, field and value.
    """
    document = file.document
    file.check_fields(
        {"version": "1.0", **document},
        "",
        "added_tokens normalizer pre_tokenizer post_processor decoder model",
        version=("1.0",),
        truncation=(None,),
        padding=(None,),
    )
    normalizer = _normalizer(file)
    patterns = _patterns(file)
    decoder = _typed(file, document.get("decoder"), "decoder", "ByteLevel")
    file.check_fields(decoder, "decoder", _BYTE_LEVEL_FIELDS)
    model = file.checked_object(document.get("model"), "model")
    _check_settings(file, model)
    vocab = _vocab(file, model.get("vocab"))
    pairs = _pairs(file, model.get("merges"), vocab)
    added = _added_tokens(file, document.get("added_tokens", []), vocab)
    _check_matching(file, added, normalizer)
    special_tokens = {token["content"]: token["id"] for token in added}

    merged = {*chain.from_iterable(pairs), *map("".join, pairs)}
    literals = {text for text in special_tokens.keys() - merged if not is_byte_character(text)}
    tokens = {
        id: file.token_bytes(text, "model.vocab")
        for text, id in vocab.items()
        if text not in literals
    }
    known_ids = {*vocab.values(), *special_tokens.values()}
    prefix_ids, suffix_ids = _post_processor(file, known_ids)
    with file.path_in_errors("model: "):
        return Vocabulary.from_tokens(
            tokens,
            [(vocab[left], vocab[right]) for left, right in pairs],
            special_tokens,
            patterns[0],
            ignore_merges=bool(model.get("ignore_merges")),
            more_patterns=tuple(patterns[1:]),
            normalizer=normalizer,
            kept_special_tokens=frozenset(
                token["content"] for token in added if not token["special"]
            ),
            prefix_ids=prefix_ids,
            suffix_ids=suffix_ids,
        )


def _typed(file: SourceFile, value: object, path: str, *types: str) -> dict[str, Any]:
    """Return an object, once its type is one of `types`."""
    found = file.checked_object(value, path)
    if found.get("type") not in types:
        file.refuse(f"{path}.type", found.get("type"), " or ".join(types))
    return found


# The stages around the model


def _stages(file: SourceFile, name: str, parts: str) -> list[tuple[dict[str, Any], str]]:
    """Return the stages of a field in order, each with its path; Sequences are flattened."""
    value = file.document.get(name)
    waiting = [] if value is None else [(value, name)]
    stages = []
    while waiting:
        stage, path = waiting.pop()
        if file.checked_object(stage, path).get("type") != "Sequence":
            stages.append((stage, path))
            continue
        file.check_fields(stage, path, f"type {parts}")
        inner = file.checked_list(stage.get(parts), f"{path}.{parts}")
        numbered = [(part, f"{path}.{parts}[{n}]") for n, part in enumerate(inner)]
        waiting += reversed(numbered)
    return stages


def _normalizer(file: SourceFile) -> Literal["NFC"] | None:
    stages = _stages(file, "normalizer", "normalizers")
    for stage, path in stages:
        file.check_fields(_typed(file, stage, path, "NFC"), path, "type")
    return "NFC" if stages else None


def _patterns(file: SourceFile) -> list[str]:
    stages = _stages(file, "pre_tokenizer", "pretokenizers")
    patterns = []
    for stage, path in stages[:-1]:
        if _typed(file, stage, path, "Split", "Digits")["type"] == "Split":
            patterns.append(_split(file, stage, path))
        else:
            file.check_fields(stage, path, "type", individual_digits=_BOOL)
            patterns.append(r"\p{N}" if stage["individual_digits"] else r"\p{N}+")
    last, path = stages[-1] if stages else (file.document.get("pre_tokenizer"), "pre_tokenizer")
    last = {"use_regex": True, **_typed(file, last, path, "ByteLevel")}
    file.check_fields(
        last, path, "type", add_prefix_space=(False,), trim_offsets=_BOOL, use_regex=_BOOL
    )
    if last["use_regex"]:
        patterns.append(GPT2_PATTERN)
    return patterns or [MATCH_ALL]


def _split(file: SourceFile, split: dict[str, Any], path: str) -> str:
    file.check_fields(split, path, "type pattern behavior", invert=_BOOL)
    given = file.checked_object(split.get("pattern"), f"{path}.pattern")
    kind = next(iter(given), "Regex")
    if len(given) != 1 or kind not in ("Regex", "String"):
        file.refuse(f"{path}.pattern", given, 'an object with one field, "Regex" or "String"')
    pattern_path = f"{path}.pattern.{kind}"
    text = file.checked_string(given[kind], pattern_path)
    try:
        pattern = to_portable(text if kind == "Regex" else re.escape(text))
    except ValueError as error:
        file.refuse(pattern_path, text, f"another pattern ({error})")
    if split.get("behavior") == "Removed" and split["invert"]:
        # It drops unmatched text, and such a pattern leaves none.
        automaton = automaton_of(pattern)
        if automaton is None or not automaton.matches_all():
            file.refuse(f"{path}.behavior", "Removed", '"Isolated" for such a pattern')
    else:
        file.check_value(split.get("behavior"), f"{path}.behavior", "Isolated")
    return pattern


def _post_processor(file: SourceFile, known_ids: set[int]) -> _Around:
    around: _Around | None = None
    for stage, path in _stages(file, "post_processor", "processors"):
        kind = _typed(file, stage, path, "ByteLevel", *_AROUND)["type"]
        if kind == "ByteLevel":
            file.check_fields(stage, path, _BYTE_LEVEL_FIELDS)
            continue
        if around is not None:
            file.refuse(f"{path}.type", kind, f"one of {', '.join(_AROUND)} at most")
        read = _template if kind == "TemplateProcessing" else _class_and_separator
        around = read(file, stage, path, known_ids)
    return around or ((), ())


def _class_and_separator(
    file: SourceFile, stage: dict[str, Any], path: str, known_ids: set[int]
) -> _Around:
    """Return the ids of RobertaProcessing or BertProcessing: one before a text, one behind it."""
    # The others concern offsets alone.
    others = " trim_offsets add_prefix_space" if stage["type"] == "RobertaProcessing" else ""
    file.check_fields(stage, path, "type cls sep" + others)
    ids = []
    for field in ("cls", "sep"):
        pair = file.checked_list(stage.get(field), f"{path}.{field}")
        if len(pair) != 2 or type(pair[1]) is not int or pair[1] not in known_ids:
            file.refuse(f"{path}.{field}", pair, "a literal and the id of a token")
        ids.append(pair[1])
    return (ids[0],), (ids[1],)


def _template(
    file: SourceFile, template: dict[str, Any], path: str, known_ids: set[int]
) -> _Around:
    file.check_fields(template, path, "type single pair special_tokens")
    special = file.checked_object(template.get("special_tokens"), f"{path}.special_tokens")
    single = file.checked_list(template.get("single"), f"{path}.single")
    parts: list[list[int]] = [[]]
    for number, item in enumerate(single):
        item_path = f"{path}.single[{number}]"
        kind = next(iter(file.checked_object(item, item_path)), None)
        if kind == "Sequence" and len(item) == 1 and len(parts) == 1:
            file.check_value(_id_of(item["Sequence"]), f"{item_path}.Sequence.id", "A")
            parts.append([])
            continue
        if kind != "SpecialToken" or len(item) != 1:
            file.refuse(item_path, item, "a SpecialToken, or one Sequence")
        name = _id_of(item["SpecialToken"])
        if not isinstance(name, str) or name not in special:
            file.refuse(f"{item_path}.SpecialToken.id", name, "one of special_tokens")
        item_path = f"{path}.special_tokens[{shown(name)}].ids"
        ids = special[name].get("ids") if isinstance(special[name], dict) else special[name]
        for id in file.checked_list(ids, item_path):
            if type(id) is not int or id not in known_ids:
                file.refuse(item_path, id, "the ids of tokens")
            parts[-1].append(id)
    if len(parts) != 2:
        file.refuse(f"{path}.single", single, "one Sequence in it")
    return tuple(parts[0]), tuple(parts[1])


# The model


def _check_settings(file: SourceFile, model: dict[str, Any]) -> None:
    file.check_fields(
        {"type": "BPE", **model},  # old files lack the type; a model with merges is BPE
        "model",
        "unk_token vocab merges",
        type=("BPE",),
        dropout=(None, 0, 0.0),
        continuing_subword_prefix=(None, ""),
        end_of_word_suffix=(None, ""),
        fuse_unk=(False, True, None),  # never used: every byte has a token
        byte_fallback=(False, None),
        ignore_merges=(False, True, None),
    )
    if not isinstance(model.get("unk_token"), (str, type(None))):
        file.refuse("model.unk_token", model["unk_token"], "a string or null")


def _vocab(file: SourceFile, value: object) -> dict[str, int]:
    vocab = file.checked_object(value, "model.vocab")
    file.check_ids(vocab, "model.vocab")
    for byte in range(BYTE_COUNT):
        if (text := to_characters(bytes([byte]))) not in vocab and byte not in IMPOSSIBLE_BYTES:
            wanted = f"a token for each byte, or tokenizers drops the byte 0x{byte:02x}"
            file.refuse("model.vocab", f"none for {text!r}", wanted)
    return vocab


def _pairs(file: SourceFile, value: object, vocab: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return the merges as text, from "a b" or, since tokenizers 0.20, from ["a", "b"]."""
    merges = file.checked_list(value, "model.merges")
    pairs = _pairs_of_strings(merges)
    if (
        len({*pairs}) == len(merges)
        and vocab.keys() >= {*chain.from_iterable(pairs)}
        and all(map(vocab.__contains__, map("".join, pairs)))
    ):
        return pairs
    # There is a fault, or something unusual.
    ranks: dict[tuple[str, str], int] = {}
    for rank, merge in enumerate(merges):
        left, right, wanted = "", "", ""
        if isinstance(merge, str):
            if merge.startswith(VERSION_PREFIX):
                continue  # tokenizers drops it anywhere, as the first line of merges.txt
            left, _, right = merge.partition(" ")
        elif isinstance(merge, list) and len(merge) == 2 and {*map(type, merge)} == {str}:
            left, right = merge
        if left not in vocab or right not in vocab or left + right not in vocab:
            wanted = "two tokens whose join model.vocab has"
        elif type(merge) is not type(merges[0]):
            wanted = "one spelling for all merges"
        elif (first := ranks.setdefault((left, right), rank)) != rank:
            wanted = f"a new pair; model.merges[{first}] is the same"
        if wanted:
            file.refuse(f"model.merges[{rank}]", merge, wanted)
    return list(ranks)


def _pairs_of_strings(merges: list[Any]) -> list[tuple[str, str]]:
    """Return the merges of one spelling, without a look at the vocab; none if there are others."""
    if {*map(type, merges)} == {str}:
        parts = [merge.partition(" ") for merge in merges if not merge.startswith(VERSION_PREFIX)]
        return [(left, right) for left, _, right in parts]
    if {*map(type, merges)} == {list} and {*map(type, chain.from_iterable(merges))} <= {str}:
        return [(merge[0], merge[1]) for merge in merges if len(merge) == 2]
    return []


# Added tokens


def _added_tokens(
    file: SourceFile, value: object, vocab: Mapping[str, int]
) -> list[dict[str, Any]]:
    id_of: dict[str, int] = {}
    new = 0  # tokens that are not in the vocab
    added = file.checked_list(value, "added_tokens")
    for number, token in enumerate(added):
        path = f"added_tokens[{number}]"
        file.checked_object(token, path)
        file.check_fields(token, path, "id content", **_NEVER, normalized=_BOOL, special=_BOOL)
        content = token.get("content")
        if not isinstance(content, str) or not content or not is_encodable(content):
            file.refuse(f"{path}.content", content, "a non-empty string in Unicode")
        if content in id_of:
            file.refuse(f"{path}.content", content, "a literal that no added token above has")
        if not content.isascii() and all(map(is_byte_character, content)):
            wanted = "a literal that tokenizers does not decode as other bytes"
            file.refuse(f"{path}.content", content, wanted)
        given = vocab.get(content, len(vocab) + new)
        new += content not in vocab
        if type(token.get("id")) is not int or token["id"] != given:
            wanted = f"{given}, the id that tokenizers gives it in any case"
            file.refuse(f"{path}.id", token.get("id"), wanted)
        id_of[content] = given
    ids = set(id_of.values())
    for text, id in vocab.items():
        if id in ids and text not in id_of:
            file.refuse(f"model.vocab[{shown(text)}]", id, "an id that no added token takes")
    return added


def _check_matching(file: SourceFile, added: list[dict[str, Any]], normalizer: str | None) -> None:
    """Refuse added tokens that one search of the text would not find as tokenizers does.

    tokenizers first searches for the tokens that are not normalized. Then it normalizes the text
    between them, and searches that for the others.
    """
    first = [token["content"] for token in added if not token["normalized"]]
    later = {
        token["content"]: f"added_tokens[{number}].normalized"
        for number, token in enumerate(added)
        if token["normalized"]
    }
    for literal, path in later.items():
        if normalizer and not re.fullmatch(_NORMALIZES_TO_ITSELF, literal):
            wanted = f"false, since {normalizer} may change the literal, or make it of other text"
            file.refuse(path, True, wanted)
    if not first or not later:
        return
    if sum(len(token["content"]) ** 2 for token in added) > _MAX_OVERLAP_WORK:
        wanted = "false, as tokens are too long to compare"
        file.refuse(next(iter(later.values())), True, wanted)
    for literal in _overlapping(first, later):
        wanted = "false, since it overlaps with a token that is not normalized"
        file.refuse(later[literal], True, wanted)


def _id_of(item: object) -> object:
    return item.get("id") if isinstance(item, dict) else item


def _overlapping(first: Collection[str], later: Iterable[str]) -> Iterable[str]:
    """Yield the literals of `later` that can overlap in a text with one of `first`.

    >>> list(_overlapping(["<a>"], ["x<", "<a", "a", "x<a>", "b"]))
    ['x<', '<a', 'a', 'x<a>']
    """
    beginnings = {literal[:end] for literal in first for end in range(1, len(literal) + 1)}
    ends = {literal[start:] for literal in first for start in range(len(literal))}
    parts = {part for literal in first for part in _parts(literal)}
    whole = set(first)
    for literal in later:
        if (
            literal in parts
            or not whole.isdisjoint(_parts(literal))
            or any(literal[:end] in ends for end in range(1, len(literal)))
            or any(literal[start:] in beginnings for start in range(1, len(literal)))
        ):
            yield literal


def _parts(literal: str) -> Iterable[str]:
    size = len(literal)
    return (literal[i:j] for i in range(size) for j in range(i + 1, size + 1))
