"""Build the native engine if Rust is installed. Without Rust, install pure Python.

BPETITE_NATIVE=require makes a failed build an error; BPETITE_NATIVE=never skips the build.
BPETITE_URL, the address of the repository, becomes the links of the project.
"""

import os
import re
import shutil
import sys
from pathlib import Path

from setuptools import setup

CHOICES = ("auto", "require", "never")

INSTALL_NATIVE = (
    "install Rust (https://rustup.rs), then run in a clone: "
    "pip install --force-reinstall --no-deps ."
)


def native_engine(choice: str) -> dict[str, object]:
    """Return the arguments of `setup` that build the native engine."""
    from setuptools_rust import Binding, RustExtension
    from setuptools_rust.build import build_rust

    extension = RustExtension(
        "bpetite._engine._native",
        path="rust/Cargo.toml",
        binding=Binding.PyO3,
        features=["extension-module"],
        args=["--locked"],
        debug=False,
    )

    class BuildEngine(build_rust):
        """Build the engine. Unless the engine is required, a failure is only a warning."""

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
                # An engine of an earlier build would not fit the new Python code.
                Path(self.get_dylib_ext_path(extension, extension.name)).unlink(missing_ok=True)
                print(error, file=sys.stderr)
                warn("building it failed, as shown above")

    return {"rust_extensions": [extension], "cmdclass": {"build_rust": BuildEngine}}


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


def links(address: str) -> dict[str, str]:
    """Return the links of the project by the address of its repository; "" gives none."""
    address = address.rstrip("/")
    if not address:
        return {}
    if not re.match(r"https?://\S+$", address):
        sys.exit(f"BPETITE_URL must be the https address of the repository, got {address!r}")
    return {
        "Source": address,
        "Documentation": f"{address}/blob/HEAD/docs/README.md",
        "Changelog": f"{address}/blob/HEAD/CHANGELOG.md",
        "Issues": f"{address}/issues",
    }


def description(address: str) -> str:
    """Return README.md, with links that lead into the repository from any page."""
    text = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
    if not address:
        return text
    address = f"{address.rstrip('/')}/%s/HEAD/"
    pictures = r"(!\[[^\]]*\]\(|<(?:img|source)\b[^>]* src(?:set)?=\")(?!https?:|#)"
    text = re.sub(pictures, rf"\g<1>{address % 'raw'}", text)
    return re.sub(r"(?<!!)(\[[^\[\]]*\]\()(?!https?:|#)", rf"\g<1>{address % 'blob'}", text)


url = os.environ.get("BPETITE_URL", "")
setup(
    zip_safe=False,
    long_description=description(url),
    long_description_content_type="text/markdown",
    project_urls=links(url),
    **arguments(),
)
