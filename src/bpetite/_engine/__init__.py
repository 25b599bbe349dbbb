"""The two engines: each does the slow work, and both have the same results."""
