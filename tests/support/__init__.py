"""Helpers of several test modules: the reference, tables of cases, and functions."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

DATA = ROOT.parent / "shared" / "data"
"""Public vocabularies and large texts; tests that need them skip if the folder is missing."""
