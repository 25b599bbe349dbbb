"""Build the native engine if Rust is installed. Without Rust, install pure Python.

BPETITE_NATIVE=require makes a failed build an error; BPETITE_NATIVE=never skips the build.
BPETITE_URL, the address of the repository, becomes the links of the project.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import setup

sys.path.insert(0, str(Path(__file__).resolve().parent / "scripts"))

from tools import make_sbom, project_links

CHOICES = ("auto", "require", "never")

INSTALL_NATIVE = (
    "install Rust (https://rustup.rs), then run in a clone: "
    "pip install --force-reinstall --no-deps ."
)


def native_engine(choice: str) -> dict[str, object]:
    """Return the arguments of `setup` that build the native engine."""
    from setuptools.command.bdist_wheel import bdist_wheel
    from setuptools_rust import Binding, RustExtension
    from setuptools_rust.build import build_rust

    extension = RustExtension(
        "bpetite._engine._native",
        path="rust/Cargo.toml",
        binding=Binding.PyO3,
        features=["extension-module"],
        debug=False,
    )

    class BuildEngine(build_rust):
        """Build the engine. Unless the engine is required, a failure is only a warning."""

        failed = False  # whether the engine is missing, in all objects of the class

        def run(self) -> None:
            if choice == "require":
                super().run()
                return
            # Without a network, fail within seconds.
            os.environ.setdefault("CARGO_NET_RETRY", "0")
            os.environ.setdefault("CARGO_HTTP_TIMEOUT", "10")
            try:
                super().run()
            except Exception as error:
                BuildEngine.failed = True
                # An engine of an earlier build would not fit the new Python code.
                Path(self.get_dylib_ext_path(extension, extension.name)).unlink(missing_ok=True)
                print(error, file=sys.stderr)
                warn("building it failed, as shown above")

    class WheelWithBill(bdist_wheel):
        """Write the wheel, with the bill of materials of the engine in its metadata."""

        # setuptools has no option for PEP 770. This is the last step before the archive is made,
        # and the one that an editable installation takes too, but before the engine is built.
        def write_wheelfile(self, wheelfile_base: str, *arguments: str) -> None:
            super().write_wheelfile(wheelfile_base, *arguments)
            if BuildEngine.failed:
                return
            try:
                text = make_sbom.bill(self.distribution.get_version())
            except (OSError, subprocess.CalledProcessError) as error:
                if choice == "require":
                    raise
                print(f"bpetite: no bill of materials: {error}", file=sys.stderr)
                return
            folder = Path(wheelfile_base, "sboms")
            folder.mkdir(exist_ok=True)
            (folder / make_sbom.NAME).write_text(text, encoding="utf-8", newline="\n")

    commands = {"build_rust": BuildEngine, "bdist_wheel": WheelWithBill}
    return {"rust_extensions": [extension], "cmdclass": commands}


def arguments() -> dict[str, object]:
    """Return the arguments of `setup` for this environment."""
    choice = os.environ.get("BPETITE_NATIVE") or "auto"
    if choice not in CHOICES:
        sys.exit(f"BPETITE_NATIVE must be one of {', '.join(CHOICES)}, got {choice!r}")
    if choice == "never":
        return {}
    if shutil.which("cargo") is not None:
        return native_engine(choice)
    if choice == "require":
        sys.exit("BPETITE_NATIVE=require, but cargo is missing; install Rust (https://rustup.rs)")
    warn("cargo is missing")
    return {}


def warn(reason: str) -> None:
    """Print one line: why the native engine is missing, and how to get it."""
    # pip shows it only with --verbose, or if the build fails.
    print(
        "bpetite: installing WITHOUT the native engine, 20 to 40 times slower: "
        f"{reason}. To get it, {INSTALL_NATIVE}",
        file=sys.stderr,
        flush=True,
    )


url = os.environ.get("BPETITE_URL", "")
setup(
    zip_safe=False,
    long_description=project_links.description(url),
    long_description_content_type="text/markdown",
    project_urls=project_links.links(url),
    **arguments(),
)
