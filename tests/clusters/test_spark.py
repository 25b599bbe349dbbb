"""The programs for Spark in docs/clusters.md give the results of one process."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from support.recipes import Corpora, contents, environment, needs, program, run

pytestmark = [
    *needs("pyspark", "pyarrow"),
    pytest.mark.skipif(shutil.which("java") is None, reason="needs Java"),
]

# A session takes longer to start than a program takes.
ALL = """
import os, runpy, sys

fuse, *commands = sys.argv[1:]
for command in commands:
    sys.argv = command.split("|")
    open(fuse, "w").close()
    runpy.run_path(sys.argv[0], run_name="__main__")
    assert not os.path.exists(fuse), f"no worker has died in {sys.argv[0]}"
"""

OPTIONS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.files.maxPartitionBytes": "100k",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}


def test_spark_and_one_process_give_the_same(tmp_path: Path) -> None:
    corpora = Corpora(tmp_path)
    variables = environment(tmp_path, PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_DIRS=str(tmp_path))
    (tmp_path / "all.py").write_text(ALL, "utf-8")
    tokens, ids, trained = (tmp_path / name for name in ("tokens", "ids", "counted.json"))
    commands = [
        (program("spark_tokens.py", tmp_path), corpora.lines, corpora.model, tokens),
        (program("spark_ids.py", tmp_path), corpora.parquet(), corpora.model, ids),
        (program("spark_counts.py", tmp_path), corpora.parquet(), trained),
    ]
    options = [f"--conf={name}={value}" for name, value in OPTIONS.items()]
    run(
        *("spark-submit", "--master", "local[2,4]", *options),
        *(tmp_path / "all.py", tmp_path / "fuse"),
        *("|".join(map(str, command)) for command in commands),
        variables=variables,
    )
    assert contents(tokens) == corpora.tokens
    assert corpora.ids_in(ids) == corpora.ids
    assert trained.read_bytes() == corpora.trained
