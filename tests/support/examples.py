"""The number of examples that hypothesis makes; conftest.py has the profiles."""

from hypothesis import settings

few_examples = settings(max_examples=settings().max_examples // 4)
"""For tests with slow examples."""
