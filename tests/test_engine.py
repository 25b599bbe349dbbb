"""Which engine does the work is named, and can be asked for."""

import os
import subprocess
import sys

import pytest

import bpetite

SAY = "import bpetite; print(bpetite.engine)"


def run(wanted: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "BPETITE_ENGINE": wanted}
    return subprocess.run(
        [sys.executable, "-c", SAY], env=environment, capture_output=True, text=True, check=False
    )


def test_the_engine_is_the_reference() -> None:
    assert bpetite.engine == "python"


@pytest.mark.parametrize("wanted", ["", "python"])
def test_the_reference_may_be_asked_for(wanted: str) -> None:
    assert run(wanted).stdout == "python\n"


@pytest.mark.parametrize("wanted", ["native", "Python"])
def test_an_engine_that_is_not_there_is_an_error(wanted: str) -> None:
    result = run(wanted)
    assert result.returncode == 1
    assert result.stderr.endswith(
        f"ImportError: BPETITE_ENGINE asks for the engine {wanted!r}; this build has 'python'\n"
    )
