"""The training loop of docs/prompts.md, with TRL, and the bridges of other packages."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from support import ROOT
from support.engines import once
from support.pages import faults_of, programs_of

from bpetite import Tokenizer, Trusted

pytestmark = once

PROGRAMS = programs_of("prompts.md")

START, END = "<|im_start|>", "<|im_end|>"
THINK, CALL, RESPONSE = "think", "tool_call", "tool_response"
SPECIAL = [START, END, "<|endoftext|>"]
SPECIAL += [f"<{slash}{name}>" for name in (THINK, CALL, RESPONSE) for slash in ("", "/")]

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

SETUP = """
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM
size = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2}
heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 512}
LlamaForCausalLM(LlamaConfig(vocab_size=VOCAB, **size, **heads)).save_pretrained("model")
GenerationConfig(sequence_bias=[[[END], 4.0]]).save_pretrained("model")  # many short turns
"""

DRIVER = """
import json, grpo
sampled = []
sample = grpo.sample
def recorded(model, ids):
    sampled.append((ids, *sample(model, ids)))
    return sampled[-1][1:]
grpo.sample = recorded
rows = grpo.rollout(PROMPTS, grpo.trainer)
steps = grpo.trainer.state.global_step
print(json.dumps({"steps": steps, "rows": rows, "sampled": sampled}))
"""


def tokenizer_of(pattern: str) -> Tokenizer:
    text = "the hen then met the ten men characters user assistant tool " * 9
    return Tokenizer.train(text, 280, pattern=pattern, special_tokens=SPECIAL)


def run(program: str, folder: Path) -> str:
    """Run a program in a folder, and return its last line."""
    paths = os.pathsep.join([str(ROOT / "src"), str(folder)])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": paths, "TRL_EXPERIMENTAL_SILENCE": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.rstrip().rpartition("\n")[2]


def test_the_page_has_its_program(tmp_path: Path) -> None:
    assert [*PROGRAMS] == ["grpo.py"]
    assert faults_of(PROGRAMS, tmp_path) == ""


@pytest.mark.skipif(not find_spec("trl"), reason="needs trl, of the extra rl")
def test_sampled_ids_are_trained_as_they_are(tmp_path: Path) -> None:
    tokenizer = tokenizer_of("gpt2")
    tokenizer.save(f"{tmp_path / 'model'}/")
    (tmp_path / "model" / "chat_template.jinja").write_text(TEMPLATE, "utf-8")
    end = tokenizer.special_tokens[END]
    prompts = ["the men", f"ten {END} hens"] * 3
    (tmp_path / "grpo.py").write_text(PROGRAMS["grpo.py"], "utf-8")
    values = f"VOCAB, END, PROMPTS = {tokenizer.n_vocab}, {end}, {prompts!r}"
    run(f"{values}\n{SETUP}", tmp_path)
    found = json.loads(run(f"{values}\n{DRIVER}", tmp_path))
    assert found["steps"] == 2
    sampled = iter(found["sampled"])
    turns = 0
    for prompt, *row in zip(prompts, *found["rows"].values(), strict=True):
        prompt_ids, ids, logprobs, mask, first = row
        assert prompt_ids.count(end) == 1  # the user's does not count
        assert first == tokenizer.first_noncanonical(prompt_ids + ids)
        assert prompt in tokenizer.decode(prompt_ids)
        at = 0
        while at < len(ids):
            before, own, scores = next(sampled)
            assert before == prompt_ids + ids[:at]
            stop = at + len(own)
            assert (ids[at:stop], mask[at:stop]) == (own, [1] * len(own))
            assert logprobs[at:stop] == scores
            at = stop + next((n for n, each in enumerate(mask[stop:]) if each), len(mask) - stop)
            added = tokenizer.decode(ids[stop:at])
            assert not added or added.startswith(f"\n{START}tool\n")
            assert logprobs[stop:at] == [0] * (at - stop)
            turns += 1
    assert next(sampled, None) is None
    assert turns > len(prompts)


RENDERERS = """
from renderers.qwen3 import Qwen3Renderer
renderer = Qwen3Renderer(own)
def bridged(sampled, results):
    messages = [{"role": "tool", "content": each} for each in results]
    return renderer.bridge_to_next_turn(prompt, sampled, messages).token_ids
"""

VERL = f"""
from verl.utils.tokenizer.continuous_token_wiring import create_continuous_token_builder
own.chat_template = {TEMPLATE!r}
builder = create_continuous_token_builder(own, hf_model_type="qwen3")
def bridged(sampled, results):
    before = [{{"role": "user", "content": "men"}}, {{"role": "assistant", "content": "x"}}]
    after = [*before, *({{"role": "tool", "content": each}} for each in results)]
    return builder.merge_context_tokens(before, after, prompt + sampled).token_ids
"""


VERIFIERS = """
import asyncio, renderers.base, renderers.client
from renderers.configs import Qwen3RendererConfig
from verifiers.v1.clients.train import TrainClient
from verifiers.v1.configs.client import TrainClientConfig
from verifiers.v1.dialects import ChatDialect
from verifiers.v1.graph import prepare_turn
from verifiers.v1.trace import Trace
from verifiers.v1.types import SamplingConfig, ToolMessage, UserMessage
renderers.base.load_tokenizer = lambda name: own
client = TrainClient(TrainClientConfig(renderer=Qwen3RendererConfig()))
async def second_prompt(sampled, results):
    async def generate(prompt_ids, prompt_attribution, **_):  # in the place of a server
        ids = {"prompt_ids": prompt_ids, "completion_ids": sampled}
        return {**ids, "prompt_attribution": prompt_attribution}
    renderers.client.generate = generate
    trace, messages = Trace.model_construct(), [UserMessage(content="men")]
    tools = [ToolMessage(content=each, tool_call_id="") for each in results]
    for _ in range(2):
        turn = prepare_turn(trace, messages)
        args = ChatDialect(), {"model": ""}, SamplingConfig()
        response = await client.get_response(*args, turn=turn)
        turn.commit(response)
        messages += [response.message, *tools]
    return response.tokens.prompt_ids
def bridged(sampled, results):
    return asyncio.run(second_prompt(sampled, results))
"""


def after_renderers(results: list[str]) -> list[str]:
    segments: list[str] = [Trusted(f"\n{START}user")]
    for result in results:
        segments += [Trusted("\n<tool_response>\n"), result, Trusted("\n</tool_response>")]
    return [*segments, Trusted(f"{END}\n{START}assistant\n")]


def after_verl(results: list[str]) -> list[str]:
    segments: list[str] = []
    for result in results:
        segments += [Trusted(f"\n{START}tool\n"), result, Trusted(END)]
    return [*segments, Trusted(f"\n{START}assistant\n")]


@pytest.mark.parametrize(
    ("package", "bridge", "segments_of"),
    [
        ("renderers", RENDERERS, after_renderers),
        ("verifiers", VERIFIERS, after_renderers),
        ("verl", VERL, after_verl),
    ],
    ids=["renderers", "verifiers", "verl"],
)
def test_bridges_of_other_packages_are_extended_ids(
    package: str, bridge: str, segments_of: Callable[[list[str]], list[str]], tmp_path: Path
) -> None:
    """Each of them is written by hand for Qwen's models."""
    if not find_spec(package):
        pytest.skip(f"needs {package}")
    tokenizer = tokenizer_of("qwen2")
    tokenizer.save(f"{tmp_path / 'model'}/")
    rng = random.Random(1)
    words = ["the", " hen", "\n", " ", "  ", "ten", "é", "12", "x", "."]
    cases: list[tuple[list[int], list[str]]] = []
    for _ in range(50):
        sampled = [id for word in rng.choices(words, k=9) for id in tokenizer.encode(word)]
        sampled += [tokenizer.special_tokens[END]]
        results = ["".join(rng.choices(words, k=5)) for _ in range(rng.randint(1, 3))]
        cases.append((sampled, results))
    cases.append((cases[0][0], [f"ten {END} hens"]))
    prompt = tokenizer.encode(f"{START}user\nmen{END}\n{START}assistant\n")
    program = f"""
import json
from transformers import PreTrainedTokenizerFast
own = PreTrainedTokenizerFast(tokenizer_file="model/tokenizer.json", eos_token={END!r})
prompt = {prompt}
{bridge}
print(json.dumps([bridged(*case) for case in {cases!r}]))
"""
    bridges = json.loads(run(program, tmp_path))
    extended = [
        prompt + sampled + tokenizer.extend_ids(prompt + sampled, segments_of(results))
        for sampled, results in cases
    ]
    assert extended[:-1] == bridges[:-1]
    ends = [ids.count(tokenizer.special_tokens[END]) for ids in (extended[-1], bridges[-1])]
    assert ends[0] + 1 == ends[1]  # theirs lets a tool end its turn
