"""Test bpetite as arm64 and as big-endian s390x Linux, under qemu-user; print what was not run.

It needs Debian on x86-64, its apt, cargo, and user namespaces; not root. FOLDER gets Debian
unstable for three architectures, 5 GB: Rust, cross compilers and qemu for this machine, and a
Python with Debian's builds of the libraries of the tests for each of the others. What is there
already is kept, and this system is not changed. With `scripts/test` before, the results of the
other machines are compared with those of this one.

- rust: `cargo test` with debug assertions
- files: `tools.portable_files` by every engine and instruction set; all bytes are compared
- fuzz: `fuzzing`, so NEON against scalar and the Python engine
- suite: pytest on both engines; further arguments, after `--`, go to pytest

PYTHONPATH=scripts .venv/bin/python -m tools.cross_test FOLDER
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

from tools import venv

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
SUITE = "unstable"

BASE = ("base-files", "bash", "coreutils", "dash", "grep", "libc-bin", "sed")

LIBRARIES = (
    "fastapi",
    "hypothesis",
    "httpx2",
    "isal",
    "jinja2",
    "matplotlib",
    "numpy",
    "pandas",
    "pytest",
    "pytest-xdist",
    "regex",
    "sentencepiece",
    "starlette",
    "tiktoken",
    "tokenizers",
    "tqdm",
    "transformers",
    "universal-pathlib",
    "uvicorn",
    "zstandard",
)
"""Libraries of the tests that Debian has for all machines."""


@dataclass(frozen=True)
class Machine:
    """An architecture that qemu emulates."""

    debian: str
    """Debian's name of it."""
    name: str
    """The name of it for Rust, gcc and qemu."""
    instruction_sets: tuple[str, ...]
    libraries: tuple[str, ...] = ()
    """Further libraries of the tests."""

    @property
    def rust(self) -> str:
        return f"{self.name}-unknown-linux-gnu"

    @property
    def gnu(self) -> str:
        return f"{self.name}-linux-gnu"


MACHINES = (
    # Arrow's C++ library does not support big-endian machines.
    Machine("arm64", "aarch64", ("neon", "scalar"), ("pyarrow",)),
    Machine("s390x", "s390x", ("scalar",)),
)

NOT_RUN = {
    "tests/clusters": "Debian lacks ray, moto and datatrove",
    "tests/project": "it checks the source, not a machine",
    "tests/test_token_tables.py::test_llguidance_takes_tokens": "Debian lacks llguidance",
    "tests/web/test_serve_browser.py": "Debian lacks playwright",
    "tests/analysis/test_page_browser.py": "Debian lacks playwright",
    "tests/laws/test_costs.py": "it measures time, which an emulator changes",
    "tests/test_pretokenizer.py::test_hostile_text_is_searched_in_linear_time": (
        "it measures time, which an emulator changes"
    ),
    "tests/corpora/test_memory.py": "it measures memory, which an emulator changes",
    "tests/streaming/test_state.py::test_a_step_whose_text_has_no_room_in_memory_is_not_made": (
        "it limits memory, of which an emulator needs more"
    ),
    "tests/streaming/test_encode_stream.py::test_steps_without_a_split_cost_no_squares": (
        "it measures time, which an emulator changes"
    ),
    "tests/formats/test_portable_regex.py::test_any_portable_pattern_splits_as_in_tokenizers": (
        "hypothesis finds an emulator too slow"
    ),
    "tests/formats/test_tiktoken.py::test_ids_are_tiktokens_for_any_ranks": (
        "hypothesis finds an emulator too slow"
    ),
}
"""Tests that cannot pass there, and the reason."""

WITHOUT_ARROW = ("-k", "not parquet")

UNBUILT = """
for name in ("pyarrow", "torch"):
    try:
        __import__(name)
    except ImportError:
        print(name)
"""
"""Prints the libraries that Debian lacks for this machine, or has not built for this Python."""

PATIENT_FUZZING = "import fuzzing.main as f; f.ANSWER_MAX_SECONDS = 3600; f.main()"
"""An emulator needs longer for an answer than a machine."""

CORRECTION = """
import os

os.fstat = lambda fd: os.stat(f"/proc/self/fd/{fd}")
"""
"""qemu-user drops the fractions of seconds in the fstat of s390x, so a file would seem replaced."""

STEPS = ("rust", "files", "fuzz", "suite")

ENTER = r"""
tools=$1 root=$2; shift 2
mount --rbind /proc "$tools/proc"
mount -t binfmt_misc none "$tools/proc/sys/fs/binfmt_misc"
for name in aarch64 s390x; do
    chroot "$tools" sh -c "read -r line < /usr/share/qemu/binfmt.d/qemu-$name.conf
        printf %s \"\$line\" > /proc/sys/fs/binfmt_misc/register"
done
[ "$root" = "$tools" ] || mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
exec chroot "$root" env -i --chdir=/project PATH=/usr/bin HOME=/root "$@"
"""
"""Starts a program in a root folder, where the kernel runs programs of other machines by qemu.

A user namespace has its own binfmt_misc, so no other process of this system sees it.
"""


def main() -> None:
    """Do all steps, print what was found, and exit with 1 if anything failed."""
    arguments = parse_arguments()
    if sys.platform != "linux" or not shutil.which("apt-get"):
        sys.exit("bpetite: tools.cross_test needs Debian")
    cross = Cross(arguments)
    cross.set_up()
    for step in arguments.only:
        getattr(cross, f"test_{step}")()
    print(*cross.report, sep="\n")
    sys.exit(1 if cross.has_failed else 0)


def parse_arguments() -> argparse.Namespace:
    """Return the arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [machine.debian for machine in MACHINES]
    parser.add_argument("folder", type=Path, help="outside the project")
    parser.add_argument("--only", nargs="+", choices=STEPS, default=STEPS, help="steps")
    parser.add_argument("--machines", nargs="+", choices=names, default=names)
    parser.add_argument("--engines", nargs="+", choices=("native", "python"), default=None)
    parser.add_argument("--pythons", nargs="+", default=["3.14", "3.15"], metavar="VERSION")
    parser.add_argument("--texts", nargs="*", type=Path, default=[], help="for files; UTF-8")
    parser.add_argument("--vocabularies", nargs="*", type=Path, default=[], help="for files")
    parser.add_argument("--characters", type=int, default=100_000, help="of each text")
    parser.add_argument("--fuzz-seconds", type=int, default=600)
    parser.add_argument("--mirror", help="of Debian (default: that of this system's apt)")
    own, _, others = " ".join(map(shlex.quote, sys.argv[1:])).partition(" -- ")
    arguments = parser.parse_args(shlex.split(own))
    arguments.pytest = shlex.split(others)
    return arguments


class Cross:
    """The folder with the roots, and the results so far."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.options = arguments
        self.folder: Path = arguments.folder.resolve()
        self.tools = self.folder / "tools"
        self.machines = [each for each in MACHINES if each.debian in arguments.machines]
        self.engines: Sequence[str] = arguments.engines or ("native", "python")
        self.report: list[str] = []
        self.has_failed = False

    # Roots

    def set_up(self) -> None:
        """Install what is missing, and build the project as it is."""
        self.folder.mkdir(parents=True, exist_ok=True)
        compilers = [f"gcc-{each.gnu.replace('_', '-')}" for each in MACHINES]
        libraries = [f"libc6-dev-{each.debian}-cross" for each in MACHINES]
        tools = [*BASE, "cargo", "rustc", "gcc", "libc6-dev", "qemu-user", *compilers, *libraries]
        self.install("amd64", self.tools, tools, only=["libstd-rust-dev"])
        pythons = [f"python{version}" for version in ("3.14", "3.15")]
        for machine in MACHINES:
            self.install(machine.debian, self.tools, [], only=["libstd-rust-dev"])
            libraries = [f"python3-{name}" for name in (*LIBRARIES, *machine.libraries)]
            root = self.folder / machine.debian
            self.install(machine.debian, root, [*BASE, "python3", *pythons, *libraries])
            for name in ("blas", "lapack"):  # a package would choose by its script
                link = root / "usr/lib" / machine.gnu / f"lib{name}.so.3"
                if not link.is_symlink():
                    link.symlink_to(f"{name}/lib{name}.so.3")
        for machine in MACHINES:
            self.copy_project(self.folder / machine.debian / "project")
        self.copy_project(self.tools / "project")
        cargo = shutil.which("cargo") or sys.exit("bpetite: cargo is not installed")
        vendor = [cargo, "vendor", "--quiet", "--manifest-path"]
        manifest = self.tools / "project/rust/Cargo.toml"
        subprocess.run([*vendor, manifest, self.tools / "vendor"], check=True)
        self.say_versions()
        for machine, version in product(self.machines, self.options.pythons):
            self.build(machine, version)

    def install(
        self, architecture: str, root: Path, packages: Sequence[str], only: Sequence[str] = ()
    ) -> None:
        """Unpack packages with all that they depend on, and packages `only` without that."""
        stamp = root / f".{architecture}"
        names = " ".join([*packages, *only])
        if stamp.exists() and stamp.read_text() == names:
            return
        venv.say(f"installing Debian's packages for {architecture} in {root}")
        state = self.folder / "apt" / f"{root.name}-{architecture}"
        archives = state / "archives"
        for path in (archives / "partial", state / "lists/partial"):
            path.mkdir(parents=True, exist_ok=True)
        (state / "status").touch()
        source = f"deb [signed-by={KEYRING}] {self.mirror()} {SUITE} main\n"
        (state / "sources.list").write_text(source)
        settings = {
            "APT::Architecture": architecture,
            "APT::Architectures::": architecture,
            "APT::Sandbox::User": "root",
            "Acquire::Languages": "none",
            "Dir::Cache": str(state),
            "Dir::Cache::archives": str(archives),
            "Dir::Etc::sourcelist": str(state / "sources.list"),
            "Dir::Etc::sourceparts": "-",
            "Dir::State": str(state),
            "Dir::State::status": str(state / "status"),
        }
        apt = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in settings.items())]
        subprocess.run([*apt, "update"], check=True)
        install = ["-y", "--no-install-recommends", "--download-only", "install"]
        if packages:
            subprocess.run([*apt, *install, *packages], check=True)
        if only:
            subprocess.run([*apt, "download", *only], check=True, cwd=archives)
        root.mkdir(exist_ok=True)
        # base-files has the links from /lib to /usr/lib, which others unpack through.
        files = archives.glob("*.deb")
        for path in sorted(files, key=lambda path: not path.name.startswith("base-files_")):
            subprocess.run(["dpkg-deb", "--extract", path, root], check=True)
        for name in ("proc", "dev", "tmp", "etc"):
            (root / name).mkdir(exist_ok=True)
        (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
        (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/bash\n")
        stamp.write_text(names)

    def mirror(self) -> str:
        """Return the address of Debian's packages that this system's apt uses."""
        if self.options.mirror:
            return str(self.options.mirror)
        query = ["--format", "$(REPO_URI)", "Created-By: Packages", "Component: main"]
        listed = subprocess.run(
            ["apt-get", "indextargets", *query], check=True, capture_output=True, encoding="utf-8"
        )
        addresses = [line for line in listed.stdout.split() if line.endswith("/debian/")]
        if not addresses:
            sys.exit("bpetite: apt has no mirror of Debian; give one by --mirror")
        return addresses[0]

    def copy_project(self, target: Path) -> None:
        """Copy the files of the project that git does not ignore."""
        if target.exists():
            shutil.rmtree(target)
        listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listing, cwd=venv.ROOT, check=True, stdout=subprocess.PIPE).stdout
        for name in filter(None, os.fsdecode(names).split("\0")):
            if (venv.ROOT / name).is_file():
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(venv.ROOT / name, target / name)
        root = target.parent
        python = root / "usr/lib/python3/dist-packages"
        if not python.exists():
            return
        # An editable installation, without pip.
        (python / "bpetite.pth").write_text("/project/src\n")
        facts = python / "bpetite-0.dist-info"
        facts.mkdir(exist_ok=True)
        code = (target / "src/bpetite/__init__.py").read_text("utf-8")
        version = re.findall(r'^__version__ = "(.*)"', code, re.MULTILINE)[0]
        lines = ["Metadata-Version: 2.1", "Name: bpetite", f"Version: {version}"]
        project = tomllib.loads((target / "pyproject.toml").read_text("utf-8"))["project"]
        for extra, requirements in project["optional-dependencies"].items():
            for requirement in requirements:
                name, _, marker = requirement.partition(";")
                condition = (
                    f'({marker}) and extra == "{extra}"' if marker else f'extra == "{extra}"'
                )
                lines.append(f"Requires-Dist: {name}; {condition}")
        (facts / "METADATA").write_text("\n".join(lines) + "\n")
        if root.name == "s390x":
            (python / "usercustomize.py").write_text(CORRECTION)
        command = root / "usr/bin/bpetite"
        command.write_text(
            "#!/usr/bin/python3\nimport sys\nfrom _bpetite_command import main\nsys.exit(main())\n"
        )
        command.chmod(0o755)

    def say_versions(self) -> None:
        """Report the versions of all programs."""
        rust = self.output(self.tools, "rustc", "--version")
        qemu = self.output(self.tools, "qemu-s390x", "--version").splitlines()[0]
        self.report += [rust.strip(), qemu]
        for machine, version in product(self.machines, self.options.pythons):
            program = "import platform, sys; print(platform.machine(), sys.byteorder, sys.version)"
            root = self.folder / machine.debian
            self.report.append(self.output(root, f"python{version}", "-c", program).strip())

    def enter(self, root: Path, *command: str) -> list[str]:
        """Return the command that runs another one in a root, as its user root."""
        space = ["unshare", "--user", "--map-root-user", "--mount", "--fork"]
        return [*space, "sh", "-ec", ENTER, "sh", str(self.tools), str(root), *command]

    def run(self, root: Path, *command: str) -> bool:
        """Run a command in a root; return whether it succeeded."""
        venv.say(f"{root.name}: {shlex.join(command)}")
        return subprocess.run(self.enter(root, *command), check=False).returncode == 0

    def output(self, root: Path, *command: str) -> str:
        """Return the output of a command in a root."""
        command = tuple(self.enter(root, *command))
        return subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout

    def note(self, words: str, *, failed: bool) -> None:
        """Add a line to the report."""
        self.has_failed |= failed
        self.report.append(f"{'FAILED' if failed else 'passed'}: {words}")
        venv.say(self.report[-1])

    # Rust

    def cargo(self, machine: Machine, *arguments: str, **variables: str) -> bool:
        """Run cargo for a machine, without a network; return whether it succeeded."""
        target = machine.rust.upper().replace("-", "_")
        source = 'source.crates-io.replace-with="vendored"', 'source.vendored.directory="/vendor"'
        settings = {
            "CARGO_NET_OFFLINE": "true",
            "CARGO_TARGET_DIR": "/target",
            "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER": "gcc",
            f"CARGO_TARGET_{target}_LINKER": f"{machine.gnu}-gcc",
            f"CARGO_TARGET_{target}_RUNNER": f"qemu-{machine.name} -L /usr/{machine.gnu}",
            **variables,
        }
        return self.run(
            self.tools,
            *(f"{name}={value}" for name, value in settings.items()),
            *("cargo", *arguments, "--manifest-path", "/project/rust/Cargo.toml"),
            *("--target", machine.rust, "--config", source[0], "--config", source[1]),
        )

    def build(self, machine: Machine, version: str) -> None:
        """Build the native engine for a Python of a machine."""
        options = ("--release", "--lib", "--features", "extension-module")
        if not self.cargo(
            machine, "build", *options, PYO3_CROSS="1", PYO3_CROSS_PYTHON_VERSION=version
        ):
            sys.exit(f"bpetite: the native engine does not build for {machine.rust}")
        name = f"_native.cpython-{version.replace('.', '')}-{machine.gnu}.so"
        shutil.copy(
            self.tools / "target" / machine.rust / "release/lib_native.so",
            self.folder / machine.debian / "project/src/bpetite/_engine" / name,
        )

    def test_rust(self) -> None:
        """Run the tests of the native engine."""
        for machine in self.machines:
            # Optimized, and still with debug assertions: otherwise some tests take minutes each.
            passed = self.cargo(machine, "test", "--lib", CARGO_PROFILE_TEST_OPT_LEVEL="2")
            self.note(f"cargo test on {machine.debian}", failed=not passed)

    # Python

    def python(self, machine: Machine, version: str, *arguments: str, **variables: str) -> bool:
        """Run a Python of a machine in the project; return whether it succeeded."""
        settings = {"PYTHONPATH": "/project/scripts", **variables}
        return self.run(
            self.folder / machine.debian,
            *(f"{name}={value}" for name, value in settings.items()),
            *(f"python{version}", *arguments),
        )

    def variants(self, machine: Machine) -> Iterator[dict[str, str]]:
        """Yield the variables of each engine and instruction set."""
        if "native" in self.engines:
            for name in machine.instruction_sets:
                yield {"BPETITE_ENGINE": "native", "BPETITE_SIMD": name}
        if "python" in self.engines:
            yield {"BPETITE_ENGINE": "python"}

    def test_files(self) -> None:
        """Write files of all kinds on this machine and the others, and compare their bytes."""
        options = ["--characters", str(self.options.characters)]
        expected_folder = self.folder / "files"
        shutil.rmtree(expected_folder, ignore_errors=True)
        texts, vocabularies = self.options.texts, self.options.vocabularies
        here = [*map(str, map(Path.resolve, texts))]
        if vocabularies:
            here += ["--vocabulary", *map(str, map(Path.resolve, vocabularies))]
        venv.run_module("tools.portable_files", str(expected_folder), *here, *options)
        expected = content(expected_folder)
        for machine, version in product(self.machines, self.options.pythons):
            root = self.folder / machine.debian
            (root / "texts").mkdir(exist_ok=True)
            for path in (*texts, *vocabularies):
                shutil.copy(path, root / "texts")
            there = [f"/texts/{path.name}" for path in texts]
            if vocabularies:
                there += ["--vocabulary", *(f"/texts/{path.name}" for path in vocabularies)]
            for variables in self.variants(machine):
                shutil.rmtree(root / "files", ignore_errors=True)
                program = ("-m", "tools.portable_files", "/files", *there, *options)
                passed = self.python(machine, version, *program, **variables)
                name = f"{machine.debian}, Python {version}, {' '.join(variables.values())}"
                self.compare(name, passed, expected, content(root / "files"))

    def compare(
        self, name: str, passed: bool, expected: Mapping[str, bytes], found: Mapping[str, bytes]
    ) -> None:
        """Report the files that differ, and those that a machine lacks."""
        lacking = [path for path in expected if path not in found]
        differing = [path for path in found if found[path] != expected.get(path)]
        size = sum(map(len, found.values()))
        equal = len(found) - len(differing)
        words = f"files of {name}: {equal} of {len(found)} equal, {size} bytes"
        if lacking:
            words += f"; not written: {len(lacking)}, {sorted(lacking)[0]}"
        if differing:
            words += f"; different: {', '.join(sorted(differing))}"
        # Without pyarrow, there are no Parquet files.
        lost = [path for path in lacking if "parquet" not in path]
        self.note(words, failed=not passed or bool(differing or lost))

    def test_fuzz(self) -> None:
        """Compare the engines and instruction sets of each machine on generated input."""
        for machine in self.machines:
            seconds = str(self.options.fuzz_seconds)
            program = ("-c", PATIENT_FUZZING, "--seconds", seconds, "--seed", "1")
            passed = self.python(machine, self.options.pythons[0], *program)
            self.note(f"fuzzing on {machine.debian}", failed=not passed)

    def test_suite(self) -> None:
        """Run the tests in Python."""
        self.report += [f"not run: {path}: {reason}" for path, reason in NOT_RUN.items()]
        for machine, version, engine in product(self.machines, self.options.pythons, self.engines):
            self.report_suite(machine, version, engine)

    def hide(self, root: Path, version: str, names: Sequence[str]) -> str:
        """Return a folder of the root in which these libraries are not to be found.

        The part of a library that is there would fail in other ways than one that is missing.
        """
        folder = root / f"hidden-{version}"
        folder.mkdir(exist_ok=True)
        for name in names:
            error = f"raise ModuleNotFoundError({name!r} + ' is hidden', name={name!r})\n"
            (folder / f"{name}.py").write_text(error)
        return f"/{folder.name}"

    def report_suite(self, machine: Machine, version: str, engine: str) -> None:
        """Run the tests in Python on one engine, and report their numbers."""
        results = self.folder / machine.debian / f"tests-{version}-{engine}.xml"
        results.unlink(missing_ok=True)
        unbuilt = self.output(results.parent, f"python{version}", "-c", UNBUILT).split()
        hidden = self.hide(results.parent, version, unbuilt)
        passed = self.python(
            machine,
            version,
            *("-m", "pytest", "-q", f"--junit-xml=/{results.name}"),
            *("-o", "faulthandler_timeout=3600", "-p", "no:cacheprovider"),
            # Debian's hypothesis warns of itself once, with Python 3.14.
            *("-W", "ignore::hypothesis.errors.HypothesisWarning"),
            *(f"--{'deselect' if '::' in path else 'ignore'}={path}" for path in NOT_RUN),
            *(WITHOUT_ARROW if "pyarrow" in unbuilt else ()),
            *self.options.pytest,
            BPETITE_ENGINE=engine,
            PYTHONPATH=f"{hidden}:/project/scripts",
        )
        name = f"tests on {machine.debian}, Python {version}, {engine}"
        if unbuilt:
            name += f", without {' and '.join(unbuilt)}, which Debian has not built"
        if not results.exists():
            self.note(f"{name}: no result", failed=True)
            return
        (totals,) = ElementTree.parse(results).iter("testsuite")
        kinds = ("tests", "failures", "errors", "skipped")
        numbers = ", ".join(f"{totals.get(kind)} {kind}" for kind in kinds)
        self.note(f"{name}: {numbers}", failed=not passed)


def content(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder by path."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


if __name__ == "__main__":
    main()
