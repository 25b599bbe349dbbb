"""nanoGPT: `train.bin` and `val.bin`, ids of two bytes and nothing else."""

from __future__ import annotations

from bpetite.corpora._token_files.raw import RawFormat


class NanoGpt(RawFormat):
    """Each document ends with the end-of-text token."""

    name = "nanogpt"
    extension = ".bin"
    one_file = True

    def dtype(self, vocab_size: int) -> str:
        if vocab_size > 1 << 16:
            raise ValueError(
                f"{self.name} files have 16 bits an id, too few for a vocabulary of {vocab_size} "
                "ids; choose another format"
            )
        return "uint16"
