"""Run `python -m fuzzing`, with the folder scripts on PYTHONPATH."""

from fuzzing.main import main

main()
