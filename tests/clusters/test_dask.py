"""The programs for Dask in docs/clusters.md give the results of one process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.recipes import Corpora, check_counts, check_tokens, cluster, environment, needs
from support.recipes import corpora as corpora  # a fixture

pytestmark = needs("dask", "distributed")

START = """
import sys
from distributed import LocalCluster

if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""


@pytest.fixture(scope="module")
def variables(corpora: Corpora) -> Iterator[dict[str, str]]:
    """Return the environment of programs for a cluster of two workers."""
    others = environment(corpora.folder)
    with cluster(START, others) as address:
        yield {**others, "DASK_SCHEDULER_ADDRESS": address}


def test_an_executor_of_dask_writes_the_serial_folder(
    corpora: Corpora, variables: dict[str, str], tmp_path: Path
) -> None:
    check_tokens("dask_tokens.py", corpora, variables, tmp_path)


def test_a_bag_of_dask_counts_like_one_process(
    corpora: Corpora, variables: dict[str, str], tmp_path: Path
) -> None:
    check_counts("dask_counts.py", corpora, variables, tmp_path)
