"""Token files for other libraries' trainers, one module per format."""

from __future__ import annotations

from types import MappingProxyType

from bpetite.corpora._token_files.datatrove import Datatrove
from bpetite.corpora._token_files.llmc import Llmc
from bpetite.corpora._token_files.megatron import Megatron
from bpetite.corpora._token_files.nanogpt import NanoGpt
from bpetite.corpora._token_files.olmo import Olmo
from bpetite.corpora._token_files.parquet import Parquet

FORMATS = MappingProxyType(
    {
        format.name: format
        for format in (Megatron(), Datatrove(), Llmc(), NanoGpt(), Olmo(), Parquet())
    }
)
