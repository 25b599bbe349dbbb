"""The programs for Ray in docs/clusters.md give the results of one process."""

from __future__ import annotations

import secrets
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.recipes import (
    Corpora,
    check_counts,
    check_tokens,
    cluster,
    environment,
    needs,
    one_death,
    program,
    run,
)
from support.recipes import corpora as corpora  # a fixture

pytestmark = needs("ray", "pandas", "pyarrow")

START = """
import sys
import ray

folder = sys.stdin.readline().strip()
options = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
context = ray.init("local", num_cpus=2, object_store_memory=10**8, _temp_dir=folder, **options)
print(context.address_info["gcs_address"], flush=True)
sys.stdin.read()
ray.shutdown()
"""


@pytest.fixture(scope="module")
def variables(corpora: Corpora) -> Iterator[dict[str, str]]:
    """Return the environment of programs for a cluster of two workers."""
    others = environment(
        corpora.folder,
        # Without a token of its own, Ray writes one to the home folder.
        RAY_AUTH_MODE="token",
        RAY_AUTH_TOKEN=secrets.token_hex(32),
        RAY_USAGE_STATS_ENABLED="0",
    )
    with (
        tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder,
        cluster(START, others, folder) as address,
    ):
        yield {**others, "RAY_ADDRESS": address}


def test_tasks_of_ray_write_the_serial_folder(
    corpora: Corpora, variables: dict[str, str], tmp_path: Path
) -> None:
    check_tokens("ray_tokens.py", corpora, variables, tmp_path)


def test_tasks_of_ray_count_like_one_process(
    corpora: Corpora, variables: dict[str, str], tmp_path: Path
) -> None:
    check_counts("ray_counts.py", corpora, variables, tmp_path)


def test_ray_data_encodes_like_one_process(
    corpora: Corpora, variables: dict[str, str], tmp_path: Path
) -> None:
    path = program("ray_data.py", tmp_path)
    command = (sys.executable, path, corpora.parquet(), corpora.model, tmp_path / "ids")
    with one_death(corpora.folder):
        run(*command, variables=variables)
    assert corpora.ids_in(tmp_path / "ids") == corpora.ids
