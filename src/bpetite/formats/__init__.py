"""Vocabularies in files: our own format and the formats of other libraries.

    bpetite        one JSON file, docs/vocabulary-file.md
    tiktoken       a .tiktoken file: base64 and rank
    tekken         Mistral's tekken.json, which is read only
    sentencepiece  a model of type BPE with byte fallback, which is read only
    gpt2           vocab.json, with merges.txt next to it
    huggingface    tokenizer.json, or a model folder with tokenizer_config.json too

`Tokenizer.load` recognises a format by its content; `Tokenizer.save` goes by the path.
"""

from bpetite.formats._registry import FORMATS, format_of_path, recognise

__all__ = ["FORMATS", "format_of_path", "recognise"]
