"""Piece counts: how often each piece occurs in a text, in memory and in files."""
