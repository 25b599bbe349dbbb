"""The page of `bpetite serve`."""
