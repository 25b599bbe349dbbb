"""`scripts/tools/build-wheels` compares two builds of each file and installs each where it fits."""

from __future__ import annotations

import sys
import tarfile
from pathlib import Path

import pytest
from tools import build_wheels


def archive(path: Path, time: int, names: list[str]) -> Path:
    """Write an archive of files with one date, in a given order."""
    source = path.with_suffix(".folder")
    source.mkdir()
    with tarfile.open(path, "w:gz") as new:
        for name in names:
            (source / name).write_text(name)
            member = new.gettarinfo(source / name, f"bpetite-1/{name}")
            member.mtime = time
            member.uname = str(time)
            with open(source / name, "rb") as content:
                new.addfile(member, content)
    return path


def test_archives_of_equal_files_become_equal(tmp_path: Path) -> None:
    one = archive(tmp_path / "one.tar.gz", 1, ["a", "b"])
    two = archive(tmp_path / "two.tar.gz", 2, ["b", "a"])
    for path in (one, two):
        build_wheels.normalize(path, 1_700_000_000)
    assert one.read_bytes() == two.read_bytes()
    build_wheels.compare([one], [two])
    folder = build_wheels.unpacked(two, tmp_path / "unpacked")
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"a": "a", "b": "b"}


def test_files_that_differ_end_the_program(tmp_path: Path) -> None:
    one = archive(tmp_path / "one.tar.gz", 1, ["a"])
    two = archive(tmp_path / "two.tar.gz", 1, ["b"])
    with pytest.raises(SystemExit, match=r"two builds of one\.tar\.gz differ"):
        build_wheels.compare([one], [two])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bpetite-1.tar.gz", True),
        ("bpetite-1-py3-none-any.whl", True),
        ("bpetite-1-{tag}-{tag}-manylinux_2_17_x86_64.whl", True),
        ("bpetite-1-cp310-cp310-manylinux_2_17_x86_64.whl", False),
    ],
)
def test_a_python_gets_the_files_that_fit_it(name: str, expected: bool) -> None:
    file = Path(name.format(tag=build_wheels.tag_of(sys.executable)))
    assert build_wheels.fits(file, sys.executable) is expected
