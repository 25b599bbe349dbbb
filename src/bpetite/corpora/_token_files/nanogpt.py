"""nanoGPT: `train.bin` and `val.bin`, ids of two bytes and nothing else."""

from __future__ import annotations

from bpetite.corpora._token_files.raw import RawFormat, uint16_only


class NanoGpt(RawFormat):
    """Each document ends with the end-of-text token."""

    name = "nanogpt"
    extension = ".bin"
    one_file = True

    def dtype(self, vocab_size: int) -> str:
        return uint16_only(vocab_size, self.name)
