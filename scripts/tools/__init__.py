"""The virtual environment, and the programs that write or check files of the project."""
