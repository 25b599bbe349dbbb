"""Hugging Face's tokenizer.json, as far as it is byte-level BPE, to a vocabulary and back.

What a field says is honoured or refused by its name and value; nothing is passed over that could
change an id or a text. The rules are those of huggingface/tokenizers, 0.13 to 0.23.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Literal, NoReturn

from bpetite._files import SourceFile, shown
from bpetite._pretokenizer import GPT2_PATTERN, PATTERNS
from bpetite._vocabulary import BYTE_COUNT, MAX_ID, Vocabulary, is_encodable
from bpetite.formats._byte_characters import is_byte_character, to_bytes, to_characters
from bpetite.formats._regular_expressions import check_shared, from_home

EVERYTHING = r"[\s\S]+"
"""The pattern of a text that is not cut at all."""

_CONFIG_TOKENS = ("bos_token", "eos_token", "pad_token", "unk_token")

_VERSION = "#version"

_BYTE_LEVEL = "type add_prefix_space trim_offsets use_regex"

# A literal that is found in a text where it is found in its normal form C, and the other way: no
# character of Unicode becomes one of its, and none joins the last.
_NORMALIZES_TO_ITSELF = r"[^K;`\u0080-\U0010ffff]*[^A-Za-z<=>;`\u0080-\U0010ffff]"

# What the literals of a file, each squared in length, may come to for their overlaps to be found.
_MOST_OVERLAPS = 2_000_000


def read(file: SourceFile, document: dict[str, Any]) -> Vocabulary:
    """Return the vocabulary of a tokenizer.json; `document` is its JSON.

    Raises ValueError, naming the file, the field and its value, for whatever is wrong or means
    what a vocabulary here cannot.
    """
    return _Reader(file, document).read()


class _Reader:
    """Checks a tokenizer.json field by field."""

    def __init__(self, file: SourceFile, document: dict[str, Any]) -> None:
        self._file = file
        self._refuse = file.refuse
        self._document = document

    def read(self) -> Vocabulary:
        known = "version truncation padding added_tokens normalizer pre_tokenizer post_processor "
        known += "decoder model"
        self._only(self._document, known, "")
        self._one_of("version", self._document.get("version", "1.0"), ["1.0"])
        for field in ("truncation", "padding"):
            self._one_of(field, self._document.get(field), [None])
        normalizer = self._normalizer()
        patterns = self._patterns()
        self._decoder()
        self._model_settings(self._object(self._document.get("model"), "model"))

        model = self._document["model"]
        vocab = self._vocab(model.get("vocab"))
        pairs = self._pairs(model.get("merges"), vocab)
        added = self._added_tokens(self._document.get("added_tokens", []), vocab)
        self._check_matching(added, normalizer)
        special_tokens = {token["content"]: token["id"] for token in added}

        merged = {part for pair in pairs for part in (*pair, "".join(pair))}
        tokens = {
            id: self._token(text)
            for text, id in vocab.items()
            if text not in special_tokens or text in merged or is_byte_character(text)
        }
        known_ids = {*vocab.values(), *special_tokens.values()}
        prefix_ids, suffix_ids = self._template(known_ids)
        try:
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
        except ValueError as error:
            raise ValueError(f"{self._file.path}: model: {error}") from None

    # What a value may be

    def _object(self, value: object, place: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            self._refuse(place, value, "an object")
        return value

    def _list(self, value: object, place: str) -> list[Any]:
        if not isinstance(value, list):
            self._refuse(place, value, "a list")
        return value

    def _only(self, value: dict[str, Any], known: str, place: str) -> None:
        """Refuse a field that is not known: who wrote it meant something by it."""
        for field in value:
            if field not in known.split():
                self._refuse(place or "the file", field, f"no other fields than {known}")

    def _one_of(self, place: str, value: object, right: Collection[object]) -> None:
        if not any(type(value) is type(each) and value == each for each in right):
            self._refuse(place, value, " or ".join(map(json.dumps, right)))

    def _type(self, value: object, place: str, right: str) -> dict[str, Any]:
        """Return a value that is an object of one of the types that are honoured."""
        found = self._object(value, place)
        if found.get("type") not in right.split():
            self._refuse(f"{place}.type", found.get("type"), " or ".join(right.split()))
        return found

    # The stages around the model

    def _stages(self, name: str, parts: str) -> list[tuple[dict[str, Any], str]]:
        """Return the stages of a field in order, each with its place, Sequences taken apart."""
        value = self._document.get(name)
        waiting = [] if value is None else [(value, name)]
        stages = []
        while waiting:
            stage, place = waiting.pop()
            if self._object(stage, place).get("type") != "Sequence":
                stages.append((stage, place))
                continue
            self._only(stage, f"type {parts}", place)
            inner = self._list(stage.get(parts), f"{place}.{parts}")
            numbered = [(part, f"{place}.{parts}[{n}]") for n, part in enumerate(inner)]
            waiting += reversed(numbered)
        return stages

    def _normalizer(self) -> Literal["NFC"] | None:
        stages = self._stages("normalizer", "normalizers")
        for stage, place in stages:
            self._only(self._type(stage, place, "NFC"), "type", place)
        return "NFC" if stages else None

    def _patterns(self) -> list[str]:
        stages = self._stages("pre_tokenizer", "pretokenizers")
        patterns = []
        for stage, place in stages[:-1]:
            kind = self._type(stage, place, "Split Digits")["type"]
            patterns.append((self._split if kind == "Split" else self._digits)(stage, place))
        last, place = (
            stages[-1] if stages else (self._document.get("pre_tokenizer"), "pre_tokenizer")
        )
        last = self._type(last, place, "ByteLevel")
        self._only(last, _BYTE_LEVEL, place)
        self._one_of(f"{place}.add_prefix_space", last.get("add_prefix_space"), [False])
        self._one_of(f"{place}.trim_offsets", last.get("trim_offsets"), [True, False])
        self._one_of(f"{place}.use_regex", last.get("use_regex", True), [True, False])
        if last.get("use_regex", True):
            patterns.append(GPT2_PATTERN)
        return patterns or [EVERYTHING]

    def _split(self, split: dict[str, Any], place: str) -> str:
        self._only(split, "type pattern behavior invert", place)
        given = self._object(split.get("pattern"), f"{place}.pattern")
        kind = next(iter(given), "Regex")
        if len(given) != 1 or kind not in ("Regex", "String"):
            self._refuse(f"{place}.pattern", given, 'an object with one field, "Regex" or "String"')
        place_in = f"{place}.pattern.{kind}"
        if not isinstance(given[kind], str) or not is_encodable(given[kind]):
            self._refuse(place_in, given[kind], "a string in Unicode")
        try:
            pattern = from_home(given[kind] if kind == "Regex" else re.escape(given[kind]))
        except ValueError as error:
            self._refuse(place_in, given[kind], f"another pattern ({error})")
        self._one_of(f"{place}.invert", split.get("invert"), [True, False])
        if split.get("behavior") == "Removed" and split["invert"]:
            # What does not match is dropped: nothing, by these.
            if pattern not in PATTERNS.values():
                self._refuse(f"{place}.behavior", "Removed", '"Isolated" for such a pattern')
        else:
            self._one_of(f"{place}.behavior", split.get("behavior"), ["Isolated"])
        return pattern

    def _digits(self, digits: dict[str, Any], place: str) -> str:
        self._only(digits, "type individual_digits", place)
        individual = digits.get("individual_digits")
        self._one_of(f"{place}.individual_digits", individual, [True, False])
        return r"\p{N}" if individual else r"\p{N}+"

    def _decoder(self) -> None:
        decoder = self._type(self._document.get("decoder"), "decoder", "ByteLevel")
        self._only(decoder, _BYTE_LEVEL, "decoder")

    def _template(self, known_ids: Collection[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the ids that the post-processor puts before and after a text."""
        around: tuple[tuple[int, ...], tuple[int, ...]] | None = None
        for stage, place in self._stages("post_processor", "processors"):
            if self._type(stage, place, "ByteLevel TemplateProcessing")["type"] == "ByteLevel":
                self._only(stage, _BYTE_LEVEL, place)
                continue
            if around is not None:
                self._refuse(f"{place}.type", stage["type"], "one TemplateProcessing at most")
            around = self._around(stage, place, known_ids)
        return around or ((), ())

    def _around(
        self, template: dict[str, Any], place: str, known_ids: Collection[int]
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        self._only(template, "type single pair special_tokens", place)
        special = self._object(template.get("special_tokens"), f"{place}.special_tokens")
        parts: list[list[int]] = [[]]
        single = self._list(template.get("single"), f"{place}.single")
        for number, item in enumerate(single):
            where = f"{place}.single[{number}]"
            kind = next(iter(self._object(item, where)), None)
            if kind == "Sequence" and len(item) == 1 and len(parts) == 1:
                self._one_of(f"{where}.Sequence.id", _id_of(item["Sequence"]), ["A"])
                parts.append([])
                continue
            if kind != "SpecialToken" or len(item) != 1:
                self._refuse(where, item, "a SpecialToken, or one Sequence")
            name = _id_of(item["SpecialToken"])
            if not isinstance(name, str) or name not in special:
                self._refuse(f"{where}.SpecialToken.id", name, "one of special_tokens")
            where = f"{place}.special_tokens[{shown(name)}].ids"
            ids = special[name].get("ids") if isinstance(special[name], dict) else special[name]
            for id in self._list(ids, where):
                if type(id) is not int or id not in known_ids:
                    self._refuse(where, id, "the ids of tokens")
                parts[-1].append(id)
        if len(parts) != 2:
            self._refuse(f"{place}.single", single, "one Sequence in it")
        return tuple(parts[0]), tuple(parts[1])

    # The model

    def _model_settings(self, model: dict[str, Any]) -> None:
        # Old files have no type; what has merges is BPE.
        self._one_of("model.type", model.get("type", "BPE"), ["BPE"])
        known = "type dropout unk_token continuing_subword_prefix end_of_word_suffix fuse_unk "
        known += "byte_fallback ignore_merges vocab merges"
        self._only(model, known, "model")
        self._one_of("model.dropout", model.get("dropout"), [None, 0, 0.0])
        for field in ("continuing_subword_prefix", "end_of_word_suffix"):
            self._one_of(f"model.{field}", model.get(field), [None, ""])
        self._one_of("model.byte_fallback", model.get("byte_fallback", False), [False, None])
        # Never used, since every byte has a token.
        self._one_of("model.fuse_unk", model.get("fuse_unk", False), [False, True, None])
        if not isinstance(model.get("unk_token"), (str, type(None))):
            self._refuse("model.unk_token", model["unk_token"], "a string or null")
        self._one_of("model.ignore_merges", model.get("ignore_merges"), [False, True, None])

    def _vocab(self, value: object) -> dict[str, int]:
        vocab = self._object(value, "model.vocab")
        text_of: dict[int, str] = {}
        for text, id in vocab.items():
            if type(id) is not int or not 0 <= id <= MAX_ID:
                self._refuse(f"model.vocab[{shown(text)}]", id, f"an id from 0 to {MAX_ID}")
            if not text:
                self._refuse('model.vocab[""]', id, "no token without bytes")
            if (first := text_of.setdefault(id, text)) != text:
                wanted = f"an id of its own; {shown(first)} has it too"
                self._refuse(f"model.vocab[{shown(text)}]", id, wanted)
        for byte in range(BYTE_COUNT):
            if (text := to_characters(bytes([byte]))) not in vocab:
                wanted = f"a token for each byte, or tokenizers drops the byte 0x{byte:02x}"
                self._refuse("model.vocab", f"none for {text!r}", wanted)
        return vocab

    def _token(self, text: str) -> bytes:
        try:
            return to_bytes(text)
        except ValueError as error:
            raise ValueError(f"{self._file.path}: model.vocab[{shown(text)}]: {error}") from None

    def _pairs(self, value: object, vocab: Mapping[str, int]) -> list[tuple[str, str]]:
        """Return the merges, as text; they are "a b", or ["a", "b"] since tokenizers 0.20."""
        ranks: dict[tuple[str, str], int] = {}
        merges = self._list(value, "model.merges")
        for rank, merge in enumerate(merges):
            left, right = "", ""
            if isinstance(merge, str):
                if merge.startswith(_VERSION):
                    continue  # tokenizers takes it for the first line of merges.txt, anywhere
                left, _, right = merge.partition(" ")
            elif isinstance(merge, list) and len(merge) == 2 and {*map(type, merge)} == {str}:
                left, right = merge
            if left not in vocab or right not in vocab or left + right not in vocab:
                wanted = "two tokens that are, joined too, in model.vocab"
                self._refuse(f"model.merges[{rank}]", merge, wanted)
            if type(merge) is not type(merges[0]):
                self._refuse(f"model.merges[{rank}]", merge, "all of them spelled alike")
            if (first := ranks.setdefault((left, right), rank)) != rank:
                wanted = f"a pair that is not model.merges[{first}] too"
                self._refuse(f"model.merges[{rank}]", merge, wanted)
        return list(ranks)

    # Added tokens

    def _added_tokens(self, value: object, vocab: Mapping[str, int]) -> list[dict[str, Any]]:
        added = []
        id_of: dict[str, int] = {}
        new = 0  # tokens that are not in the vocab
        for number, token in enumerate(self._list(value, "added_tokens")):
            place = f"added_tokens[{number}]"
            self._object(token, place)
            known = "id content single_word lstrip rstrip normalized special"
            self._only(token, known, place)
            content = token.get("content")
            if not isinstance(content, str) or not content or not is_encodable(content):
                self._refuse(f"{place}.content", content, "a string that is not empty, in Unicode")
            if content in id_of:
                self._refuse(f"{place}.content", content, "a literal that is not given above")
            if not content.isascii() and all(map(is_byte_character, content)):
                wanted = "a literal that tokenizers does not decode as other bytes"
                self._refuse(f"{place}.content", content, wanted)
            for field in ("lstrip", "rstrip", "single_word"):
                self._one_of(f"{place}.{field}", token.get(field), [False])
            for field in ("special", "normalized"):
                self._one_of(f"{place}.{field}", token.get(field), [False, True])
            given = vocab.get(content, len(vocab) + new)
            new += content not in vocab
            if type(token.get("id")) is not int or token["id"] != given:
                wanted = f"{given}, the id that tokenizers gives it whatever is said here"
                self._refuse(f"{place}.id", token.get("id"), wanted)
            id_of[content] = given
            added.append(token)
        ids = set(id_of.values())
        for text, id in vocab.items():
            if id in ids and text not in id_of:
                self._refuse(f"model.vocab[{shown(text)}]", id, "an id that no added token gets")
        return added

    def _check_matching(self, added: list[dict[str, Any]], normalizer: str | None) -> None:
        """Refuse added tokens that tokenizers looks for in another way than one look at the text.

        It looks for those that are not normalized first, and then, in the text between them as
        the normalizer left it, for the others.
        """
        later = {
            token["content"]: f"added_tokens[{number}].normalized"
            for number, token in enumerate(added)
            if token["normalized"]
        }
        for literal, place in later.items():
            if normalizer and not re.fullmatch(_NORMALIZES_TO_ITSELF, literal):
                wanted = f"false, since {normalizer} may make it of other text, or that of it"
                self._refuse(place, True, wanted)
        first = [token["content"] for token in added if not token["normalized"]]
        if not first or not later:
            return
        if sum(len(token["content"]) ** 2 for token in added) > _MOST_OVERLAPS:
            self._refuse(next(iter(later.values())), True, "false, among so many and long tokens")
        for literal in _overlapping(first, later):
            wanted = "false, since it overlaps with a token of which that is false"
            self._refuse(later[literal], True, wanted)


def _id_of(item: object) -> object:
    return item.get("id") if isinstance(item, dict) else item


def _overlapping(first: Collection[str], later: Iterable[str]) -> Iterable[str]:
    """Yield the literals of `later` that can share a character of a text with one of `first`.

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


# Out


def json_bytes(vocabulary: Vocabulary) -> bytes:
    """Return the tokenizer.json of a vocabulary, which tokenizers reads from 0.13 on.

    Raises ValueError, saying why, if tokenizers would give other ids or texts.
    """
    text = json.dumps(_document(vocabulary), ensure_ascii=False, indent=1)
    return text.encode("utf-8") + b"\n"


def _document(vocabulary: Vocabulary) -> dict[str, Any]:
    texts = {id: to_characters(token) for id, token in vocabulary.ordinary_tokens.items()}
    if len(set(texts.values())) < len(texts):
        _cannot("has two ids of the same bytes")
    ids_of_texts = {text: id for id, text in texts.items()}
    for literal, id in vocabulary.special_tokens.items():
        if ids_of_texts.get(literal, id) != id or texts.get(id, literal) != literal:
            _cannot(f"has the special token {literal!r}, which is written as another token is")
        if not literal.isascii() and all(map(is_byte_character, literal)):
            _cannot(f"has the special token {literal!r}, which would be decoded as other bytes")
    pairs = [(texts[left], texts[right]) for left, right in vocabulary.merges]
    # As pairs they are read from 0.20 on only, as strings by all, but for those that look like the
    # first line of merges.txt.
    is_odd = any(left.startswith(_VERSION) for left, _ in pairs)
    merges = list(map(list, pairs)) if is_odd else list(map(" ".join, pairs))
    # Special tokens are in the vocab too: one that is not gets the next free id, whatever its own.
    ordinary = set(texts)
    texts |= {id: literal for literal, id in vocabulary.special_tokens.items()}
    in_vocab = sorted(texts)
    if vocabulary.kept_special_tokens and in_vocab[-1] < len(in_vocab):
        # Where it is its own, they are not: one that is kept, and in the vocab, 0.13 never finds.
        while in_vocab[-1] not in ordinary:
            in_vocab.pop()
    model: dict[str, Any] = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
    }
    if vocabulary.ignore_merges:
        model["ignore_merges"] = True  # older versions know no such field
    model["vocab"] = {texts[id]: id for id in in_vocab}
    model["merges"] = merges
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": id,
                "content": literal,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": literal not in vocabulary.kept_special_tokens,
            }
            for literal, id in sorted(vocabulary.special_tokens.items(), key=lambda item: item[1])
        ],
        "normalizer": {"type": vocabulary.normalizer} if vocabulary.normalizer else None,
        "pre_tokenizer": _pre_tokenizer((vocabulary.pattern, *vocabulary.more_patterns)),
        "post_processor": _post_processor(vocabulary, texts),
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False},
        "model": model,
    }


def _pre_tokenizer(patterns: tuple[str, ...]) -> dict[str, Any]:
    byte_level: dict[str, Any] = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": False,
        "use_regex": patterns[-1] == GPT2_PATTERN,
    }
    splits = []
    for pattern in patterns[:-1] if byte_level["use_regex"] else patterns:
        if pattern == EVERYTHING:
            continue
        check_shared(pattern)
        splits.append(
            {
                "type": "Split",
                "pattern": {"Regex": pattern},
                "behavior": "Isolated",
                "invert": False,
            }
        )
    return {"type": "Sequence", "pretokenizers": [*splits, byte_level]} if splits else byte_level


def _post_processor(vocabulary: Vocabulary, texts: Mapping[int, str]) -> dict[str, Any] | None:
    if not vocabulary.prefix_ids and not vocabulary.suffix_ids:
        return None
    around = vocabulary.prefix_ids, vocabulary.suffix_ids

    def single(sequence: str) -> list[dict[str, Any]]:
        before, after = (
            [{"SpecialToken": {"id": texts[id], "type_id": 0}} for id in ids] for ids in around
        )
        return [*before, {"Sequence": {"id": sequence, "type_id": 0}}, *after]

    return {
        "type": "TemplateProcessing",
        "single": single("A"),
        "pair": [*single("A"), *single("B")],
        "special_tokens": {
            texts[id]: {"id": texts[id], "ids": [id], "tokens": [texts[id]]}
            for ids in around
            for id in ids
        },
    }


def _cannot(what: str) -> NoReturn:
    raise ValueError(f"tokenizer.json cannot have this vocabulary: it {what}")


# The rest of a model folder


def read_settings(
    config_file: SourceFile, config: dict[str, Any], vocabulary: Vocabulary
) -> dict[str, str]:
    """Return what a tokenizer_config.json says that is worth keeping.

    Raises ValueError, naming the field and its value, for what changes ids or contradicts the
    vocabulary of the tokenizer.json beside it.
    """
    refuse = config_file.refuse
    for field, ids in (
        ("add_bos_token", vocabulary.prefix_ids),
        ("add_eos_token", vocabulary.suffix_ids),
    ):
        if config.get(field, False) and not ids:
            refuse(field, config[field], "false, since tokenizer.json puts nothing there")
    if config.get("add_prefix_space", False):
        refuse("add_prefix_space", config["add_prefix_space"], "false")
    decoder = config.get("added_tokens_decoder", {})
    if not isinstance(decoder, dict):
        refuse("added_tokens_decoder", decoder, "an object")
    for key, token in decoder.items():
        place = f"added_tokens_decoder[{shown(key)}]"
        content = token.get("content") if isinstance(token, dict) else None
        if not isinstance(content, str) or str(vocabulary.special_tokens.get(content)) != key:
            refuse(place, token, "an added token of tokenizer.json, with its id")
        for field in ("lstrip", "rstrip", "single_word"):
            if token.get(field, False):
                refuse(f"{place}.{field}", token[field], "false")
        if token.get("special", False) == (content in vocabulary.kept_special_tokens):
            refuse(f"{place}.special", token.get("special", False), "what tokenizer.json says")
    settings = {}
    for field in _CONFIG_TOKENS:
        token = config.get(field)
        literal = token.get("content") if isinstance(token, dict) else token
        if literal is None:
            continue
        if not isinstance(literal, str) or not is_encodable(literal):
            refuse(field, token, "a token")
        settings[field] = literal
    templates = config.get("chat_template")
    if isinstance(templates, list):
        for number, item in enumerate(templates):
            name = item.get("name") if isinstance(item, dict) else None
            key = "chat_template" if name == "default" else f"chat_template.{name}"
            if not name or not isinstance(name, str) or not is_encodable(name) or key in settings:
                refuse(f"chat_template[{number}]", item, "an object with a name of its own")
            settings[key] = item.get("template")
    elif templates is not None:
        settings["chat_template"] = templates
    for key, template in settings.items():
        if not isinstance(template, str) or not is_encodable(template):
            refuse(key, template, "a string in Unicode")
    return settings


def config_bytes(vocabulary: Vocabulary) -> bytes:
    """Return the tokenizer_config.json of a vocabulary, for transformers 4 and 5 alike."""
    config: dict[str, Any] = dict(vocabulary.settings)
    named = {
        key.partition(".")[2] or "default": config.pop(key)
        for key in vocabulary.settings
        if key.partition(".")[0] == "chat_template"
    }
    if named:
        config["chat_template"] = [
            {"name": name, "template": template} for name, template in named.items()
        ]
        if [*named] == ["default"]:
            config["chat_template"] = named["default"]
    config["clean_up_tokenization_spaces"] = False  # else version 4 takes spaces out when decoding
    config["tokenizer_class"] = "PreTrainedTokenizerFast"
    return json.dumps(config, ensure_ascii=False, indent=1).encode("utf-8") + b"\n"


def home_encode(tokenizer_json: str) -> Callable[[str], list[int]]:
    """Return how tokenizers encodes a text. Raises ImportError if it is not installed."""
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_str(tokenizer_json)

    def encode(text: str) -> list[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    return encode
