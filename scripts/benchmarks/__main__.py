"""Run `python -m benchmarks`, with the folder scripts on PYTHONPATH."""

from benchmarks.main import main

main()
