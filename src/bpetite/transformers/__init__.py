"""A tokenizer of transformers whose ids and texts come from this package.

`bpetite.transformers.Tokenizer` loads a folder, and `accelerate` takes a tokenizer that is loaded
already. Padding, tensors, chat templates and files stay transformers' own code. This needs
transformers, in the extra `transformers`; docs/transformers.md says what differs.
"""

from bpetite.transformers._tokenizer import Tokenizer, accelerate

__all__ = ["Tokenizer", "accelerate"]
