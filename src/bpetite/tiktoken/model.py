"""Which encoding a model uses, by tiktoken's tables."""

from __future__ import annotations

from bpetite.formats._tiktoken_names import OF_MODEL, encoding_of_model
from bpetite.tiktoken.core import Encoding
from bpetite.tiktoken.registry import get_encoding

MODEL_TO_ENCODING = {model: name for model, name in OF_MODEL.items() if not model.endswith("*")}
"""The encoding of each model."""

MODEL_PREFIX_TO_ENCODING = {
    model[:-1]: name for model, name in OF_MODEL.items() if model[-1] == "*"
}
"""The encoding of all models whose names begin so; the longest such beginning counts."""


def encoding_name_for_model(model_name: str) -> str:
    """Return the name of the encoding that a model uses.

    >>> encoding_name_for_model("gpt-4o-2024-08-06")
    'o200k_base'

    Raises KeyError for an unknown model.
    """
    name = encoding_of_model(model_name)
    if name is None:
        raise KeyError(f"no encoding is known for the model {model_name!r}; use get_encoding")
    return name


def encoding_for_model(model_name: str) -> Encoding:
    """Return the encoding that a model uses. Raises KeyError for an unknown model."""
    return get_encoding(encoding_name_for_model(model_name))
