"""The page docs/command-line.md has the help texts of the command."""

from __future__ import annotations

from tools.make_command_line import PAGE, page


def test_command_line_page_is_current() -> None:
    reason = f"{PAGE.name} is not the help text: run scripts/tools/make_command_line.py"
    assert PAGE.read_text("utf-8") == page(), reason
