"""Programs of applications on other libraries, and their ports."""
