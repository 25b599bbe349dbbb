"""Build the native core if Rust is there; without it the package is pure Python, and works.

BPETITE_NATIVE=require fails where the core cannot be built, BPETITE_NATIVE=never does not try.
"""

import os
import shutil
import sys
from pathlib import Path

from setuptools import setup

CHOICES = ("auto", "require", "never")

RUST = "https://rustup.rs"


def native_core(choice: str) -> dict[str, object]:
    """Return the arguments of `setup` that build the native core."""
    from setuptools_rust import Binding, RustExtension
    from setuptools_rust.build import build_rust

    core = RustExtension(
        "bpetite._native",
        path="rust/Cargo.toml",
        binding=Binding.PyO3,
        features=["extension-module"],
        debug=False,
    )

    class BuildCore(build_rust):
        """Build the core; unless it is required, a failure is told and the package is without."""

        def run(self) -> None:
            if choice == "require":
                super().run()
                return
            # Where crates cannot be fetched, that is to be known soon.
            os.environ.setdefault("CARGO_NET_RETRY", "0")
            os.environ.setdefault("CARGO_HTTP_TIMEOUT", "10")
            try:
                super().run()
            except Exception as error:
                # One of an earlier build would not fit the rest.
                Path(self.get_dylib_ext_path(core, core.name)).unlink(missing_ok=True)
                print(error, file=sys.stderr)
                warn("the native core could not be built, for the reason above")

    return {"rust_extensions": [core], "cmdclass": {"build_rust": BuildCore}}


def arguments() -> dict[str, object]:
    """Return the arguments of `setup` for what the environment asks for."""
    choice = os.environ.get("BPETITE_NATIVE") or "auto"
    if choice not in CHOICES:
        sys.exit(f"BPETITE_NATIVE must be one of {', '.join(CHOICES)}, got {choice!r}")
    if choice == "never":
        return {}
    if shutil.which("cargo") is not None:
        return native_core(choice)
    if choice == "require":
        sys.exit(f"BPETITE_NATIVE=require: the native core needs Rust ({RUST}), found no cargo")
    warn(f"the native core needs Rust ({RUST}), found no cargo")
    return {}


def warn(reason: str) -> None:
    """Tell why the package is without the core. pip shows it with --verbose."""
    print(
        f"\nbpetite: {reason}\nbpetite: this is the package in pure Python: the same results, "
        "slower. BPETITE_NATIVE=require makes this an error.\n",
        file=sys.stderr,
        flush=True,
    )


setup(zip_safe=False, **arguments())
