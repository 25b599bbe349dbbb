"""Build the native core if Rust is there; without it the package is pure Python, and works.

BPETITE_NATIVE=require fails without it, BPETITE_NATIVE=never does not try.
"""

import os
import shutil

from setuptools import setup

CHOICES = ("auto", "require", "never")


def native_extensions() -> list[object]:
    """Return the extensions to build: the native core, or none."""
    choice = os.environ.get("BPETITE_NATIVE", "auto")
    if choice not in CHOICES:
        raise SystemExit(f"BPETITE_NATIVE must be one of {', '.join(CHOICES)}, not {choice!r}")
    if choice == "never" or (choice == "auto" and shutil.which("cargo") is None):
        return []
    from setuptools_rust import Binding, RustExtension

    return [
        RustExtension(
            "bpetite._native",
            path="rust/Cargo.toml",
            binding=Binding.PyO3,
            features=["extension-module"],
            debug=False,
            optional=choice == "auto",
        )
    ]


setup(rust_extensions=native_extensions(), zip_safe=False)
