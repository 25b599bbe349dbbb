"""The scripts for Slurm in docs/clusters.md give the results of one process."""

from __future__ import annotations

import signal
from pathlib import Path

from support.recipes import Corpora, contents, environment, needs, one_death, program, run
from support.recipes import corpora as corpora  # a fixture

pytestmark = needs()

JOBS = 3


def run_array(script: Path, *arguments: Path, corpora: Corpora, first_code: int) -> None:
    """Run the jobs of an array from the last to the first. The first to run is killed, then runs
    again.
    """
    variables = {"SLURM_ARRAY_TASK_COUNT": str(JOBS), "SLURM_CPUS_PER_TASK": "1"}
    for job in range(JOBS, 0, -1):
        of_job = environment(corpora.folder, **variables, SLURM_ARRAY_TASK_ID=str(job))
        if job == JOBS:
            with one_death(corpora.folder):
                run("bash", script, *arguments, variables=of_job, code=first_code)
        run("bash", script, *arguments, variables=of_job)


KILLED = 128 + signal.SIGKILL if hasattr(signal, "SIGKILL") else 1
"""The code of a shell whose last command was killed."""


def test_an_array_of_slurm_writes_the_serial_folder(corpora: Corpora, tmp_path: Path) -> None:
    script = program("slurm_tokens.sh", tmp_path)
    folder = tmp_path / "tokens"
    arguments = (corpora.lines, corpora.model, folder)
    run_array(script, *arguments, corpora=corpora, first_code=KILLED)
    run("bpetite", "tokenize", "--finish", folder, variables=environment(corpora.folder))
    assert contents(folder) == corpora.tokens


def test_an_array_of_slurm_counts_like_one_process(corpora: Corpora, tmp_path: Path) -> None:
    script = program("slurm_counts.sh", tmp_path)
    (tmp_path / "counts").mkdir()
    run_array(script, corpora.lines, tmp_path / "counts", corpora=corpora, first_code=KILLED)
    counts = sorted((tmp_path / "counts").iterdir())
    assert len(counts) == JOBS
    model = tmp_path / "model.json"
    options = ("--vocab-size=300", "--output", model)
    run("bpetite", "train", *counts, *options, variables=environment(corpora.folder))
    assert model.read_bytes() == corpora.trained
