"""`bpetite.transformers.Tokenizer`, and `accelerate`: transformers' classes over an `Engine`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial, wraps
from inspect import signature
from itertools import chain
from typing import Any, Self, TypeVar

import tokenizers
import transformers
from transformers import BatchEncoding, PreTrainedTokenizerFast
from transformers.data.data_collator import pad_without_fast_tokenizer_warning
from transformers.tokenization_utils_base import TruncationStrategy
from transformers.utils import PaddingStrategy

from bpetite.formats._reference import PROBE
from bpetite.transformers._columns import Call, Columns, columns_of
from bpetite.transformers._engine import Engine, Engines

AnyTokenizer = TypeVar("AnyTokenizer", bound=PreTrainedTokenizerFast)

if int(transformers.__version__.partition(".")[0]) < 5:
    raise ImportError(
        f"bpetite.transformers needs transformers 5, got {transformers.__version__}; "
        "run: pip install 'transformers>=5'"
    )

USUAL = {
    *("add_special_tokens", "padding_strategy", "truncation_strategy", "max_length", "verbose"),
    *("pad_to_multiple_of", "padding_side", "return_tensors", "return_attention_mask"),
    *("split_special_tokens", "return_token_type_ids", "return_special_tokens_mask"),
    *("return_offsets_mapping", "return_overflowing_tokens", "stride"),
}
"""The options of a usual call. Any other option must be false in it."""

SIDES: tuple[str, ...] = "left", "right"

READ: dict[str, Callable[[Any], bool]] = {
    "add_special_tokens": lambda value: type(value) is bool,
    "is_split_into_words": lambda value: type(value) is bool,
    "split_special_tokens": lambda value: value is None or type(value) is bool,
    "max_length": lambda value: value is None or (type(value) is int and value in range(2**31)),
    "stride": lambda value: type(value) is int and value in range(2**31),
    "pad_to_multiple_of": lambda value: value is None or (type(value) is int and 0 < value < 2**31),
    "padding_side": lambda value: value is None or (type(value) is str and value in SIDES),
}
"""Whether an option's value is read here as by the library, which takes or refuses the others."""


def _settled(name: str) -> Callable[..., Any]:
    """Return a method that calls of a program begin with, before the class can change a stage."""
    method = getattr(PreTrainedTokenizerFast, name)

    @wraps(method)
    def run(self: Accelerated, *arguments: Any, **options: Any) -> Any:
        self._known().settle(self._tokenizer)
        return method(self, *arguments, **options)

    return run


class Accelerated(PreTrainedTokenizerFast):  # type: ignore[misc]
    """The class that `accelerate` puts between a tokenizer's class and transformers' own.

    It answers usual calls, and leaves all others to transformers.
    """

    _engines: Engines | None = None

    def _known(self) -> Engines:
        """Return the engines, which are this tokenizer's own."""
        engines = self._engines
        if engines is None:
            engines = self._engines = Engines()
        return engines

    def _engine(self) -> Engine | None:
        """Return the engine; None if the library has to answer this call."""
        return self._known().find(self._tokenizer)

    __call__, encode, decode = map(_settled, ("__call__", "encode", "decode"))

    def _add_tokens(self, new_tokens: Any, special_tokens: bool = False) -> int:
        before = repr(self._tokenizer.get_added_tokens_decoder())
        count: int = super()._add_tokens(new_tokens, special_tokens)
        if count or repr(self._tokenizer.get_added_tokens_decoder()) != before:
            self._engines = None
        return count

    # Encoding

    def _encode_plus(self, text: Any, text_pair: Any = None, **options: Any) -> BatchEncoding:
        encoding = None
        if isinstance(text, str):
            texts = ([text], [text_pair]) if text_pair else ([text],)
            encoding = self._usual(texts, options, is_batch=False)
        elif isinstance(text, (list, tuple)):
            texts = ([*text],) if text_pair is None else ([*text], [*text_pair])
            encoding = self._usual(texts, options)
        return encoding or super()._encode_plus(text, text_pair, **options)

    def _usual(
        self, texts: Sequence[list[Any]], options: dict[str, Any], is_batch: bool = True
    ) -> BatchEncoding | None:
        """Return the result of a usual call; None for another call."""
        types = {type(text) for each in texts for text in each}
        if types != {str} or len({*map(len, texts)}) != 1:
            return None
        if not all(READ[name](value) for name, value in options.items() if name in READ):
            return None
        given = {name: value for name, value in options.items() if value is not None}
        padding = given.get("padding_strategy", PaddingStrategy.DO_NOT_PAD)
        pads = padding is not PaddingStrategy.DO_NOT_PAD
        # `pad` pads the first of these names with the id.
        if (pads and self.model_input_names[0] != "input_ids") or any(
            value for name, value in given.items() if name not in USUAL
        ):
            return None
        engine = None if "encode_batch" in vars(self._tokenizer) else self._engine()
        if engine is None:
            return None
        call = self._call(given)
        columns = columns_of(engine, texts, call)
        if columns is None:
            return None
        rows = columns["input_ids"]
        self._eventual_warn_about_too_long_sequence(
            max(rows, key=len), call.max_length, given.get("verbose", True)
        )
        if pads:
            columns = self._padded(columns, padding, given)
        tensors = given.get("return_tensors")
        if not is_batch and tensors is None and not call.overflows:
            columns = {name: rows[0] for name, rows in columns.items()}
        make = partial(self._encodings, engine, texts, options)
        encodings = Encodings(make, len(rows))
        return BatchEncoding(columns, encodings, tensor_type=tensors, n_sequences=len(texts))

    def _call(self, given: dict[str, Any]) -> Call:
        """Return the options of a usual call."""
        names = self.model_input_names
        wanted = {
            "token_type_ids": given.get("return_token_type_ids", "token_type_ids" in names),
            "attention_mask": given.get("return_attention_mask", "attention_mask" in names),
            "special_tokens_mask": given.get("return_special_tokens_mask"),
            "offset_mapping": given.get("return_offsets_mapping"),
        }
        truncation = given.get("truncation_strategy", TruncationStrategy.DO_NOT_TRUNCATE)
        truncates = truncation is not TruncationStrategy.DO_NOT_TRUNCATE
        return Call(
            names=[name for name, is_wanted in wanted.items() if is_wanted],
            is_framed=given.get("add_special_tokens", True),
            splits_special=bool(given.get("split_special_tokens", self.split_special_tokens)),
            max_length=given.get("max_length"),
            truncation=truncation.value if truncates else None,
            truncation_side=self.truncation_side,
            overflows=bool(given.get("return_overflowing_tokens")),
            stride=given.get("stride", 0),
        )

    def _padded(self, columns: Columns, padding: Any, given: dict[str, Any]) -> Columns:
        """Return padded columns, as arrays if tensors are wanted, which is faster than lists."""
        padded = pad_without_fast_tokenizer_warning(
            self,
            columns,
            padding=padding,
            max_length=given.get("max_length"),
            pad_to_multiple_of=given.get("pad_to_multiple_of"),
            padding_side=given.get("padding_side"),
            return_attention_mask="attention_mask" in columns,
        )
        sizes = [*map(len, padded["input_ids"])]
        if "offset_mapping" in columns:  # `pad` leaves offsets as they are
            is_left = given.get("padding_side", self.padding_side) == "left"
            padded["offset_mapping"] = [
                [(0, 0)] * (size - len(row)) + row
                if is_left
                else row + [(0, 0)] * (size - len(row))
                for row, size in zip(columns["offset_mapping"], sizes, strict=True)
            ]
        if str(given.get("return_tensors")) in ("np", "pt") and len({*sizes}) == 1:
            import numpy as np

            for name in {*padded} - {"offset_mapping", "overflow_to_sample_mapping"}:
                ids = np.fromiter(chain.from_iterable(padded[name]), np.int64, sum(sizes))
                padded[name] = ids.reshape(len(sizes), -1)
        return dict(padded)

    def _encodings(
        self, engine: Engine, texts: Sequence[list[str]], options: dict[str, Any]
    ) -> list[tokenizers.Encoding]:
        """Return the library's encodings of a usual call.

        Raises RuntimeError if the tokenizer has changed since the call.
        """
        if self._engine() is not engine:
            raise RuntimeError(
                "the tokenizer has changed since this call; ask for words and tokens before that"
            )
        options = {**options, "return_tensors": None, "verbose": False}
        return list(super()._encode_plus(*texts, **options).encodings)

    # Decoding

    def _decode(
        self,
        token_ids: Any,
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
        **others: Any,
    ) -> str:
        ids = [token_ids] if isinstance(token_ids, int) else token_ids
        texts = self._texts([ids], skip_special_tokens, clean_up_tokenization_spaces, others)
        if texts is not None:
            return texts[0]
        options = {"clean_up_tokenization_spaces": clean_up_tokenization_spaces, **others}
        return str(super()._decode(token_ids, skip_special_tokens, **options))

    def batch_decode(
        self,
        sequences: Any,
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
        **others: Any,
    ) -> list[str]:
        """Return the text of each list of ids, as transformers does."""
        self._known().settle(self._tokenizer)
        cls = type(self)
        if (
            cls._decode is Accelerated._decode
            and cls.decode is Accelerated.decode
            and not vars(self).keys() & {"decode", "_decode"}
        ):
            found = self._texts(
                sequences, skip_special_tokens, clean_up_tokenization_spaces, others
            )
            if found is not None:
                return found
        options = {"clean_up_tokenization_spaces": clean_up_tokenization_spaces, **others}
        texts: list[str] = super().batch_decode(sequences, skip_special_tokens, **options)
        return texts

    def _texts(
        self, rows: Any, skip_special_tokens: bool, cleans: bool | None, others: dict[str, Any]
    ) -> list[str] | None:
        """Return the text of each list of ids; None to leave the call to transformers."""
        if type(rows) is not list or {*map(type, rows)} != {list} or any(others.values()):
            return None
        engine = None if "decode" in vars(self._tokenizer) else self._engine()
        if engine is None or type(skip_special_tokens) is not bool:
            return None
        try:
            texts = engine.tokenizer.decode_batch(
                rows, errors="replace", skip_special_tokens=skip_special_tokens
            )
        except (KeyError, TypeError):
            return None
        if not (self.clean_up_tokenization_spaces if cleans is None else cleans):
            return texts
        # transformers only warns, unless the tokenizer insists.
        name = "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output"
        if getattr(self, name, True):
            return [*map(self.clean_up_tokenization, texts)]
        super()._decode([], clean_up_tokenization_spaces=True)
        return texts


class Encodings(Sequence[tokenizers.Encoding]):
    """The encodings of a call, which are made when one of them is first asked for."""

    def __init__(self, make: Callable[[], list[tokenizers.Encoding]], size: int) -> None:
        self._make = make
        self._size = size
        self._made: list[tokenizers.Encoding] | None = None

    def _all(self) -> list[tokenizers.Encoding]:
        if self._made is None:
            self._made = self._make()
        return self._made

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (self._all(),)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: Any) -> Any:
        return self._all()[index]


class Tokenizer(Accelerated):
    """A tokenizer of transformers whose ids and texts come from this package.

    As usual, `from_pretrained` makes it, from a folder with a tokenizer.json.

    >>> from tempfile import mkdtemp
    >>> import bpetite
    >>> folder = mkdtemp()
    >>> bpetite.Tokenizer.train("ab ab ab", 258).save(f"{folder}/")
    >>> tokenizer = Tokenizer.from_pretrained(folder)
    >>> tokenizer.pad_token = "<|endoftext|>"
    >>> tokenizer(["ab ab", "ab"], padding=True, padding_side="left").input_ids
    [[256, 257], [258, 256]]
    """

    @classmethod
    def convert_to_native_format(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the arguments of which transformers makes any class: those of the file."""
        found: dict[str, Any]
        found = PreTrainedTokenizerFast.convert_to_native_format(*args, **kwargs)
        return found

    @classmethod
    def from_pretrained(cls, *args: Any, **kwargs: Any) -> Self:
        """Return the tokenizer of a folder; the arguments are the same as in transformers.

        Raises ValueError, with the field, for a tokenizer.json that cannot be honoured, and the
        errors of transformers.
        """
        tokenizer: Self = super().from_pretrained(*args, **kwargs)
        tokenizer._known().read(tokenizer._tokenizer)
        return tokenizer


# A saved folder names the class, so that AutoTokenizer finds it.
Tokenizer.__name__ = PreTrainedTokenizerFast.__name__


def accelerate(tokenizer: AnyTokenizer) -> AnyTokenizer:
    """Give the engine of this package to a loaded tokenizer, and return it.

    It stays the same object, but gets a subclass with the same name. Tokens that are added later,
    and other changes of its parts, take effect at the next call.

    >>> from transformers import PreTrainedTokenizerFast
    >>> import bpetite
    >>> from tempfile import mkdtemp
    >>> folder = mkdtemp()
    >>> bpetite.Tokenizer.train("ab ab ab", 258).save(f"{folder}/")
    >>> tokenizer = accelerate(PreTrainedTokenizerFast.from_pretrained(folder))
    >>> tokenizer("ab ab").input_ids
    [256, 257]

    Raises ValueError, with the reason, if its parts cannot be honoured, or a text in many scripts
    has other ids or these have another text. Raises TypeError for a tokenizer without a
    `tokenizers.Tokenizer`. The tokenizer then stays as it was.
    """
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise TypeError(f"expected a fast tokenizer, got {type(tokenizer).__name__}")
    before: type = type(tokenizer)
    own = _probed(tokenizer)
    tokenizer.__class__ = accelerated(before)
    try:
        tokenizer._known().read(tokenizer._tokenizer)
        for name, found, expected in zip(("ids", "texts"), _probed(tokenizer), own, strict=True):
            if found != expected:
                raise ValueError(f"the {name} of a probe differ")
    except BaseException:
        tokenizer.__class__ = before
        tokenizer.__dict__.pop("_engines", None)
        raise
    return tokenizer


def _probed(tokenizer: PreTrainedTokenizerFast) -> tuple[list[int], list[Any]]:
    """Return the ids of a text in many scripts, and what they decode to.

    Raises ValueError for a class that takes other things than texts.
    """
    try:
        ids = tokenizer(PROBE).input_ids
    except Exception as error:
        kind = type(tokenizer).__name__
        takes_boxes = "boxes" in signature(type(tokenizer).__call__).parameters
        wanted = "words and boxes" if takes_boxes else "other things"
        raise ValueError(
            f"the {kind} takes {wanted}, not a text alone, so use it as it is ({error})"
        ) from error
    skips = False, True
    texts = [tokenizer.decode(ids, skip_special_tokens=skip) for skip in skips]
    return ids, texts + [tokenizer.batch_decode([ids], skip_special_tokens=skip) for skip in skips]


@cache
def accelerated(cls: type) -> type:
    """Return the subclass, of the same name, with our engine."""
    if issubclass(cls, Accelerated):
        return cls
    # The methods of the class come first; where they call transformers' own, they find ours.
    bases = (Accelerated,) if cls is PreTrainedTokenizerFast else (cls, Accelerated)
    members = {
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "__reduce_ex__": lambda self, _protocol: (revived, (cls, self.__dict__)),
    }
    return type(cls.__name__, bases, members)


def revived(cls: type, state: dict[str, Any]) -> Any:
    """Return a copied or unpickled tokenizer."""
    tokenizer: Any = object.__new__(accelerated(cls))
    tokenizer.__dict__.update(state)
    return tokenizer
