"""Programs of transformers, datasets and TRL run with `bpetite.transformers` as with their own.

They need torch: `scripts/test --doors` runs them in an environment of its own.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from support.engines import once

pytest.importorskip("torch")
pytest.importorskip("trl")

import torch
from datasets import Dataset
from tools.check_transformers import TEMPLATE
from transformers import (
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    DataCollatorWithPadding,
    GPT2Config,
    GPT2LMHeadModel,
    TextStreamer,
    pipeline,
)
from trl import SFTConfig, SFTTrainer

import bpetite
from bpetite.transformers import Tokenizer, accelerate
from conftest import TEXTS

pytestmark = once

ROWS = [text for text in TEXTS.values() if text] * 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    special_tokens = ("<|endoftext|>", "<|user|>", "<|assistant|>")
    bpetite.Tokenizer.train(ROWS, 400, special_tokens=special_tokens).save(folder)
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text())
    more = {"pad_token": "<|endoftext|>", "padding_side": "left", "chat_template": TEMPLATE}
    path.write_text(json.dumps({**config, **more}))
    return folder


@pytest.fixture(params=["Tokenizer", "accelerate"])
def pair(request: pytest.FixtureRequest, folder: Path) -> tuple[Any, Any]:
    """Return transformers' tokenizer and ours."""
    theirs, ours = (AutoTokenizer.from_pretrained(folder) for _ in range(2))
    if request.param == "Tokenizer":
        return theirs, Tokenizer.from_pretrained(folder)
    return theirs, accelerate(ours)


@pytest.fixture
def model() -> Any:
    torch.manual_seed(7)
    config = GPT2Config(vocab_size=448, n_positions=128, n_embd=16, n_layer=1, n_head=2)
    return GPT2LMHeadModel(config).eval()


def test_tensors_of_torch_are_the_same(pair: tuple[Any, Any]) -> None:
    theirs, ours = (each(ROWS, padding=True, return_tensors="pt") for each in pair)
    assert {name: (rows.dtype, rows.tolist()) for name, rows in ours.items()} == {
        name: (rows.dtype, rows.tolist()) for name, rows in theirs.items()
    }


def test_pipeline_generates_the_same(pair: tuple[Any, Any], model: Any) -> None:
    options = {"max_new_tokens": 8, "do_sample": False, "batch_size": 2}
    theirs, ours = (
        pipeline("text-generation", model=model, tokenizer=each)(["the men", "Hello"], **options)
        for each in pair
    )
    assert ours == theirs


def test_streamer_prints_the_same(pair: tuple[Any, Any], model: Any) -> None:
    printed = []
    for tokenizer in pair:
        with redirect_stdout(io.StringIO()) as output:
            model.generate(
                **tokenizer("the men", return_tensors="pt"),
                streamer=TextStreamer(tokenizer, skip_prompt=True),
                max_new_tokens=12,
                do_sample=False,
                pad_token_id=0,
            )
        printed.append(output.getvalue())
    assert printed[1] == printed[0] != ""


def test_stop_strings_stop_at_the_same_id(pair: tuple[Any, Any], model: Any) -> None:
    found = [
        model.generate(
            **tokenizer("the men", return_tensors="pt"),
            tokenizer=tokenizer,
            stop_strings=["e"],
            max_new_tokens=12,
            do_sample=False,
            pad_token_id=0,
        ).tolist()
        for tokenizer in pair
    ]
    assert found[1] == found[0]


def test_collators_make_the_same_batch(pair: tuple[Any, Any]) -> None:
    makers: tuple[Callable[[Any], Any], ...] = (
        lambda each: DataCollatorWithPadding(each, pad_to_multiple_of=8),
        lambda each: DataCollatorForLanguageModeling(each, mlm=False),
    )
    for make in makers:
        theirs, ours = (make(each)([each(row) for row in ROWS]) for each in pair)
        assert {name: rows.tolist() for name, rows in ours.items()} == {
            name: rows.tolist() for name, rows in theirs.items()
        }


@pytest.mark.parametrize("processes", [None, 2])
def test_datasets_map_to_the_same_rows(pair: tuple[Any, Any], processes: int | None) -> None:
    theirs, ours = (
        Dataset.from_dict({"text": ROWS})
        .map(
            lambda batch, each=each: each(batch["text"], truncation=True, max_length=20),
            batched=True,
            num_proc=processes,
            load_from_cache_file=False,
        )
        .to_dict()
        for each in pair
    )
    assert ours == theirs


def test_sft_trainer_prepares_and_learns_the_same(pair: tuple[Any, Any], tmp_path: Path) -> None:
    chats = [
        [{"role": "user", "content": row}, {"role": "assistant", "content": row[::-1]}]
        for row in ROWS
    ]
    found = []
    for number, tokenizer in enumerate(pair):
        torch.manual_seed(7)
        config = GPT2Config(vocab_size=448, n_positions=128, n_embd=16, n_layer=1, n_head=2)
        arguments = SFTConfig(
            output_dir=str(tmp_path / str(number)),
            max_length=64,
            max_steps=2,
            per_device_train_batch_size=2,
            assistant_only_loss=True,
            use_cpu=True,
            report_to=[],
            bf16=False,
            gradient_checkpointing=False,
            seed=7,
        )
        trainer = SFTTrainer(
            model=GPT2LMHeadModel(config),
            args=arguments,
            train_dataset=Dataset.from_dict({"messages": chats}),
            processing_class=tokenizer,
        )
        rows = trainer.train_dataset.to_dict()
        found.append((rows, trainer.train().training_loss))
    assert found[1] == found[0]
