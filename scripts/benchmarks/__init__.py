"""Measure bpetite beside other libraries."""
