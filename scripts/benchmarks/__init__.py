"""Compare the speed of bpetite with other libraries."""
