"""What the documents say is so: their commands run, their links lead somewhere."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.skipif(os.name == "nt", reason="the commands are written for a POSIX shell")
def test_commands_of_the_readme_run(tmp_path: Path) -> None:
    """All but serve, which goes on until it is stopped, and has tests of its own."""
    shutil.copy(ROOT / "README.md", tmp_path)
    readme = (ROOT / "README.md").read_text("utf-8")
    commands = re.findall(r"^bpetite (?!serve ).*", readme, re.MULTILINE)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    codes = {
        command: subprocess.run(
            command, shell=True, cwd=tmp_path, env=environment, capture_output=True, check=False
        ).returncode
        for command in commands
    }
    assert codes == dict.fromkeys(commands, 0)
    assert len(commands) >= 5


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text("utf-8"))
    files = [link for link in links if "://" not in link]
    assert [link for link in files if not (document.parent / link).exists()] == []
