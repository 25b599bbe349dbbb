"""The field `stages` of our own format: `Stages` as JSON, checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, count
from typing import Any

from bpetite._pattern_tree import NoTreeError, least_characters, pattern_tree
from bpetite._stages import FLAGS, FORMS, normalized_literals
from bpetite._unicode import normalized
from bpetite._unicode.byte_characters import is_byte_character
from bpetite._vocabulary import BYTE_COUNT, IMPOSSIBLE_BYTES, ONE_SPACE, Stages, Vocabulary
from bpetite.formats._files import SourceFile, shown

_BEHAVIORS = ("isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous")
_STEPS = {*_BEHAVIORS, *(f"not {each}" for each in _BEHAVIORS[1:])}

_METASPACES = ("always", "first", "never")

MAX_GROWTH = 64
"""How many times as long the normalizers of a file may make a text; public files stay below 10."""

_ARGUMENTS = {**dict.fromkeys((*FORMS, "Lowercase"), 0), "Prepend": 1, "Prefix": 1, "Replace": 2}
"""The number of arguments of each normalizer but Strip."""


def read_stages(
    file: SourceFile, given: object, n_patterns: int, special_tokens: Mapping[str, int]
) -> Stages:
    """Return the stages of a file. Raises ValueError for every fault."""
    document = file.checked_object(given, "stages")
    names = Stages.__dataclass_fields__
    for key in document:
        if key not in names:
            file.refuse("stages", key, f"no other keys than {', '.join(names)}")
    normalizers = file.checked_list(document.get("normalizers", []), "stages.normalizers")
    steps = file.checked_list(document.get("steps", []), "stages.steps")
    flags = _of_literals(file, document, "flags", special_tokens)
    for literal, each in flags.items():
        if not each or each not in ([flag for flag in FLAGS if flag in each], ["control"]):
            wanted = f"control, or some of {', '.join(FLAGS)}, in this order"
            file.refuse(f"stages.flags[{shown(literal)}]", each, wanted)
    literal_bytes = _of_literals(file, document, "literal_bytes", special_tokens)
    for literal, each in literal_bytes.items():
        if {*map(type, each)} != {int} or not 0 <= min(each) <= max(each) < BYTE_COUNT:
            path = f"stages.literal_bytes[{shown(literal)}]"
            file.refuse(path, each, "a list of integers from 0 to 255")
    unknown_id = document.get("unknown_id")
    if unknown_id is not None and type(unknown_id) is not int:
        file.refuse("stages.unknown_id", unknown_id, "the id of a token")
    for name in ("fuses_unknown", "drops_unknown", "byte_fallback", "strips_start"):
        file.check_value(document.get(name, False), f"stages.{name}", True, False)
    file.check_value(document.get("metaspace", ""), "stages.metaspace", "", *_METASPACES)
    tied = file.checked_list(document.get("tied", []), "stages.tied")
    for number, merge in enumerate(tied):
        if type(merge) is not int or merge <= (tied[number - 1] if number else 0):
            file.refuse(f"stages.tied[{number}]", merge, "merges in ascending order, from 1 on")
    stages = Stages(
        tuple(
            _normalizer(file, each, f"stages.normalizers[{number}]")
            for number, each in enumerate(normalizers)
        ),
        _steps(file, steps, n_patterns),
        tuple((literal, tuple(each)) for literal, each in sorted(flags.items())),
        tuple((literal, bytes(each)) for literal, each in sorted(literal_bytes.items())),
        _affix(file, document.get("prefix", ""), "stages.prefix"),
        _affix(file, document.get("suffix", ""), "stages.suffix"),
        unknown_id,
        document.get("fuses_unknown", False),
        document.get("drops_unknown", False),
        document.get("byte_fallback", False),
        document.get("metaspace", ""),
        document.get("strips_start", False),
        tuple(tied),
    )
    if stages.byte_fallback:
        prefixes = (("Prepend", " "),), (("Prefix", " "),), ()
        allowed = ((), *((*prefix, ONE_SPACE) for prefix in prefixes))
        if stages.has_words or stages.drops_unknown or stages.normalizers not in allowed:
            file.refuse("stages.byte_fallback", True, "false with other stages of tokens")
    elif stages.metaspace or stages.strips_start or stages.tied:
        file.refuse("stages.byte_fallback", False, "true with metaspace, strips_start and tied")
    if stages.drops_unknown and stages.has_words:
        file.refuse("stages.drops_unknown", True, "false with an affix or a token")
    if not document or document.keys() != stages.document().keys():
        file.refuse("stages", [*document], "fields that have a value, each")
    paths = (f"stages.normalizers[{number}]" for number in count())
    check_growth(file, zip(paths, stages.normalizers, strict=False))
    with file.path_in_errors("stages: "):
        normalized_literals(stages.normalizers, stages.flags)
    return stages


def check_growth(file: SourceFile, normalizers: Iterable[tuple[str, tuple[str, ...]]]) -> None:
    """Refuse normalizers, given by their paths, that may make a text very long.

    What a Replace writes for each character is multiplied over the stages. A normal form may make
    it longer.
    """
    growth = 1.0
    for path, (name, *arguments) in normalizers:
        if name not in ("Replace", "Prepend", "Prefix"):
            continue
        size = len(normalized(arguments[-1], "NFKD"))
        growth = growth * _growth(arguments[0], size) if name == "Replace" else growth + size
        if growth > MAX_GROWTH:
            wanted = f"stages that make a text at most {MAX_GROWTH} times as long"
            file.refuse(path, int(growth), wanted)


def _growth(pattern: str, size: int) -> float:
    """Return how many times as long a text may be with `size` characters for each match."""
    try:
        least = least_characters(pattern_tree(pattern)[0])
    except NoTreeError:
        least = 0
    return max(size / least, 1) if least else 1 + size


def check_first_tokens(file: SourceFile, stages: Stages, id_of: Mapping[bytes, int]) -> None:
    """Refuse stages if a byte that a text may have has no first token."""
    if stages.unknown_id is not None:
        if stages.unknown_id not in id_of.values():
            file.refuse("stages.unknown_id", stages.unknown_id, "the id of a token")
        return
    for start in {b"", stages.prefix}:
        for end in {b"", stages.suffix}:
            for byte in {*range(BYTE_COUNT)}.difference(IMPOSSIBLE_BYTES):
                token = start + bytes([byte]) + end
                if token not in id_of:
                    file.refuse("stages", list(token), "affixes that tokens have for each byte")


def check_characters(file: SourceFile, vocabulary: Vocabulary) -> None:
    """Refuse byte fallback if merges do not begin with characters, or a byte has no token."""
    tokens = vocabulary.ordinary_tokens
    is_whole = {id: len(each) > 1 or each.isascii() for id, each in tokens.items()}
    for id, token in tokens.items():
        if is_whole[id]:
            try:
                token.decode("utf-8")
            except UnicodeDecodeError:
                file.refuse("stages.byte_fallback", list(token), "tokens of whole characters")
    for id in chain.from_iterable(vocabulary.merges):
        if not is_whole[id]:
            file.refuse("stages.byte_fallback", list(tokens[id]), "merges of whole characters")
    if vocabulary.stages.tied[-1:] >= (len(vocabulary.merges),):
        file.refuse("stages.tied", vocabulary.stages.tied[-1], "merges of the file")
    if vocabulary.absent_bytes or vocabulary.ignore_merges:
        file.refuse("stages.byte_fallback", True, "false without all bytes, or with ignore_merges")


def _of_literals(
    file: SourceFile, document: Mapping[str, Any], name: str, special_tokens: Mapping[str, int]
) -> dict[str, list[Any]]:
    """Return a field that has a list for each of some literals."""
    path = f"stages.{name}"
    given = file.checked_object(document.get(name, {}), path)
    for literal, value in given.items():
        if literal not in special_tokens:
            file.refuse(path, literal, "special tokens")
        file.checked_list(value, f"{path}[{shown(literal)}]")
    return given


def _normalizer(file: SourceFile, given: object, path: str) -> tuple[str, ...]:
    name, *arguments = [
        file.checked_string(each, path) for each in file.checked_list(given, path)
    ] or [""]
    sides = [side for side in ("left", "right") if side in arguments]
    if arguments != sides if name == "Strip" else _ARGUMENTS.get(name) != len(arguments):
        file.refuse(path, given, f"one of Strip, {', '.join(_ARGUMENTS)}, with its arguments")
    if name in ("Prepend", "Prefix") and arguments == [""]:
        file.refuse(path, given, "a prefix that is not empty")
    if name == "Replace":
        file.checked_pattern(arguments[0], f"{path}[1]")
    return (name, *arguments)


def _steps(file: SourceFile, given: Sequence[Any], n_patterns: int) -> tuple[str, ...]:
    others = [step for step in given if not isinstance(step, str) or step not in _STEPS]
    splits = len(given) - len(others)
    is_usual = given and (others == [] and {*given} == {"isolated"})
    if others not in ([], ["space"], ["bytes"], ["space", "bytes"]) or is_usual:
        file.refuse("stages.steps", given, "behaviors, with one space and one bytes at most")
    if given and splits != n_patterns:
        file.refuse("stages.steps", given, f"a behavior for each of {n_patterns} patterns")
    return tuple(given)


def _affix(file: SourceFile, given: object, path: str) -> bytes:
    affix = file.checked_string(given, path)
    if not affix.isascii() or not all(map(is_byte_character, affix)):
        file.refuse(path, affix, "ASCII without spaces")
    return affix.encode()
