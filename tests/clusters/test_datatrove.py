"""The program for datatrove in docs/clusters.md gives the result of one process."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from support.recipes import Corpora, contents, environment, needs, one_death, program, run

pytestmark = needs("datatrove")


def test_a_step_of_datatrove_writes_the_serial_folder(tmp_path: Path) -> None:
    corpora = Corpora(tmp_path)
    path = program("datatrove_tokens.py", tmp_path)
    folder = tmp_path / "tokens"
    command = (sys.executable, path, corpora.lines, corpora.model, folder)
    variables = environment(tmp_path)
    parallel = path.read_text()
    path.write_text(parallel.replace("workers=2", "workers=1"))  # in the process of the program
    with one_death(tmp_path):
        run(*command, variables=variables, code=-signal.SIGKILL)
    path.write_text(parallel)
    run(*command, variables=variables)
    assert contents(folder) == corpora.tokens
