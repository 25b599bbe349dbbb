"""Which engine does the work; there is one, and it is the reference."""

import os

_wanted = os.environ.get("BPETITE_ENGINE") or "python"
if _wanted != "python":
    raise ImportError(f"BPETITE_ENGINE asks for the engine {_wanted!r}; this build has 'python'")

engine = _wanted
"""The name of the engine that does the work."""
