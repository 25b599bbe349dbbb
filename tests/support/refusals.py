"""What an error says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


def refusal(function: Callable[..., object], *arguments: Any, **options: Any) -> str:
    """Return what the ValueError says that a call raises."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the caller looks at all it says
        function(*arguments, **options)
    return str(caught.value)
