"""Chat templates that know where each character comes from: the template, or which message.

They need Jinja: `pip install jinja2`.
"""

try:
    import jinja2 as _jinja2  # noqa: F401
except ModuleNotFoundError as _error:
    raise ModuleNotFoundError(
        "bpetite.chat needs Jinja, which is not installed: pip install jinja2", name=_error.name
    ) from None

from bpetite.chat._encoded import Encoded
from bpetite.chat._prefix import KeptPrefix, keeps_prefix
from bpetite.chat._prompt import ChatTemplateError, OriginText, RenderedPrompt
from bpetite.chat._template import ChatTemplate

__all__ = [
    "ChatTemplate",
    "ChatTemplateError",
    "Encoded",
    "KeptPrefix",
    "OriginText",
    "RenderedPrompt",
    "keeps_prefix",
]
