"""Build a source distribution, a manylinux wheel and a pure wheel, and test them (Linux only).

`scripts/tools/build-wheels` runs this. Everything is built twice, in different folders, and must
have equal bytes. Each file is then installed in a fresh environment, without Rust and without a
network, and runs a part of the tests.

A wheel for CPython needs a build for each version: see "One wheel for each Python" in
docs/design.md. Zig links the native engine, so that old systems can load it.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

from tools import venv

GLIBC = "2.17"
"""The oldest C library that may load the engine. Rust asks for the same."""

MAX_BYTES = 3_000_000
"""The size of a file of a release."""

TESTS = ("tests/engine/test_arrays.py", "tests/laws/test_golden.py", "tests/test_corpus.py")
TEST_LIBRARIES = ("pytest", "hypothesis", "numpy")

SMOKE = """
import sys, bpetite
tokenizer = bpetite.Tokenizer.train("the hen then met the ten men", 262)
text = "the hen's 你好 🙂"
ids = tokenizer.encode(text)
stream = tokenizer.decode_stream()
assert "".join([*map(stream.step, ids), stream.flush()]) == tokenizer.decode(ids) == text
assert bpetite.engine == sys.argv[1], bpetite.engine
assert bpetite.__file__.startswith(sys.prefix), bpetite.__file__
"""

TAG = """
import sys, sysconfig
threaded = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
print("cp%d%d" % sys.version_info[:2] + threaded)
"""

Path_ = str | Path


def main() -> None:
    """Build, compare, check and install all files; exit with 1 at the first fault."""
    parser = argparse.ArgumentParser(prog="scripts/tools/build-wheels", description=__doc__)
    parser.add_argument("--output", type=Path, default=venv.ROOT / "dist", help="default: dist")
    parser.add_argument("--once", action="store_true", help="do not build a second time")
    parser.add_argument(
        "pythons", nargs="*", default=[sys.executable], help="default: the Python that runs this"
    )
    arguments = parser.parse_args()
    if sys.platform != "linux":
        sys.exit("bpetite: scripts/tools/build-wheels needs Linux")
    tools = venv.environment(venv.FOLDER / "release", requirements()).parent
    with tempfile.TemporaryDirectory(prefix="bpetite-release-") as name:
        folder = Path(name)
        files = built(folder / "first", arguments.pythons, tools)
        if not arguments.once:
            again = built(folder / "second build", arguments.pythons, tools)
            compare(files, again)
        run(tools / "twine", "check", "--strict", *files)
        for file in files:
            size = file.stat().st_size
            print(f"{size:10,} {file.name}", flush=True)
            if size > MAX_BYTES:
                sys.exit(f"bpetite: {file.name} has more than {MAX_BYTES:,} bytes")
        for python in arguments.pythons:
            wheels = downloaded(python, folder / f"libraries-{tag_of(python)}")
            for file in files:
                if fits(file, python):
                    install(file, python, wheels, folder)
        arguments.output.mkdir(exist_ok=True)
        for file in files:
            shutil.copy(file, arguments.output)
    print(f"all files are in {arguments.output}")


def requirements() -> list[str]:
    """Return the requirements of the extra `release`."""
    project = tomllib.loads((venv.ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    found: list[str] = project["optional-dependencies"]["release"]
    return found


# Building


def built(folder: Path, pythons: Sequence[str], tools: Path) -> list[Path]:
    """Build all files in a folder, and return their paths."""
    folder.mkdir()
    epoch = str(date())
    environment = {**os.environ, "SOURCE_DATE_EPOCH": epoch, "BPETITE_NATIVE": "never"}
    environment["PATH"] = os.pathsep.join([str(tools), environment["PATH"]])
    run(tools / "python", "-m", "build", "--sdist", "--outdir", folder, venv.ROOT, env=environment)
    (source,) = folder.glob("*.tar.gz")
    normalize(source, int(epoch))
    wheel = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-cache-dir", "--wheel-dir"]
    run(tools / "python", *wheel, folder, unpacked(source, folder / "pure"), env=environment)
    wheels = [*folder.glob("*.whl")]
    linker = zig_linker(folder, tools)
    for python in pythons:
        # Files of an earlier build would be in the next one, so each has a folder of its own.
        code = unpacked(source, folder / tag_of(python))
        native = {**environment, "BPETITE_NATIVE": "require", **linker}
        native["CARGO_ENCODED_RUSTFLAGS"] = "\x1f".join(reproducible(code))
        raw = folder / f"raw-{tag_of(python)}"
        run(python, *wheel, raw, code, env=native)
        (made,) = raw.glob("*.whl")
        place = f"manylinux_{GLIBC.replace('.', '_')}_{platform.machine()}"
        repair: list[Path_] = ["repair", "--plat", place, "--only-plat", "--wheel-dir", folder]
        run(tools / "auditwheel", *repair, made, env=native)
    wheels += sorted({*folder.glob("*.whl")} - {*wheels})
    return [source, *wheels]


def date() -> int:
    """Return the time of the last commit, or of the changelog outside a clone."""
    command = ["git", "log", "-1", "--format=%ct"]
    found = subprocess.run(command, cwd=venv.ROOT, capture_output=True, check=False)
    text = found.stdout.decode().strip()
    return int(text) if text else int((venv.ROOT / "CHANGELOG.md").stat().st_mtime)


def normalize(path: Path, epoch: int) -> None:
    """Write an archive again, with one date and one owner; setuptools takes those of the files."""
    buffer = BytesIO()
    with tarfile.open(path) as old, tarfile.open(fileobj=buffer, mode="w") as new:
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            member.mtime, member.pax_headers = epoch, {}
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            executable = member.isdir() or member.mode & 0o100
            member.mode = 0o755 if executable else 0o644
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    path.write_bytes(gzip.compress(buffer.getvalue(), mtime=epoch))


def unpacked(source: Path, folder: Path) -> Path:
    """Unpack a source distribution, and return the folder with its files."""
    with tarfile.open(source) as archive:
        archive.extractall(folder, filter="data")
    (only,) = folder.iterdir()
    return only


def reproducible(code: Path) -> list[str]:
    """Return the flags that keep the names of this machine's folders out of the engine."""
    cargo = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")
    names = {code: "bpetite", cargo: "cargo"}
    return [f"--remap-path-prefix={path}={name}" for path, name in names.items()]


def zig_linker(folder: Path, tools: Path) -> dict[str, str]:
    """Return the variables that let cargo link by Zig, for the oldest C library."""
    machine = platform.machine()
    script = folder / "zig-cc"  # rustc guesses the kind of linker by its name
    zig = [tools / "cargo-zigbuild", "zig", "cc", "--", "-target", f"{machine}-linux-gnu.{GLIBC}"]
    script.write_text(f'#!/bin/sh\nexec {shlex.join(map(str, zig))} "$@"\n')
    script.chmod(0o755)
    return {f"CARGO_TARGET_{machine.upper()}_UNKNOWN_LINUX_GNU_LINKER": str(script)}


def compare(files: Sequence[Path], others: Sequence[Path]) -> None:
    """Exit with 1 if a file of the second build differs from that of the first."""
    for file, other in zip(files, others, strict=True):
        first, second = (hashlib.sha256(each.read_bytes()).hexdigest() for each in (file, other))
        if first != second:
            sys.exit(f"bpetite: two builds of {file.name} differ: {first} and {second}")
        print(f"equal in two builds: {first} {file.name}", flush=True)


# Installing


def tag_of(python: str) -> str:
    """Return the tag of a Python in the names of wheels, such as cp314t."""
    found = subprocess.run([python, "-c", TAG], check=True, capture_output=True)
    return found.stdout.decode().strip()


def fits(file: Path, python: str) -> bool:
    """Return whether a Python may install a file."""
    return "-cp" not in file.name or f"-{tag_of(python)}-manylinux" in file.name


def downloaded(python: str, folder: Path) -> Path:
    """Download the libraries that an installation and the tests need."""
    project = tomllib.loads((venv.ROOT / "pyproject.toml").read_text("utf-8"))
    libraries = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    run(python, "-m", "pip", "download", "--quiet", "--dest", folder, *libraries, *TEST_LIBRARIES)
    return folder


def install(file: Path, python: str, libraries: Path, folder: Path) -> None:
    """Install a file without Rust and without a network, and run tests with it."""
    place = Path(tempfile.mkdtemp(dir=folder))
    run(python, "-m", "venv", place / "environment")
    new = place / "environment/bin/python"
    engine = "native" if "manylinux" in file.name else "python"
    paths = [
        each for each in os.environ["PATH"].split(os.pathsep) if not Path(each, "cargo").exists()
    ]
    environment = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
    environment |= {"PATH": os.pathsep.join(paths), "BPETITE_ENGINE": engine}
    alone: list[Path_] = ["unshare", "--net", "--map-root-user", new]
    pip = [*alone, "-m", "pip", "install", "--quiet", "--no-index", "--find-links", libraries]
    run(*pip, file, *TEST_LIBRARIES, env=environment)
    run(*alone, "-c", SMOKE, engine, env=environment, cwd=place)
    tests = ["-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS]
    run(*alone, *tests, env=environment, cwd=venv.ROOT)
    print(f"installed and tested with {tag_of(python)}: {file.name}", flush=True)


def run(*command: Path_, env: dict[str, str] | None = None, cwd: Path | None = None) -> None:
    """Run a command; exit with 1 if it fails."""
    result = subprocess.run([*map(str, command)], env=env, cwd=cwd, check=False)
    if result.returncode:
        sys.exit(f"bpetite: {shlex.join(map(str, command[:6]))} … failed")
