"""The virtual environment, and programs that write or check files of the project."""
