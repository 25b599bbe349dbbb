"""Search for input on which the engines differ."""
