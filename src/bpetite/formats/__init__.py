"""Vocabularies in files: our own and those of other libraries, recognised by what they hold.

    bpetite      one JSON file, docs/vocabulary-file.md
    tiktoken     a .tiktoken file: base64 and rank
    gpt2         vocab.json, and merges.txt beside it
    huggingface  tokenizer.json, or a model folder with tokenizer_config.json too

`Tokenizer.load` and `Tokenizer.save` read and write them all.
"""

from bpetite.formats._home import first_difference
from bpetite.formats._registry import FORMATS, format_of_path, recognise
from bpetite.formats._verify import Verifier

__all__ = ["FORMATS", "Verifier", "first_difference", "format_of_path", "recognise"]
