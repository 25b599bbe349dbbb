"""Small chat templates that have every feature, and a tokenizer for them."""

from __future__ import annotations

from pathlib import Path

from bpetite import Tokenizer

FOLDER = Path(__file__).parents[1] / "data" / "chat"

TEMPLATES = {path.stem: path.read_text("utf-8") for path in sorted(FOLDER.glob("*.jinja"))}

CHATML = TEMPLATES["chatml"]
"""With tools, calls, answers of tools and reasoning."""

LITERALS = (
    *("<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<think>", "</think>", "<s>"),
    *("</s>", "<|header|>", "<|end_header|>", "<|eot|>", "[INST]", "[/INST]", "<|user|>", "<br>"),
    *("<|assistant|>", "<|system|>", "<|end|>", "<｜User｜>", "<｜Assistant｜>", "<image>"),
    *("<start_of_turn>", "<end_of_turn>", "<tool_response>", "</tool_response>"),
)


def tokenizer() -> Tokenizer:
    """Return a small tokenizer with the special tokens of all these templates."""
    return Tokenizer.train(
        "user assistant the weather is sunny, and what of it? the answer: the text", 300,
        special_tokens=LITERALS,
    )  # fmt: skip
