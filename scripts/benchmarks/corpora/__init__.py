"""Corpora: speed and memory of `bpetite tokenize`, its stages, and other libraries' tools."""
