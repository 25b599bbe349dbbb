"""Read Hugging Face's tokenizer.json, if it is byte-level BPE.

Each field that could change an id or a text is honoured or refused. The rules follow
huggingface/tokenizers, 0.13 to 0.23.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from bpetite._automaton import automaton_of
from bpetite._engine.chosen import ENGINE
from bpetite._pretokenizer import GPT2_PATTERN, MATCH_ALL
from bpetite._stages import FLAGS, FORMS, normalized_literals
from bpetite._unicode import WORD_SET
from bpetite._unicode.byte_characters import is_byte_character, to_bytes, to_characters
from bpetite._vocabulary import (
    ABSENT_IDS,
    BYTE_COUNT,
    IMPOSSIBLE_BYTES,
    NO_STAGES,
    ONE_SPACE,
    Stages,
    Vocabulary,
    check_absent_bytes,
    check_id_range,
    check_special_tokens,
    is_encodable,
)
from bpetite.formats._files import MAX_FILE_BYTES, MISSING, SourceFile, shown
from bpetite.formats._portable_regex import cutting, to_portable
from bpetite.formats._stage_fields import check_growth

VERSION_PREFIX = "#version"
"""The beginning of the first line of merges.txt."""

LAST_CALL = ("truncation", "padding")
"""The fields in which transformers stores the options of its last call. No id depends on them."""

_BYTE_LEVEL_FIELDS = "type add_prefix_space trim_offsets use_regex"
_BOOL = (True, False)
_AROUND = "TemplateProcessing", "RobertaProcessing", "BertProcessing"
_STRIPS = FLAGS[:3]
_IMPOSSIBLE = {bytes([byte]) for byte in IMPOSSIBLE_BYTES}

_Around = tuple[tuple[int, ...], tuple[int, ...]]  # the ids before and after a text

# A literal that is in a text exactly if it is in the text's normal form C: no character of Unicode
# becomes one of the literal's, and none joins its last one.
_NORMALIZES_TO_ITSELF = r"[^K;`\u0080-\U0010ffff]*[^A-Za-z<=>;`\u0080-\U0010ffff]"

_IN_NO_LITERAL = "\ud800"

# The characters of all literals, times their number and the length of the longest, for which
# overlaps are searched. It takes a tenth of a second.
_MAX_OVERLAP_WORK = 100_000_000


def read(file: SourceFile) -> Vocabulary:
    """Return the vocabulary of a tokenizer.json.

    Raises ValueError for every fault and every unsupported value, naming file, field and value.
    """
    document = file.document
    _check_algorithm(file)
    file.check_fields(
        {"version": "1.0", **document},
        "",
        f"{' '.join(LAST_CALL)} added_tokens normalizer pre_tokenizer post_processor decoder model",
        version=("1.0",),
    )
    for field in LAST_CALL:
        if document.get(field) is not None:
            file.checked_object(document[field], field, "an object or null")
    if document["model"].get("byte_fallback"):
        return _with_byte_fallback(file)
    normalizers = _normalizers(file)
    patterns, steps = _splits(file)
    decoders = _stages(file, "decoder", "decoders")
    if len(decoders) != 1:
        file.refuse("decoder", document.get("decoder", MISSING), "one ByteLevel")
    decoder, path = decoders[0]
    file.check_fields(_typed(file, decoder, path, "ByteLevel"), path, _BYTE_LEVEL_FIELDS)
    model = document["model"]
    _check_settings(file, model, byte_fallback=(False, None))
    vocab = file.checked_object(model.get("vocab", MISSING), "model.vocab")
    file.check_ids(vocab, "model.vocab")
    words = _words(file, model, vocab)
    found = None if words["prefix"] else ENGINE.find_merges(vocab, model.get("merges"))
    pairs: list[tuple[str, str]] = []
    if found is None:
        pairs = _pairs(file, model.get("merges", MISSING), vocab, words["prefix"].decode())
    added = _added_tokens(file, document.get("added_tokens", []), vocab)
    special_tokens = {token["content"]: token["id"] for token in added}
    stages = Stages(
        normalizers,
        tuple(steps) if {*steps} != {"isolated"} else (),
        _flags(file, added, normalizers),
        tuple(
            (literal, to_bytes(literal))
            for literal in sorted(special_tokens)
            if not literal.isascii() and all(map(is_byte_character, literal))
        ),
        **words,
    )
    is_nfc = stages == Stages((("NFC",),))

    known_ids = {*vocab.values(), *special_tokens.values()}
    prefix_ids, suffix_ids = _post_processor(file, known_ids)
    ignore_merges = bool(model.get("ignore_merges"))
    others: dict[str, Any] = {
        "more_patterns": tuple(patterns[1:]),
        "normalizer": "NFC" if is_nfc else None,
        "stages": NO_STAGES if is_nfc else stages,
        **_not_special(added),
        "prefix_ids": prefix_ids,
        "suffix_ids": suffix_ids,
    }
    firsts = {*_first_tokens(words)} if stages.has_words else set()
    anywhere = may_be_pieces(normalizers, stages)

    def is_literal(text: str) -> bool:
        """Return whether a special token that no merge uses is no ordinary one too."""
        is_piece = is_byte_character(text) or (ignore_merges and spells_piece(text, anywhere))
        return text not in firsts and not is_piece

    if found is not None:
        with file.path_in_errors("model: "):
            vocabulary = _native_vocabulary(
                vocab, found, special_tokens, is_literal, ignore_merges, patterns[0], others
            )
        if vocabulary is not None:
            return vocabulary
        pairs = _pairs(file, model.get("merges", MISSING), vocab, "")
    merged = {*chain.from_iterable(pairs), *_joined(pairs, len(words["prefix"]))}
    literals = {*filter(is_literal, special_tokens.keys() - merged)}
    tokens: dict[int, bytes] = {}
    unused_tokens: dict[int, bytes] = {}
    for text, id in vocab.items():
        if text not in literals:
            try:
                tokens[id] = to_bytes(text)
            except ValueError:
                if text in merged or text in firsts or not is_encodable(text):
                    file.token_bytes(text, "model.vocab")  # raises with its path
                unused_tokens[id] = text.encode()
    tokens |= _impossible(vocab, special_tokens, stages)
    with file.path_in_errors("model: "):
        return Vocabulary.from_tokens(
            tokens,
            [(vocab[left], vocab[right]) for left, right in pairs],
            special_tokens,
            patterns[0],
            unused_tokens=unused_tokens,
            ignore_merges=ignore_merges,
            **others,
        )


def _impossible(
    vocab: Mapping[str, int], special_tokens: Mapping[str, int], stages: Stages
) -> dict[int, bytes]:
    """Return the added tokens that stand for a byte that no text has.

    Where such a token is decoded, it is that byte.
    """
    return {
        special_tokens[literal]: token
        for literal, token in stages.literal_bytes
        if len(token) == 1 and token in _IMPOSSIBLE and literal not in vocab
    }


def _native_vocabulary(
    vocab: Mapping[str, int],
    found: tuple[bytes, bytes, bytes],
    special_tokens: Mapping[str, int],
    is_literal: Callable[[str], bool],
    ignore_merges: bool,
    pattern: str,
    others: dict[str, Any],
) -> Vocabulary | None:
    """Return the vocabulary of merges that the engine has found; None if it does not take them."""
    stages: Stages = others["stages"]
    flat, runs, unmade = (memoryview(each).cast("I").tolist() for each in found)
    used, unmade_ids = {*flat}, {*unmade}
    other_tokens = _impossible(vocab, special_tokens, stages)
    unused_tokens: dict[int, bytes] = {}
    for text, id in vocab.items():
        if id in unmade_ids and (id in used or text not in special_tokens or not is_literal(text)):
            try:
                other_tokens[id] = to_bytes(text)
            except ValueError:
                if id in used or not is_encodable(text):
                    return None
                unused_tokens[id] = text.encode()
    byte_ids = {token[0]: id for id, token in other_tokens.items() if len(token) == 1}
    unused_tokens |= {id: token for id, token in other_tokens.items() if not token}
    absent_bytes = bytes(byte for byte in range(BYTE_COUNT) if byte not in byte_ids)
    has_unknown = stages.unknown_id is not None or stages.drops_unknown
    ids = (*vocab.values(), *special_tokens.values()) if absent_bytes else ()
    check_absent_bytes(absent_bytes, ids, has_unknown)
    native = ENGINE.read_merges(
        [id for _, id in sorted((ABSENT_IDS | byte_ids).items())],
        {id: token for id, token in sorted(other_tokens.items()) if len(token) > 1},
        flat,
        [[first, length] for first, length in zip(runs[::2], runs[1::2], strict=True)],
        ignore_merges,
        MAX_FILE_BYTES,
    )
    if native is None:
        return None
    check_special_tokens(special_tokens, native.token, stages.literal_bytes)
    check_id_range(special_tokens.values())
    fields: dict[str, Any] = {
        "unused_tokens": unused_tokens,
        "absent_bytes": absent_bytes,
        "native": native,
    }
    return Vocabulary((), special_tokens, pattern, **fields, **others)


def may_be_pieces(normalizers: tuple[tuple[str, ...], ...], stages: Stages) -> bool:
    """Return whether an added token may be a piece of text in which it is not found."""
    return bool(normalizers) or any("single_word" in flags for _, flags in stages.flags)


def spells_piece(literal: str, anywhere: bool) -> bool:
    """Return whether a special token of the vocab may be found as a whole piece, by ignore_merges.

    Outside ASCII, it spells the bytes of another text. `anywhere` is what `may_be_pieces` says.
    """
    return all(map(is_byte_character, literal)) and (anywhere or not literal.isascii())


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


# The punctuation of tokenizers: of ASCII, and of Unicode 8.
_PUNCTUATION_PATTERN = (
    r"(?!["
    r"\u061d\u09fd\u0a76\u0c77\u0c84\u1b4e\u1b4f\u1b7d-\u1b7f\u2e43-\u2e4f\u2e52-\u2e5d"
    r"\U00010d6e\U00010ead\U00010f55-\U00010f59\U00010f86-\U00010f89\U000113d4\U000113d5"
    r"\U000113d7\U000113d8\U0001144b-\U0001144f\U0001145a\U0001145b\U0001145d"
    r"\U00011660-\U0001166c\U000116b9\U0001183b\U00011944-\U00011946\U000119e2"
    r"\U00011a3f-\U00011a46\U00011a9a-\U00011a9c\U00011a9e-\U00011aa2\U00011b00-\U00011b09"
    r"\U00011be1\U00011c41-\U00011c45\U00011c70\U00011c71\U00011ef7\U00011ef8"
    r"\U00011f43-\U00011f4f\U00011fff\U00012ff1\U00012ff2\U00016d6d-\U00016d6f"
    r"\U00016e97-\U00016e9a\U00016fe2\U0001e5ff\U0001e95e\U0001e95f"
    r"])[\p{P}$+<=>^`|~\u166d\U000111c9]"
)
PRE_TOKENIZERS = {
    "Punctuation": _PUNCTUATION_PATTERN,
    "Whitespace": rf"{WORD_SET}+|[^{WORD_SET[1:-1]}\s]+",
    "WhitespaceSplit": r"\s+",
}
"""The patterns of stages that have none in a tokenizer.json."""

BEHAVIORS = {
    "Isolated": "isolated",
    "Removed": "removed",
    "MergedWithPrevious": "merged_with_previous",
    "MergedWithNext": "merged_with_next",
    "Contiguous": "contiguous",
}
"""The behaviors of a Split, with their steps in `Stages`."""


def _normalizers(file: SourceFile) -> tuple[tuple[str, ...], ...]:
    normalizers: list[tuple[str, ...]] = []
    stages = _stages(file, "normalizer", "normalizers")
    found = [(path, _normalizer(file, stage, path)) for stage, path in stages]
    check_growth(file, found)
    for _, normalizer in found:
        if normalizers[-1:] != [normalizer] or normalizer[0] not in FORMS:
            normalizers.append(normalizer)
    return tuple(normalizers)


def _normalizer(file: SourceFile, stage: dict[str, Any], path: str) -> tuple[str, ...]:
    others = ("Lowercase", "Strip", "Prepend", "Replace")
    kind = _typed(file, stage, path, *FORMS, *others)["type"]
    if kind == "Strip":
        file.check_fields(stage, path, "type", strip_left=_BOOL, strip_right=_BOOL)
        sides = [side for side in ("left", "right") if stage[f"strip_{side}"]]
        return (kind, *sides)
    if kind == "Prepend":
        file.check_fields(stage, path, "type prepend")
        prefix = file.checked_string(stage.get("prepend"), f"{path}.prepend")
        if not prefix:  # tokenizers doubles characters then, or panics
            file.refuse(f"{path}.prepend", prefix, "a string that is not empty")
        return kind, prefix
    if kind == "Replace":
        file.check_fields(stage, path, "type pattern content")
        pattern = _regex(file, stage.get("pattern"), f"{path}.pattern")
        return kind, pattern, file.checked_string(stage.get("content"), f"{path}.content")
    file.check_fields(stage, path, "type")
    return (kind,)


def _regex(file: SourceFile, value: object, path: str, cuts: bool = False) -> str:
    """Return a pattern; with `cuts`, text is cut where it matches, even if the match is empty."""
    given = file.checked_object(value, path)
    kind = next(iter(given), "Regex")
    if len(given) != 1 or kind not in ("Regex", "String"):
        file.refuse(path, given, 'an object with one field, "Regex" or "String"')
    text = file.checked_string(given[kind], f"{path}.{kind}")
    try:
        if kind == "String":
            return to_portable("".join(map(_escaped, text)))
        return to_portable(cutting(text) if cuts else text)
    except ValueError as error:
        file.refuse(f"{path}.{kind}", text, f"another pattern ({error})")


def _escaped(character: str) -> str:
    """Return a pattern for one character, in the spelling that all engines share."""
    if character in "\n\r\t":
        return repr(character)[1:-1]
    if not character.isprintable() and ord(character) < 0x10000:
        return f"\\u{ord(character):04x}"
    return re.escape(character)


def _splits(file: SourceFile) -> tuple[list[str], list[str]]:
    """Return the patterns that split text, and the steps of `Stages`."""
    patterns: list[str] = []
    steps: list[str] = []
    byte_level = ""
    for stage, path in _stages(file, "pre_tokenizer", "pretokenizers"):
        kind = _typed(file, stage, path, "Split", "Digits", *PRE_TOKENIZERS, "ByteLevel")["type"]
        if kind == "Split":
            pattern, step = _split(file, stage, path)
        elif kind == "Digits":
            file.check_fields(stage, path, "type", individual_digits=_BOOL)
            pattern, step = (r"\p{N}" if stage["individual_digits"] else r"\p{N}+"), "isolated"
        elif kind == "ByteLevel":
            stage = {"use_regex": True, **stage}
            file.check_fields(
                stage, path, "type", add_prefix_space=_BOOL, trim_offsets=_BOOL, use_regex=_BOOL
            )
            if byte_level:
                file.refuse(path, stage, f"one ByteLevel; {byte_level} is one too")
            byte_level = path
            steps += ["space"] if stage["add_prefix_space"] else []
            if stage["use_regex"]:
                patterns.append(GPT2_PATTERN)
                steps.append("isolated")
            steps.append("bytes")
            continue
        elif kind == "Punctuation":
            stage = {"behavior": "Isolated", **stage}
            file.check_fields(stage, path, "type", behavior=tuple(BEHAVIORS))
            pattern, step = PRE_TOKENIZERS[kind], BEHAVIORS[stage["behavior"]]
        else:
            file.check_fields(stage, path, "type")
            pattern, step = PRE_TOKENIZERS[kind], "removed"
            step = "not removed" if kind == "Whitespace" else step
        patterns.append(pattern)
        steps.append(step)
    if not byte_level:
        given = file.document.get("pre_tokenizer")
        file.refuse("pre_tokenizer", given, "a ByteLevel among its stages")
    if steps[-1] == "bytes":
        steps.pop()
    return patterns or [MATCH_ALL], steps if patterns else [*steps, "isolated"]


def _split(file: SourceFile, split: dict[str, Any], path: str) -> tuple[str, str]:
    """Return the pattern of a Split, and its step."""
    file.check_fields(split, path, "type pattern", behavior=tuple(BEHAVIORS), invert=_BOOL)
    step = BEHAVIORS[split["behavior"]]
    pattern = _regex(file, split.get("pattern"), f"{path}.pattern", cuts=step == "isolated")
    if not split["invert"] or step == "isolated":
        return pattern, step
    automaton = automaton_of(pattern) if step == "removed" else None
    if automaton is not None and automaton.matches_all():
        return pattern, "isolated"  # there is no text that it drops
    return pattern, f"not {step}"


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
    """Return the ids of RobertaProcessing or BertProcessing: one before a text, one after it."""
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


def _check_algorithm(file: SourceFile) -> None:
    """Refuse a model other than BPE of bytes, or with byte fallback, before any other field."""
    model = file.checked_object(file.document.get("model", MISSING), "model")
    kind = model.get("type", _algorithm_of(model))
    if kind == "BPE" and not model.get("byte_fallback") and not _has_byte_level(file):
        wanted = f'"BPE" of bytes (with a ByteLevel) or with byte_fallback; {_INSTEAD}'
        file.refuse("model.type", "BPE of characters", wanted)
    if kind != "BPE":
        file.refuse("model.type", kind, f'"BPE"; {_INSTEAD}')


_INSTEAD = "for another algorithm, encode by the library tokenizers"


def _algorithm_of(model: Mapping[str, Any]) -> str:
    """Return the algorithm of a model without a type, as in old files, by its other fields."""
    if "unk_id" in model or isinstance(model.get("vocab"), list):
        return "Unigram"
    if "max_input_chars_per_word" in model:
        return "WordPiece"
    if "merges" in model:
        return "BPE"
    return "WordPiece" if "continuing_subword_prefix" in model else "WordLevel"


def _has_byte_level(file: SourceFile) -> bool:
    """Return whether a stage of a file makes bytes characters, or characters bytes."""
    fields = "normalizer normalizers", "pre_tokenizer pretokenizers", "decoder decoders"
    stages = chain.from_iterable(_stages(file, *names.split()) for names in fields)
    return any(stage.get("type") == "ByteLevel" for stage, _ in stages)


def _check_settings(file: SourceFile, model: dict[str, Any], **others: tuple[Any, ...]) -> None:
    file.check_fields(
        {"type": "BPE", **model},  # old files lack the type; a model with merges is BPE
        "model",
        "unk_token vocab merges continuing_subword_prefix end_of_word_suffix",
        type=("BPE",),
        dropout=(None, 0, 0.0),
        fuse_unk=(False, True, None),
        **{"ignore_merges": (False, True, None), **others},
    )


def _words(file: SourceFile, model: dict[str, Any], vocab: Mapping[str, int]) -> dict[str, Any]:
    """Return the fields of `Stages` about the first tokens of a piece."""
    affixes = []
    for field in ("continuing_subword_prefix", "end_of_word_suffix"):
        path = f"model.{field}"
        given = model.get(field)
        affix = "" if given is None else file.checked_string(given, path)
        if not affix.isascii() or not all(map(is_byte_character, affix)):
            file.refuse(path, affix, "ASCII without spaces")
        affixes.append(affix.encode())
    words: dict[str, Any] = {"prefix": affixes[0], "suffix": affixes[1]}
    absent = [
        text
        for text in _first_tokens(words)
        if text not in vocab and to_bytes(text)[len(affixes[0]) :][:1] not in IMPOSSIBLE_BYTES
    ]
    unknown = model.get("unk_token")
    if not isinstance(unknown, (str, type(None))):
        file.refuse("model.unk_token", unknown, "a string or null")
    if absent and unknown is None:
        if affixes != [b"", b""] or model.get("ignore_merges"):
            wanted = "a token for each byte, or tokenizers drops what has none"
            file.refuse("model.vocab", f"none for {absent[0]!r}", wanted)
        words["drops_unknown"] = True
    elif absent and unknown not in vocab:
        file.refuse("model.unk_token", unknown, "a token of model.vocab")
    if absent and unknown is not None:
        words |= {"unknown_id": vocab[unknown], "fuses_unknown": bool(model.get("fuse_unk"))}
    return words


def _first_tokens(words: Mapping[str, Any]) -> Iterator[str]:
    prefix, suffix = words["prefix"].decode(), words["suffix"].decode()
    for start, end in {("", ""), ("", suffix), (prefix, ""), (prefix, suffix)}:
        for byte in range(BYTE_COUNT):
            yield start + to_characters(bytes([byte])) + end


def _joined(pairs: Iterable[tuple[str, str]], cut: int) -> Iterator[str]:
    """Yield the tokens that merges make: a part but the first loses its prefix."""
    return (left + right[cut:] for left, right in pairs) if cut else map("".join, pairs)


def _pairs(
    file: SourceFile, value: object, vocab: Mapping[str, int], prefix: str
) -> list[tuple[str, str]]:
    """Return the merges as text, from "a b" or, since tokenizers 0.20, from ["a", "b"]."""
    merges, cut = file.checked_list(value, "model.merges"), len(prefix)
    pairs = _pairs_of_strings(merges)
    if (
        len({*pairs}) == len(merges)
        and all(right.startswith(prefix) for _, right in pairs)
        and vocab.keys() >= {*chain.from_iterable(pairs)}
        and all(map(vocab.__contains__, _joined(pairs, cut)))
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
        if left not in vocab or right not in vocab or left + right[cut:] not in vocab:
            wanted = "two tokens whose join model.vocab has"
        elif not right.startswith(prefix):
            wanted = f"a second token that begins with {prefix!r}"
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


# Byte fallback

_SPACE = "\u2581"
_PREPEND = {"type": "Prepend", "prepend": _SPACE}
_REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": _SPACE}
_DECODERS = (
    {"type": "Replace", "pattern": {"String": _SPACE}, "content": " "},
    {"type": "ByteFallback"},
    {"type": "Fuse"},
)
_STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}


def _with_byte_fallback(file: SourceFile) -> Vocabulary:
    """Return the vocabulary of a model that has bytes for characters without a token.

    Its tokens spell a space as U+2581. Here they have spaces, and texts keep theirs.
    """
    document = file.document
    model = document["model"]
    _check_settings(
        file,
        model,
        byte_fallback=(True,),
        ignore_merges=(False, None),
        continuing_subword_prefix=(None, ""),
        end_of_word_suffix=(None, ""),
    )
    if not isinstance(model.get("unk_token"), (str, type(None))):
        file.refuse("model.unk_token", model["unk_token"], "a string or null")
    normalizers = _space_normalizers(file)
    metaspace, patterns, steps = _space_splits(file, bool(normalizers))
    decoders = [stage for stage, _ in _stages(file, "decoder", "decoders")]
    if decoders not in ([*_DECODERS], [*_DECODERS, _STRIP]):
        wanted = "a Replace of U+2581 by a space, ByteFallback, Fuse, and perhaps a Strip"
        file.refuse("decoder", document.get("decoder"), wanted)
    vocab = file.checked_object(model.get("vocab", MISSING), "model.vocab")
    file.check_ids(vocab, "model.vocab")
    byte_of = {f"<0x{byte:02X}>": byte for byte in range(BYTE_COUNT)}
    for text in byte_of:
        if text not in vocab:
            wanted = "a token for each byte, or tokenizers has unk_token for some characters"
            file.refuse("model.vocab", f"none for {text}", wanted)
    if _SPACE not in vocab:
        wanted = f"a token for {_SPACE} (U+2581), or a space becomes the bytes of that character"
        file.refuse("model.vocab", f"none for {_SPACE}", wanted)
    pairs, merged = _pairs_of_ids(file, model.get("merges", MISSING), vocab)
    for text, id in vocab.items():
        if id in merged and (" " in text or text in byte_of):
            wanted = "merges of tokens of characters without a space"
            file.refuse("model.merges", text, wanted)
    added = _added_tokens(file, document.get("added_tokens", []), vocab)
    special_tokens = {token["content"]: token["id"] for token in added}
    for literal in special_tokens:
        if literal in byte_of:
            file.refuse("added_tokens", literal, "no tokens that stand for bytes")
    stages = Stages(
        normalizers,
        tuple(steps) if {*steps} != {"isolated"} else (),
        _flags(file, added, normalizers),
        tuple(
            (literal, literal.replace(_SPACE, " ").encode())
            for literal in sorted(special_tokens)
            if _SPACE in literal
        ),
        byte_fallback=True,
        metaspace=metaspace,
        strips_start=_STRIP in decoders,
    )
    tokens: dict[int, bytes] = {}
    unused_tokens: dict[int, bytes] = {}
    for text, id in vocab.items():
        byte = byte_of.get(text)
        if byte is not None:
            character = chr(byte).replace(" ", _SPACE)
            # Where a character of ASCII has a token, no text becomes its byte's token.
            is_unused = byte < 0x80 and character in vocab
            (unused_tokens if is_unused else tokens)[id] = bytes([byte])
        elif not is_encodable(text):
            file.token_bytes(text, "model.vocab")
        elif " " in text:
            unused_tokens[id] = text.encode()
        elif text not in special_tokens or id in merged or len(text) == 1:
            tokens[id] = text.replace(_SPACE, " ").encode()
    prefix_ids, suffix_ids = _post_processor(file, {*vocab.values(), *special_tokens.values()})
    with file.path_in_errors("model: "):
        return Vocabulary.from_tokens(
            tokens,
            pairs,
            special_tokens,
            patterns[0],
            unused_tokens=unused_tokens,
            more_patterns=tuple(patterns[1:]),
            stages=stages,
            **_not_special(added),
            prefix_ids=prefix_ids,
            suffix_ids=suffix_ids,
        )


def _pairs_of_ids(
    file: SourceFile, merges: object, vocab: dict[str, int]
) -> tuple[list[tuple[int, int]], set[int]]:
    """Return the merges, and all ids that they use or make."""
    if (found := ENGINE.find_merges(vocab, merges)) is not None:
        flat, runs = (memoryview(part).cast("I").tolist() for part in found[:2])
        pairs = [*zip(flat[::2], flat[1::2], strict=True)]
        if len({*pairs}) == len(pairs):
            starts = zip(runs[::2], runs[1::2], strict=True)
            return pairs, {*flat}.union(*(range(id, id + length) for id, length in starts))
    texts = _pairs(file, merges, vocab, "")
    pairs = [(vocab[left], vocab[right]) for left, right in texts]
    return pairs, {*chain.from_iterable(pairs), *map(vocab.__getitem__, _joined(texts, 0))}


def _space_normalizers(file: SourceFile) -> tuple[tuple[str, ...], ...]:
    found = [stage for stage, _ in _stages(file, "normalizer", "normalizers")]
    if not found:
        return ()
    prepend = [("Prepend", " ")] if _PREPEND in found else []
    if found not in ([_REPLACE], [_PREPEND, _REPLACE], [_REPLACE, _PREPEND]):
        wanted = "null, or a Replace of a space by U+2581, with at most a Prepend of U+2581"
        file.refuse("normalizer", file.document["normalizer"], f"{wanted}, for byte fallback")
    return *prepend, ONE_SPACE


def _space_splits(file: SourceFile, has_spaces: bool) -> tuple[str, list[str], list[str]]:
    """Return what Metaspace does, the patterns that split text, and the steps of `Stages`.

    `has_spaces` tells whether normalizers have made spaces U+2581 before.
    """
    stages = _stages(file, "pre_tokenizer", "pretokenizers")
    if not has_spaces:
        if len(stages) != 1 or stages[0][0].get("type") != "Metaspace":
            wanted = "a Metaspace alone, if no normalizer makes spaces U+2581"
            file.refuse("pre_tokenizer", file.document.get("pre_tokenizer"), wanted)
        return _metaspace(file, *stages[0])
    patterns: list[str] = []
    steps: list[str] = []
    for stage, path in stages:
        split = _typed(file, stage, path, "Split")
        pattern, step = _split(file, split, path)
        if split["pattern"] == {"String": " "} and step != "not removed":
            continue  # no text has one any more
        if not _sees_no_spaces(pattern):
            file.refuse(f"{path}.pattern", split["pattern"], "one that spaces do not concern")
        patterns.append(pattern)
        steps.append(step)
    return "", patterns or [MATCH_ALL], steps or ["isolated"]


def _metaspace(
    file: SourceFile, stage: dict[str, Any], path: str
) -> tuple[str, list[str], list[str]]:
    stage = {"prepend_scheme": "always", "split": True, **stage}
    file.check_fields(
        stage,
        path,
        "type add_prefix_space str_rep",
        replacement=(_SPACE,),
        prepend_scheme=("always", "first", "never"),
        split=_BOOL,
    )
    if stage.get("add_prefix_space", True) is not True and stage["prepend_scheme"] != "never":
        file.refuse(f"{path}.add_prefix_space", stage["add_prefix_space"], "true, or none")
    pattern = " [^ ]*|[^ ]+" if stage["split"] else MATCH_ALL
    return stage["prepend_scheme"], [pattern], ["isolated"]


def _sees_no_spaces(pattern: str) -> bool:
    """Return whether a pattern has the same matches if each U+2581 is a space."""
    automaton = automaton_of(pattern)
    return automaton is not None and automaton.reads_alike(_SPACE, " ")


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
        flags = dict.fromkeys((*_STRIPS, "normalized", "special"), _BOOL)
        file.check_fields(token, path, "id content", **flags)
        content = token.get("content", MISSING)
        if not isinstance(content, str) or not content or not is_encodable(content):
            file.refuse(f"{path}.content", content, "a non-empty string in Unicode")
        if content in id_of:
            file.refuse(f"{path}.content", content, "a literal that no added token above has")
        given = vocab.get(content, len(vocab) + new)
        new += content not in vocab
        if type(token.get("id")) is not int or token["id"] != given:
            wanted = f"{given}, the id that tokenizers gives it in any case"
            file.refuse(f"{path}.id", token.get("id", MISSING), wanted)
        id_of[content] = given
    ids = set(id_of.values())
    for text, id in vocab.items():
        if id in ids and text not in id_of:
            file.refuse(f"model.vocab[{shown(text)}]", id, "an id that no added token takes")
    return added


def _not_special(added: list[dict[str, Any]]) -> dict[str, frozenset[str]]:
    """Return the fields of a vocabulary that name the added tokens which are not special."""
    literals = frozenset(token["content"] for token in added if not token["special"])
    return {"kept_special_tokens": literals, "added_tokens": literals}


def _flags(
    file: SourceFile, added: list[dict[str, Any]], normalizers: tuple[tuple[str, ...], ...]
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the flags of added tokens, as `Stages` has them.

    tokenizers first searches for the tokens that are not normalized. Then it normalizes the text
    between them, and searches that for the others. If one search finds all of them, no token has
    the flag normalized.
    """
    later = [token["content"] for token in added if token["normalized"]]
    flags: tuple[str, ...] = FLAGS
    if not later or _are_found_at_once(added, later, normalizers):
        flags = _STRIPS
    found = ((token["content"], tuple(f for f in flags if token[f])) for token in added)
    flagged = tuple(sorted(each for each in found if each[1]))
    with file.path_in_errors("added_tokens: "):
        normalized_literals(normalizers, flagged)
    return flagged


def _are_found_at_once(
    added: list[dict[str, Any]], later: list[str], normalizers: tuple[tuple[str, ...], ...]
) -> bool:
    """Return whether one search of the text finds all added tokens as two do."""
    if any(token[flag] for token in added for flag in _STRIPS):
        return False
    if normalizers not in ((), (("NFC",),)):
        return False
    if normalizers and not all(re.fullmatch(_NORMALIZES_TO_ITSELF, each) for each in later):
        return False
    first = [token["content"] for token in added if not token["normalized"]]
    if not first:
        return True
    sizes = [len(token["content"]) for token in added]
    if sum(sizes) * (len(sizes) + max(sizes)) > _MAX_OVERLAP_WORK:
        return False
    return not _may_overlap(first, later)


def _id_of(item: object) -> object:
    return item.get("id") if isinstance(item, dict) else item


def _may_overlap(first: Collection[str], later: Collection[str]) -> bool:
    """Return whether a literal of `first` and one of `later` can share characters of a text.

    >>> [_may_overlap(["<a>"], [literal]) for literal in ("x<", "<a", "a", "x<a>", "b")]
    [True, True, True, True, False]
    """
    all_first, all_later = map(_IN_NO_LITERAL.join, (first, later))
    if any(literal in all_first for literal in later):
        return True
    if any(literal in all_later for literal in first):
        return True
    return not all(
        {literal[:end] for literal in left for end in range(1, len(literal))}.isdisjoint(
            literal[start:] for literal in right for start in range(1, len(literal))
        )
        for left, right in ((first, later), (later, first))
    )
