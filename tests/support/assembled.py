"""Random tokenizer.json files of every stage, which are compared with tokenizers.

Each file is loaded, saved and loaded again, and texts of its own literals and of hard characters
are encoded, decoded, streamed and cut. All ids and texts must equal the ids and texts of
tokenizers. If a file is refused, the reason is counted.
"""

from __future__ import annotations

import json
import random
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any
from unicodedata import combining

import tokenizers

from bpetite import PATTERNS, Tokenizer
from bpetite._tokenizer import vocabulary_of
from bpetite._unicode.byte_characters import to_characters
from bpetite._vocabulary import IMPOSSIBLE_BYTES
from bpetite.analysis import explain
from support.uncompared import load_uncompared

Document = dict[str, Any]

_BEHAVIORS = ("Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous")
_REGEXES = (
    *(r"\s+", r"\p{N}{1,3}", r"[^\s\p{L}\p{N}]+", r"\p{L}+|\P{L}", "[0-9][0-9][0-9]", "[一-龥]+"),
    *("-", r"'s|'t|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+", *PATTERNS.values()),
)
_LITERALS = (
    *("<s>", "</s>", "<a>", "<A>", "<mask>", "<|x|>", "<|x|>y", "x|>", "[MASK]", "a", "ab", " "),
    *("  ", "\n", " b", "b ", "é", "õ", "ÿ", "ＡＢ", "ﬁ", "e\u0301", "K", "\u212a", "12", "½"),
    *("|DSML|", "<|/t|>"),
)
_TEXT = (
    *"abcdABÉéeE \n\t.,-_'!?<>|12345½²Ⅷ१é漢字かな你好한국Ωςσİıſßﬁ\u00a0\u3000\u0301\u0323\u0308",
    *("<s>", "</s>", "<a>", "<mask>", "<|x|>", "  ", "ab", "abcd", "'s", "õ", "ÿ", "🙂"),
    *("\u1e9b\u0323", "\u0958", "\u212b", "\u1100\u1161\u11a8", "\x85", "\x1c", "\u200d", "\ua7dc"),
)  # fmt: skip


class Assembler:
    """Assembles files, and texts for them, from one source of random choices."""

    def __init__(self, rng: random.Random) -> None:
        self._random = rng
        self._choice = self._random.choice

    def _likely(self, chance: float) -> bool:
        return self._random.random() < chance

    def _some(self, values: Iterable[Any], most: int) -> list[Any]:
        values = list(values)
        return [self._choice(values) for _ in range(self._random.randint(0, most))]

    def document(self) -> Document:
        """Return a file as tokenizers writes it."""
        model = self._model()
        vocab = model["vocab"]
        added: list[Document] = []
        size = len(vocab)
        for literal in self._random.sample(_LITERALS, self._random.randint(0, 8)):
            new = sum(each["content"] not in vocab for each in added)
            added.append(
                {
                    "id": vocab.get(literal, size + new),
                    "content": literal,
                    "single_word": self._likely(0.15),
                    "lstrip": self._likely(0.25),
                    "rstrip": self._likely(0.25),
                    "normalized": self._likely(0.4),
                    "special": self._likely(0.6),
                }
            )
        added.sort(key=lambda token: token["id"])
        return {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": added,
            "normalizer": self._normalizer(),
            "pre_tokenizer": self._pre_tokenizer(),
            "post_processor": self._post_processor(vocab),
            "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True},
            "model": model,
        }

    def _model(self) -> Document:
        prefix = self._choice(["##", "@"]) if self._likely(0.15) else ""
        suffix = self._choice(["</w>", "_"]) if self._likely(0.2) else ""
        absent = {*self._some(range(256), 20)} if self._likely(0.2) else set()
        if self._likely(0.3):
            absent |= {*IMPOSSIBLE_BYTES}
        unknown = "<unk>" if self._likely(0.5) or prefix or suffix else None
        starts = [("", ""), ("", suffix), (prefix, ""), (prefix, suffix)]
        firsts = [
            start + to_characters(bytes([byte])) + end
            for start, end in dict.fromkeys(starts)
            for byte in range(256)
            if byte not in absent
        ]
        self._random.shuffle(firsts)
        tokens = dict.fromkeys(firsts)
        if unknown:
            tokens[unknown] = None
        merges: list[tuple[str, str]] = []
        usual = [each for each in firsts if set(each) <= set("abcdABe12Ġ.,Ã©##@</w>_Ċ")]
        for _ in range(self._random.randint(0, 60)):
            left, right = self._choice(usual), self._choice(usual)
            if (suffix and left.endswith(suffix)) or not right.startswith(prefix):
                continue
            made = left + right[len(prefix) :]
            if (left, right) not in merges and len(made) < 24:
                merges.append((left, right))
                tokens[made] = None
                usual.append(made)
        if self._likely(0.3):
            tokens |= dict.fromkeys(self._some(["zz", "abcdzz", "Ġzz", "õõ"], 2))
        if self._likely(0.1):
            tokens[""] = None
        if self._likely(0.2):
            tokens |= dict.fromkeys(self._some(_LITERALS, 3))
        spell: Any = self._choice([list, " ".join])
        return {
            "type": "BPE",
            "dropout": None,
            "unk_token": unknown,
            "continuing_subword_prefix": prefix or self._choice([None, ""]),
            "end_of_word_suffix": suffix or self._choice([None, ""]),
            "fuse_unk": self._likely(0.5),
            "byte_fallback": False,
            "ignore_merges": self._likely(0.2),
            "vocab": {token: id for id, token in enumerate(tokens)},
            "merges": [*map(spell, merges)],
        }

    def _normalizer(self) -> Document | None:
        kinds = ("NFC", "NFKC", "NFD", "NFKD", "Lowercase", "Replace", "Strip", "Prepend")
        stages: list[Document] = []
        for kind in self._some(kinds, 3) if self._likely(0.5) else ():
            stage: Document = {"type": kind}
            if kind == "Strip":
                stage |= {"strip_left": self._likely(0.5), "strip_right": self._likely(0.5)}
            elif kind == "Prepend":
                stage["prepend"] = self._choice(["_", " ", "▁", "ab"])
            elif kind == "Replace":
                stage["pattern"] = self._pattern()
                stage["content"] = self._choice(["", " ", "▁", "b", "\\1 $0"])
            stages.append(stage)
        if len(stages) == 1 and self._likely(0.5):
            return stages[0]
        none = None if self._likely(0.5) else {"type": "Sequence", "normalizers": []}
        return {"type": "Sequence", "normalizers": stages} if stages else none

    def _pattern(self) -> Document:
        if self._likely(0.3):
            return {"String": self._choice(["b", " ", "c.", "  ", "ab", "\n", "é"])}
        return {"Regex": self._choice(_REGEXES)}

    def _pre_tokenizer(self) -> Document:
        level: Document = {
            "type": "ByteLevel",
            "add_prefix_space": self._likely(0.3),
            "trim_offsets": self._likely(0.5),
            "use_regex": self._likely(0.5),
        }
        if self._likely(0.3):
            return level
        before = [self._stage() for _ in range(self._choice([0, 1, 1, 2]))]
        after = [self._stage() for _ in range(self._choice([0, 0, 0, 1, 2]))]
        return {"type": "Sequence", "pretokenizers": [*before, level, *after]}

    def _stage(self) -> Document:
        kind = self._choice(
            ["Split", "Split", "Split", "Digits", "Punctuation", "Whitespace", "WhitespaceSplit"]
        )
        if kind == "Split":
            behavior = self._choice(_BEHAVIORS)
            split: Document = {"type": kind, "pattern": self._pattern(), "behavior": behavior}
            return {**split, "invert": self._likely(0.4)}
        if kind == "Digits":
            return {"type": kind, "individual_digits": self._likely(0.5)}
        if kind == "Punctuation":
            return {"type": kind, "behavior": self._choice(_BEHAVIORS)}
        return {"type": kind}

    def _post_processor(self, vocab: dict[str, int]) -> Document | None:
        if self._likely(0.6):
            return None
        pair = [*self._choice([*vocab.items()])], [*self._choice([*vocab.items()])]
        kind = self._choice(["RobertaProcessing", "BertProcessing"])
        stage: Document = {"type": kind, "sep": pair[0], "cls": pair[1]}
        if kind == "RobertaProcessing":
            stage |= {"trim_offsets": True, "add_prefix_space": self._likely(0.5)}
        return stage

    def text(self, document: Document) -> str:
        """Return a text of characters, tokens and literals that a file may treat specially."""
        literals = [token["content"] for token in document["added_tokens"]]
        parts = [*_TEXT, *literals, *literals]
        return "".join(self._some(parts, self._choice([3, 12, 40])))


_TEXTS = 12
"""The number of texts for each file."""

_STEP_CHARACTERS = 3
_CHUNK_TOKENS = 40


class Checker:
    """Compares assembled files with tokenizers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.counts: Counter[str] = Counter()
        """The number of texts compared, and how often each refusal was given."""

    def faults(self, rng: random.Random) -> Iterator[str]:
        """Yield the faults of one file and its texts."""
        assembler = Assembler(rng)
        document = assembler.document()
        path = self._folder / "tokenizer.json"
        path.write_text(json.dumps(document), encoding="utf-8")
        library = tokenizers.Tokenizer.from_file(str(path))
        try:
            tokenizer = load_uncompared(path)
        except ValueError as error:
            reason = re.sub(r"^.*tokenizer.json: |\[\d+\]|'.*'|got .*", "", str(error))
            self.counts[f"refused: {reason}"] += 1
            return
        saved, again = self._saved(tokenizer)
        if saved is not None and saved != tokenizer:
            yield "the saved file has another vocabulary"
        for _ in range(_TEXTS):
            text = assembler.text(document)
            ids = ids_of(library, text)
            if ids is None:
                continue
            self.counts["texts"] += 1
            yield from (
                f"{name} of {text!r}"
                for name, is_right in self._claims(tokenizer, library, again, document, text, ids)
                if not is_right
            )

    def _saved(self, tokenizer: Tokenizer) -> tuple[Tokenizer | None, tokenizers.Tokenizer | None]:
        """Save a tokenizer; return the tokenizer that bpetite loads, and the one of tokenizers."""
        tokenizer.save(self._folder / "bpetite.json", overwrite=True)
        if Tokenizer.load(self._folder / "bpetite.json") != tokenizer:
            return Tokenizer.train("", 256), None
        folder = self._folder / "saved"
        try:
            tokenizer.save(folder, overwrite=True, format="huggingface")
        except ValueError as error:
            self.counts[f"refused: save: {str(error).rpartition(':')[2][:60]}"] += 1
            return None, None
        path = folder / "tokenizer.json"
        return load_uncompared(path), tokenizers.Tokenizer.from_file(str(path))

    def _claims(
        self,
        tokenizer: Tokenizer,
        library: tokenizers.Tokenizer,
        again: tokenizers.Tokenizer | None,
        document: Document,
        text: str,
        ids: list[int],
    ) -> Iterator[tuple[str, bool]]:
        """Yield the name of each claim about a text, and whether it holds."""
        yield "encode", tokenizer.encode(text) == ids
        yield "encode of UTF-8", tokenizer.encode(text.encode(), dtype="uint32").tolist() == ids
        yield "encode_batch", tokenizer.encode_batch([text, "a"])[0] == ids
        yield "count", tokenizer.count(text) == len(ids)
        framed = tokenizer.encode(text, add_special_tokens=True)
        yield "special tokens", framed == library.encode(text).ids
        ids_found, offsets = tokenizer.encode_with_offsets(text)
        found = library.encode(text, add_special_tokens=False)
        yield "ids with offsets", ids_found == ids
        # tokenizers miscounts dropped bytes, and gives other offsets for marks that a normal form
        # reorders and for text that replaces several characters.
        others = str([document["normalizer"], document["post_processor"]])
        is_alike = not any(map(combining, text)) and not re.search("Replace|trim_offsets", others)
        if is_alike and not vocabulary_of(tokenizer).stages.drops_unknown:
            yield "offsets", offsets == [start for start, _ in found.offsets]
        parts = [text[:_STEP_CHARACTERS], text[_STEP_CHARACTERS:]]
        with suppress(ValueError):  # special tokens of normalized text
            part_ids, part_starts = tokenizer.encode_parts(parts, guard=())
            expected, begins = tokenizer.encode_with_offsets(text, allowed_special=())
            yield "encode_parts", part_ids == expected
            second = bisect_left(begins, len(parts[0])) if parts[0] else 0
            yield "starts of parts", part_starts == [0, second, len(expected)]
        if again is not None:
            yield "the saved file", again.encode(text, add_special_tokens=False).ids == ids
        # From version 0.23 on, tokenizers decodes a normalized literal to its normal form.
        if not any(token["normalized"] for token in document["added_tokens"]):
            decoded = tokenizer.decode(ids, errors="replace")
            yield "decode", decoded == library.decode(ids, skip_special_tokens=False)
        stream = tokenizer.encode_stream()
        starts = range(0, len(text), _STEP_CHARACTERS)
        steps = [stream.step(text[start : start + _STEP_CHARACTERS]) for start in starts]
        yield "encode_stream", [*chain.from_iterable(steps), *stream.flush()] == ids
        pieces = [*explain(tokenizer, text)]
        yield "explain", list(chain.from_iterable(piece.ids for piece in pieces)) == ids
        if not document["model"].get("ignore_merges"):
            yield "merges", not any(piece.kind == "whole" for piece in pieces)
        prompt = tokenizer.prompt()
        for start in reversed(starts):  # the text grows at its beginning
            prompt.set(text[start:])
        yield "prompt", prompt.ids() == ids
        yield "fits", tokenizer.fits(text, len(ids))
        yield "fits in less", not (ids and tokenizer.fits(text, len(ids) - 1))
        beginning = tokenizer.truncate(text, len(ids) // 2)
        yield "truncate", text.startswith(beginning)
        yield "truncate", tokenizer.count(beginning) <= len(ids) // 2
        with suppress(ValueError):  # one character has too many tokens
            chunks = [*tokenizer.chunks(text, _CHUNK_TOKENS)]
            yield "chunks", "".join(chunk.text for chunk in chunks) == text
            yield "ids of chunks", all(tokenizer.encode(each.text) == each.ids for each in chunks)


def ids_of(library: tokenizers.Tokenizer, text: str) -> list[int] | None:
    """Return the ids of tokenizers; None for a text on which it panics."""
    try:
        ids: list[int] = library.encode(text, add_special_tokens=False).ids
    except BaseException as error:  # no module exports the type of a panic
        if type(error).__name__ != "PanicException":
            raise
        return None
    return ids
