"""Give random vocabularies and input to `bpetite.tiktoken` and to tiktoken, and compare.

`scripts/fuzz door` runs this. Each round makes both Encodings of one vocabulary, which at times is
public or has wrong arguments. Then all methods get random texts, ids and options. All results must
be equal, and errors must have equal classes. Calls in which tiktoken panics are only counted.

The vocabularies avoid cases that tiktoken leaves undetermined: special tokens that begin others,
two tokens of one rank, and patterns that omit text. An id of two special tokens is not decoded.

A difference is printed with its seed, and the exit code is 1.
"""

from __future__ import annotations

import os
import random
import sys
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from operator import attrgetter, methodcaller
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any, NamedTuple

import numpy as np
import tiktoken
from tools.public import public_encoding
from tools.shrink import shrunk

import bpetite.tiktoken as door
from bpetite import PATTERNS, Tokenizer
from fuzzing.inputs import Subject, any_text, mixed_texts
from fuzzing.rounds import parser_of, run

Call = Callable[[Any], Any]

PUBLIC = ("gpt2", "cl100k_base", "o200k_base", "o200k_harmony")
"""Vocabularies that need files; the last one has two special tokens with one id."""

LITERALS = ("<|endoftext|>", "<|a|>", "<|b|>", "\n \n", "é🙂")
UNKNOWN = ("<|unknown|>", "a", "<|", "")
ODD_TEXTS: tuple[Any, ...] = (None, b"a", 5, ["a"], bytearray(b"a"))
ODD_IDS: tuple[Any, ...] = (-1, 2**32, 2**70, True, "1", 1.0, None, 2**32 - 1)
ERRORS = ("replace", "strict", "ignore", "backslashreplace", "surrogateescape", "unknown")
PANIC = "a panic"

CALLS_PER_ROUND = 60
MAX_TEXT_CHARACTERS = 20_000
MAX_UNSTABLE_CHARACTERS = 40


class Pair(NamedTuple):
    """tiktoken's Encoding and ours, with the material from which their input is made."""

    theirs: Any
    ours: Any
    subject: Subject
    literals: Sequence[str]
    ids: Sequence[int]


# Vocabularies


@cache
def trained(pattern: str) -> Sequence[bytes]:
    """Return the tokens of a vocabulary."""
    texts = [*list(topics.values())[:25], *mixed_texts()]
    tokenizer = Tokenizer.train(texts, 600, pattern=pattern, special_tokens=())
    return tokenizer.tokens


def any_arguments(rng: random.Random) -> dict[str, Any]:
    """Return the arguments of an Encoding."""
    name = rng.choice(["gpt2", "cl100k", "o200k"])
    tokens = [*trained(name)]
    if rng.random() < 0.4:  # tokens that merges may never make
        alphabet = rng.choice([b"ab \n", b"aeth ", "é你🙂 ".encode()])
        made = {bytes(rng.choices(alphabet, k=rng.randint(2, 6))) for _ in range(40)}
        tokens = [*tokens[:256], *sorted(made)]
    ids = [*range(len(tokens))]
    if rng.random() < 0.4:  # any order, with gaps
        ids = rng.sample(range(2 * len(tokens)), len(tokens))
    end = max(ids) + 1
    pattern = rng.choice([PATTERNS[name], r"[^ ]+| +", r"[\s\S]"])
    specials: dict[str, int] = {}
    for literal in rng.sample(LITERALS, rng.randint(0, len(LITERALS))):
        free, taken = end + len(specials), [*specials.values(), *ids[:1]]
        specials[literal] = rng.choice([free, free, free, free + 100, rng.choice(taken)])
    arguments: dict[str, Any] = {
        "name": "random",
        "pat_str": pattern,
        "mergeable_ranks": dict(zip(tokens, ids, strict=True)),
        "special_tokens": specials,
    }
    if rng.random() < 0.3:
        total = len(tokens) + len(specials)
        arguments["explicit_n_vocab"] = rng.choice([total, total, total + 1, 0, None])
    return arguments


def any_pair(rng: random.Random, data: Path | None, counts: Counter[str]) -> Pair | None:
    """Return both Encodings of a vocabulary, None if both refuse it; exit if only one does."""
    if data is not None and rng.random() < 0.3:
        return public_pair(rng.choice(PUBLIC), data)
    arguments = any_arguments(rng)
    made: list[Any] = []

    def make(module: Any) -> None:
        made.append(module.Encoding(**arguments))

    counts["vocabularies"] += 1
    theirs, ours = outcome(make, tiktoken), outcome(make, door)
    if theirs != ours:
        sys.exit(f"Encoding({arguments}): {ours} here, {theirs} in tiktoken")
    if theirs is not None:
        counts["vocabularies, refused"] += 1
        return None
    return pair_of(*made)


@cache
def public_pair(name: str, data: Path) -> Pair:
    """Return both Encodings of a public vocabulary."""
    theirs = public_encoding(name, data)
    ours = door.Encoding(
        name,
        pat_str=theirs._pat_str,
        mergeable_ranks=theirs._mergeable_ranks,
        special_tokens=theirs._special_tokens,
    )
    return pair_of(theirs, ours)


def pair_of(theirs: Any, ours: Any) -> Pair:
    """Return two Encodings with the material for their input."""
    specials: Mapping[str, int] = theirs._special_tokens
    ids = Counter([*specials.values(), *theirs._mergeable_ranks.values()])
    subject = Subject(theirs.name, {}, ours._tokenizer)
    return Pair(theirs, ours, subject, [*specials], [id for id, uses in ids.items() if uses == 1])


# Calls


def any_options(rng: random.Random, pair: Pair) -> dict[str, Any]:
    """Return options of special tokens."""
    options: dict[str, Any] = {}
    known = (*pair.literals, *UNKNOWN)

    def some() -> list[str]:
        return rng.sample(known, rng.randint(0, min(4, len(known))))

    if rng.random() < 0.7:
        options["allowed_special"] = rng.choice(["all", set(), set(some()), frozenset(some())])
    if rng.random() < 0.7:
        options["disallowed_special"] = rng.choice(["all", (), some(), set(some()), tuple(some())])
    return options


def any_string(rng: random.Random, pair: Pair) -> Any:
    """Return a text, at times with special literals or surrogates, or rarely another object."""
    if rng.random() < 0.02:
        return rng.choice(ODD_TEXTS)
    parts = [any_text(rng, pair.subject, [*topics.values()])[:MAX_TEXT_CHARACTERS]]
    while rng.random() < 0.3:
        odd = rng.choice(["\ud83d", "\udc4d", "\ud83d\udc4d", *pair.literals, *UNKNOWN])
        at = rng.randint(0, len(parts[0]))
        parts[0] = parts[0][:at] + odd + parts[0][at:]
    return parts[0]


def any_tokens(rng: random.Random, pair: Pair) -> Any:
    """Return ids in a sequence, at times with an unknown id or another object among them."""
    ids: list[Any] = rng.choices(pair.ids, k=rng.randint(0, 20))
    if rng.random() < 0.5:
        ids = pair.theirs.encode_ordinary(any_text(rng, pair.subject, [*topics.values()])[:200])
    if rng.random() < 0.15:
        unknown = [*ODD_IDS, pair.theirs.max_token_value + 1]
        ids.insert(rng.randint(0, len(ids)), rng.choice(unknown))
    sequences: list[Any] = [ids, tuple(ids)]
    with suppress(TypeError, OverflowError, ValueError):
        sequences += [array("Q", ids), np.array(ids)]
    return rng.choice(sequences)


def calls(rng: random.Random, pair: Pair) -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """Yield calls: the name of a method, its arguments and its options."""
    text, ids, options = any_string(rng, pair), any_tokens(rng, pair), any_options(rng, pair)
    texts = [any_string(rng, pair) for _ in range(rng.randint(0, 4))]
    threads = rng.choice([{}, {"num_threads": rng.choice([1, 2, 3, 0])}])
    errors = rng.choice(ERRORS)
    one: Any = rng.choice([*pair.ids[:9], *pair.ids[-9:], *ODD_IDS])
    yield "encode", (text,), options
    yield "encode", (text,), {}
    yield "encode_ordinary", (text,), {}
    yield "encode_to_numpy", (text,), options
    yield "encode_batch", (texts,), {**options, **threads}
    yield "encode_ordinary_batch", (texts,), threads
    if isinstance(text, str):
        data = text.encode("utf-8", "surrogatepass")
        cut = data[rng.randint(0, 4) : len(data) - rng.randint(0, 4)][:2000]
        yield "_encode_bytes", (cut,), {}
        yield "_encode_only_native_bpe", (text,), {}
        if text:
            yield "_encode_single_piece", (text[:500],), {}
            yield "_encode_single_piece", (data[1:500] or b"a",), {}
            yield "encode_single_token", (text[: rng.randint(1, 5)],), {}
        if pair.theirs.name not in PUBLIC or rng.random() < 0.02:
            yield "encode_with_unstable", (text[:MAX_UNSTABLE_CHARACTERS],), options
    token = rng.choice(pair.subject.tokens)
    yield "encode_single_token", (rng.choice([token, token[1:], *pair.literals, *ODD_TEXTS]),), {}
    yield "decode", (ids,), {}
    yield "decode", (ids, errors), {}
    yield "decode_bytes", (ids,), {}
    yield "decode_tokens_bytes", (ids,), {}
    yield "decode_with_offsets", (ids,), {}
    yield "decode_batch", ([ids, [*ids][:3]],), {"errors": errors, **threads}
    yield "decode_bytes_batch", ([ids, []],), threads
    yield "decode_single_token_bytes", (one,), {}
    yield "is_special_token", (one,), {}


VALUES = ("name", "n_vocab", "max_token_value", "eot_token", "special_tokens_set")
"""Attributes."""


def outcome(call: Call, encoding: Any) -> Any:
    """Return the result of a call in a form that can be compared, or the class of its error."""
    try:
        result = call(encoding)
    except Exception as error:
        return type(error)
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        return PANIC
    if isinstance(result, np.ndarray):
        return result.dtype, result.tolist()
    return result


def compared(name: str, call: Call, pair: Pair, counts: Counter[str]) -> str | None:
    """Return a description of the difference between two outcomes."""
    theirs, ours = outcome(call, pair.theirs), outcome(call, pair.ours)
    if theirs == PANIC:
        counts["calls in which tiktoken panics"] += 1
        return None
    counts["comparisons"] += 1
    counts[f"{name}, {'errors' if isinstance(theirs, type) else 'results'}"] += 1
    if name == "encode_with_unstable" and isinstance(theirs, tuple) and isinstance(ours, tuple):
        theirs, ours = ((ids, {*map(tuple, found)}) for ids, found in (theirs, ours))
    if theirs == ours and type(theirs) is type(ours):
        return None
    return f"{ascii(ours)[:2000]} here, {ascii(theirs)[:2000]} in tiktoken"


def difference(seed: int, data: Path | None, counts: Counter[str]) -> str | None:
    """Do the round of a seed; return a description of a difference."""
    rng = random.Random(seed)
    pair = any_pair(rng, data, counts)
    if pair is None:
        return None
    named: list[tuple[str, Call]] = [(name, attrgetter(name)) for name in VALUES]
    named.append(("token_byte_values", methodcaller("token_byte_values")))
    for name, call in named:
        if found := compared(name, call, pair, counts):
            return f"{name}: {found}"
    done = 0
    while done < CALLS_PER_ROUND:
        for name, (argument, *others), options in calls(rng, pair):
            done += 1

            def fault(
                argument: Any, name: str = name, others: Any = others, options: Any = options
            ) -> str | None:
                call = methodcaller(name, argument, *others, **options)
                return compared(name, call, pair, counts)

            if fault(argument):
                if isinstance(argument, str | bytes | list):
                    argument = shrunk(argument, lambda less: fault(less) is not None)
                shown = f"{name}({ascii(argument)[:2000]}, {others}, {options})"
                return f"{pair.subject.name}: {shown}: {fault(argument)}"
    return None


def main() -> None:
    """Compare until time is up or a result differs."""
    parser = parser_of("door", __doc__)
    parser.add_argument(
        "--data", type=Path, metavar="FOLDER", help="a folder with files of public vocabularies"
    )
    options = parser.parse_args()
    # tiktoken's panics write to file 2, and are counted; messages of Python stay visible.
    sys.stderr = os.fdopen(os.dup(2), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    counts: Counter[str] = Counter()
    print(f"tiktoken {tiktoken.__version__}", flush=True)
    run(options, lambda seed: difference(seed, options.data, counts), counts)


if __name__ == "__main__":
    main()
