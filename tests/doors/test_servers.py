"""vLLM and SGLang encode and detokenize by the plugins of docs/engines.md.

They need torch: `scripts/test --doors` runs them in an environment of its own.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from support.byte_fallback import SETTINGS, SPACE, document_of
from support.engines import once
from support.pages import programs_of

import bpetite

pytest.importorskip("torch")
PROGRAMS = programs_of("engines.md")
pytestmark = [once, pytest.mark.filterwarnings("ignore")]

END = "<|end|>"
WORDS = ["the", " hen", " met", " é", "🙂", " 你好", "\n", ".", " STOP", " men", " ten"]


@pytest.fixture(scope="module", params=["byte-level", "Llama 2, Phi-3", "Gemma"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a small model."""
    folder = tmp_path_factory.mktemp("model")
    if request.param == "byte-level":
        made = bpetite.Tokenizer.train("".join(WORDS) * 9, 290, special_tokens=[END, "<|user|>"])
        made.save(folder)
    else:
        pairs = [("t", "h"), ("th", "e"), (SPACE, "m"), ("e", "n"), (f"{SPACE}m", "en")]
        file = document_of(f"themnSTOP.é{SPACE}", pairs, **SETTINGS[request.param])
        (folder / "tokenizer.json").write_text(json.dumps(file), "utf-8")
        config = {"tokenizer_class": "PreTrainedTokenizerFast"}
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    return folder


@pytest.fixture(scope="module")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Install the programs of the page as packages whose plugins the servers find."""
    folder = tmp_path_factory.mktemp("installed")
    for server, group in (("vllm", "vllm.general_plugins"), ("sglang", "sglang.srt.plugins")):
        name = f"bpetite_{server}"
        (folder / f"{name}.py").write_text(PROGRAMS[f"{name}.py"], "utf-8")
        about = folder / f"{name}-1.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        (about / "entry_points.txt").write_text(f"[{group}]\nbpetite = {name}:register\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield folder


class Case(NamedTuple):
    """The ids of a prompt and of an answer in steps, and what ends the answer."""

    prompt_ids: list[int]
    steps: list[list[int]]
    stop: list[str]
    min_tokens: int = 0
    keeps_stop: bool = False
    skips: bool = True
    ends_by_id: bool = False

    @classmethod
    def random(cls, tokenizer: Any, rng: random.Random) -> Case:
        def some_ids(count: int) -> list[int]:
            ids = list[int]()
            for _ in range(count):
                text = rng.choice(WORDS)
                ids += tokenizer.encode(text, add_special_tokens=False)
                ids += [specials[-1]] if rng.random() < 0.1 else []
            return ids

        specials = [*tokenizer.added_tokens_decoder]
        ids = some_ids(rng.randrange(12))
        steps = []
        while ids:
            size = rng.randint(1, 3)
            steps.append(ids[:size])
            ids = ids[size:]
        ends_by_id = bool(steps) and rng.random() < 0.3
        if ends_by_id:
            steps[-1] = [*steps[-1], specials[0]]
        stop = rng.choice([[], [], ["STOP"], ["é"], ["🙂 m", "e t"], ["n"]])
        min_tokens, keeps_stop, skips = rng.choice([0, 0, 3]), *rng.choices([False, True], k=2)
        return cls(some_ids(2), steps, stop, min_tokens, keeps_stop, skips, ends_by_id)


# vLLM


@pytest.fixture
def theirs(plugins: Path) -> Iterator[Any]:
    """Load the plugin into vLLM, and return vLLM's own detokenizer."""
    pytest.importorskip("vllm")
    from vllm import plugins as loader
    from vllm.v1.engine import detokenizer

    own = detokenizer.FastIncrementalDetokenizer
    loader.plugins_loaded = False
    loader.load_general_plugins()
    [program] = plugins.glob("bpetite_vllm.py")
    assert detokenizer.FastIncrementalDetokenizer.__module__ == program.stem
    yield own
    detokenizer.FastIncrementalDetokenizer = own


def vllm_tokenizer(folder: Path, mode: str) -> Any:
    from vllm.tokenizers import get_tokenizer

    return get_tokenizer(str(folder), tokenizer_mode=mode)


def vllm_request(case: Case) -> Any:
    from vllm.sampling_params import RequestOutputKind, SamplingParams
    from vllm.v1.engine import EngineCoreRequest

    params = SamplingParams(
        stop=case.stop,
        min_tokens=case.min_tokens,
        max_tokens=None,
        include_stop_str_in_output=case.keeps_stop,
        skip_special_tokens=case.skips,
        output_kind=RequestOutputKind.DELTA,
    )
    request = EngineCoreRequest("a", case.prompt_ids, None, params, None, 0.0, None, None, None)
    request.external_req_id = "a"
    return request


@pytest.mark.usefixtures("theirs")
def test_vllm_encodes_with_our_engine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, ours = (vllm_tokenizer(folder, mode) for mode in ("hf", "bpetite"))
    text = "".join(WORDS)
    assert ours.encode(text) == own.encode(text)
    assert (ours.max_token_id, ours.all_special_ids) == (own.max_token_id, own.all_special_ids)
    monkeypatch.delattr(bpetite.Tokenizer, "encode_batch")
    own.encode(text)
    with pytest.raises(AttributeError, match="encode_batch"):
        ours.encode(text)


def test_vllm_streams_as_with_its_own_detokenizer(folder: Path, theirs: Any) -> None:
    """No text comes later than vLLM's; stop, ids and the whole text are the same."""
    from vllm.v1.engine.detokenizer import IncrementalDetokenizer

    tokenizer, rng = vllm_tokenizer(folder, "bpetite"), random.Random(0)
    n_stops = 0
    for _ in range(600):
        case = Case.random(tokenizer, rng)
        request = vllm_request(case)
        pair = (
            theirs(tokenizer, request),
            IncrementalDetokenizer.from_new_request(tokenizer, request),
        )
        assert type(pair[1]).__module__ == "bpetite_vllm"
        texts = ["", ""]
        stopped: list[str | None] = [None, None]
        for number, ids in enumerate(case.steps, 1):
            is_last = number == len(case.steps)
            stopped = [each.update(ids, case.ends_by_id and is_last) for each in pair]
            ended = is_last or stopped[0] is not None
            for place, each in enumerate(pair):
                texts[place] += each.get_next_output_text(ended, delta=True)
            assert case.keeps_stop or texts[1].startswith(texts[0])
            if ended:
                break
        assert stopped[0] == stopped[1]
        assert texts[0] == texts[1]
        assert pair[0].output_token_ids == pair[1].output_token_ids
        assert pair[0].num_output_tokens() == pair[1].num_output_tokens()
        assert pair[1].get_next_output_text(True, delta=False) == texts[1]
        n_stops += stopped[1] is not None
    assert n_stops > 60


@pytest.mark.usefixtures("theirs")
@pytest.mark.parametrize(
    ("stop", "keeps_stop", "min_tokens", "text", "reason"),
    [
        (["men"], False, 0, "the hen met the ten ", "men"),
        (["men"], True, 0, "the hen met the ten men", "men"),
        (["met the"], False, 0, "the hen ", "met the"),
        (["STOP"], False, 0, "the hen met the ten men. the", None),
        (["e"], False, 0, "th", "e"),
        (["e"], False, 9, "the hen m", "e"),
        (["n.", "men."], False, 0, "the hen met the ten ", "men."),  # both end together
    ],
)
def test_vllm_stops(
    stop: list[str],
    keeps_stop: bool,
    min_tokens: int,
    text: str,
    reason: str | None,
    tmp_path: Path,
) -> None:
    """Each answer, from the ids of the engine to the outputs of vLLM's own output processor."""
    from vllm.v1.engine import EngineCoreOutput, FinishReason
    from vllm.v1.engine.output_processor import OutputProcessor

    bpetite.Tokenizer.train("", 256, special_tokens=[END]).save(tmp_path)
    tokenizer = vllm_tokenizer(tmp_path, "bpetite")
    ids = tokenizer.encode("the hen met the ten men. the")
    case = Case([], [], stop, min_tokens, keeps_stop)
    processor = OutputProcessor(tokenizer, log_stats=False)
    processor.add_request(vllm_request(case), "")
    found, reasons = "", list[Any]()
    for number, id in enumerate(ids, 1):
        end = FinishReason.LENGTH if number == len(ids) else None
        step = processor.process_outputs([EngineCoreOutput("a", [id], finish_reason=end)])
        for output in step.request_outputs:
            found += output.outputs[0].text
            reasons.append((output.outputs[0].finish_reason, output.outputs[0].stop_reason))
        if step.reqs_to_abort:
            break
    assert found == text
    assert reasons[-1] == (("stop", reason) if reason else ("length", None))
    assert set(reasons[:-1]) <= {(None, None)}


@pytest.mark.usefixtures("theirs")
@pytest.mark.parametrize(
    ("prompt", "ids", "text"),
    [
        pytest.param(b"a\xf0\x9f", [0x99, 0x82, 0x62], "🙂b", id="a prompt ends in a character"),
        pytest.param(b"", [0x61, 999_999, 0x62], "ab", id="an id that the vocabulary lacks"),
        pytest.param(b"", [0xFF] * 80 + [0x61], "\ufffd" * 80 + "a", id="stray bytes"),
        pytest.param(b"\xe4\xbd", [0x61, 0xE4, 0xBD, 0xA0], "\ufffda你", id="half a character"),
        pytest.param(b"", [0xE4, 0xBD], "\ufffd", id="an answer ends in a character"),
    ],
)
def test_vllm_shows_every_byte(prompt: bytes, ids: list[int], text: str, tmp_path: Path) -> None:
    bpetite.Tokenizer.train("", 256, special_tokens=[END]).save(tmp_path)
    from vllm.v1.engine.detokenizer import IncrementalDetokenizer

    tokenizer = vllm_tokenizer(tmp_path, "bpetite")
    request = vllm_request(Case([*prompt], [], []))
    made = IncrementalDetokenizer.from_new_request(tokenizer, request)
    shown = ""
    for id in ids:
        made.update([id], False)
        shown += made.get_next_output_text(False, delta=True)
    assert shown + made.get_next_output_text(True, delta=True) == text
    assert made.output_token_ids == ids


# SGLang


@pytest.fixture
def managers(plugins: Path, folder: Path) -> Iterator[tuple[Any, Any]]:
    """Return SGLang's manager of detokenization, and the one of the plugin."""
    pytest.importorskip("sglang")
    from sglang.srt import plugins as loader
    from sglang.srt.managers import detokenizer_manager as module
    from sglang.srt.plugins.hook_registry import HookRegistry

    own = module.DetokenizerManager

    def manager(cls: Any, tokenizer: Any) -> Any:
        made = cls.__new__(cls)
        made.tokenizer, made.vocab_size = tokenizer, len(tokenizer)
        made.decode_status = module.LimitedCapacityDict(1000)
        made.disable_tokenizer_batch_decode = made.is_tool_call_parser_gpt_oss = False
        made.tool_close_token_ids = ()
        return made

    theirs = manager(type("Own", (own,), dict(vars(own))), module.get_tokenizer(str(folder)))
    before = module.get_tokenizer, own._decode_batch_token_id_output
    loader._plugins_loaded = False
    loader.load_plugins()
    assert own._decode_batch_token_id_output is not before[1], f"no plugin of {plugins}"
    yield theirs, manager(own, module.get_tokenizer(str(folder)))
    module.get_tokenizer, own._decode_batch_token_id_output = before
    import sglang.srt.utils.hf_transformers_utils as utils

    utils.get_tokenizer = before[0]
    HookRegistry.reset()


def test_sglang_encodes_with_our_engine(
    managers: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    own, ours = (manager.tokenizer for manager in managers)
    text = "".join(WORDS)
    assert ours.encode(text) == own.encode(text)
    monkeypatch.delattr(bpetite.Tokenizer, "encode_batch")
    own.encode(text)
    with pytest.raises(AttributeError, match="encode_batch"):
        ours.encode(text)


def test_sglang_streams_as_with_its_own_detokenizer(managers: tuple[Any, Any]) -> None:
    """Each batch has a step of many requests; their joined texts are the same."""
    tokenizer, rng = managers[0].tokenizer, random.Random(0)
    waiting = {
        f"request {number}": Case.random(tokenizer, rng)._replace(stop=[]) for number in range(300)
    }
    waiting = {name: case for name, case in waiting.items() if case.steps}
    at = dict.fromkeys(waiting, 0)
    found = [dict.fromkeys(waiting, "") for _ in managers]
    while at:
        names = rng.sample([*at], (len(at) + 1) // 2)
        rows = []
        for name in names:
            case, number = waiting[name], at[name]
            ids = [*(case.prompt_ids if not number else ()), *case.steps[number]]
            reason = None
            at[name] += 1
            if at[name] == len(case.steps):
                del at[name]
                reason = {"type": "stop", "matched": ids[-1] if case.ends_by_id else None}
            rows.append((ids, len(case.prompt_ids), reason, case.keeps_stop, case.skips))
        ids, offsets, reasons, keep, skip = map(list, zip(*rows, strict=True))
        for texts, manager in zip(found, managers, strict=True):
            batch = SimpleNamespace(
                rids=names,
                decode_ids=[[*each] for each in ids],
                decoded_texts=[""] * len(names),
                read_offsets=offsets,
                finished_reasons=reasons,
                no_stop_trim=keep,
                skip_special_tokens=skip,
                spaces_between_special_tokens=[True] * len(names),
            )
            for name, text in zip(names, manager._decode_batch_token_id_output(batch), strict=True):
                texts[name] += text
    assert found[0] == found[1]
    assert not managers[1].decode_status
