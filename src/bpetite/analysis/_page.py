"""A report in, a page in HTML out."""

from __future__ import annotations

from bpetite.analysis._figures import Report


def page(report: Report, command: str = "") -> str:
    """Return a page."""
    return str(report) + command
