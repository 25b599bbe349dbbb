"""Live text from ids: streams, stop strings, tags, and vocabularies of other libraries."""
