"""The verb `convert`: a vocabulary in one format in, the same vocabulary in another out."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import tiktoken
from support.cli import (
    RAW,
    SPECIAL,
    TEXT,
    TOKENIZER,
    Result,
    failure,
    in_process,
    installed,
    run,
    saved,
)
from support.cli import folder as folder  # a fixture
from support.cli import public_ranks as public_ranks  # a fixture
from support.engines import quick_once
from support.examples import slow_except
from support.programs import posix_only

from bpetite import Tokenizer

pytestmark = quick_once

FORMATS = ("bpetite", "tiktoken", "gpt2", "huggingface", "folder")

GIVEN = {"tiktoken": ("--pattern", "gpt2", *SPECIAL)}
"""The settings that a format does not record, as options."""

OUTPUTS = {
    "bpetite": ["out/new.json"],
    "tiktoken": ["out/new.tiktoken"],
    "gpt2": ["out/merges.txt", "out/vocab.json"],
    "huggingface": ["out/tokenizer.json"],
    "folder": ["out/new/tokenizer.json", "out/new/tokenizer_config.json"],
}
"""The files of each format; OUT is the last of them, or its folder."""

HOMES = {"tiktoken": ", tiktoken", "bpetite": ""}
"""The reference library of a format, as messages show it; otherwise it is tokenizers."""

NOTES = {
    "tiktoken": "; this file does not record the pattern and the special tokens; to convert it "
    "again, add --pattern gpt2 --special-token '<|endoftext|>=290' --special-token '<|pad|>=291'",
    "gpt2": "; these files do not record the pattern, which is GPT-2's",
}
"""The notes on a format after a conversion."""


@pytest.fixture(autouse=True)
def _out(folder: Path) -> None:
    (folder / "out").mkdir()
    (folder / "text.txt").write_bytes(RAW)


def out(format: str) -> str:
    """Return the OUT of a format; make the folder of a model folder."""
    if format == "folder":
        Path("out/new").mkdir()
        return str(Path("out/new"))
    return str(Path(OUTPUTS[format][-1]))


def loaded(path: str) -> Tokenizer:
    """Load a file of TOKENIZER in any format."""
    if not path.endswith(".tiktoken"):
        return Tokenizer.load(path)
    return Tokenizer.load(path, pattern="gpt2", special_tokens=TOKENIZER.special_tokens)


def written() -> dict[str, bytes]:
    """Return every file in the folder of OUT."""
    return {
        path.relative_to("out").as_posix(): path.read_bytes() if path.is_file() else b""
        for path in Path("out").rglob("*")
    }


# From any format to any other


@pytest.mark.parametrize("target", FORMATS)
@pytest.mark.parametrize("source", slow_except(FORMATS, FORMATS[0], FORMATS[-1]))
def test_any_format_becomes_any_other(source: str, target: str) -> None:
    """With the ids of each library."""
    path, model = out(target), saved(TOKENIZER, source)
    options = (*GIVEN.get(source, ()), "--verify", "text.txt")
    result = in_process("convert", model, path, *options)
    files = " and ".join(str(Path(name)) for name in OUTPUTS[target])
    format = "huggingface" if target == "folder" else target
    words = f"bpetite: wrote {files}: {format}, 292 ids{NOTES.get(target, '')}"
    home, other_home = (HOMES.get(format, ", tokenizers") for format in (source, target))
    comparison = compared(f"{model} (bpetite{home})", f"{path} (bpetite{other_home})")
    assert result == Result(0, b"", [comparison, words])
    assert loaded(path) == TOKENIZER
    assert sorted(name for name in written() if name != "new") == [
        name.removeprefix("out/") for name in OUTPUTS[target]
    ]


def test_bytes_may_have_any_ids() -> None:
    document = json.loads(Path(saved(TOKENIZER, "huggingface")).read_text("utf-8"))
    vocab = document["model"]["vocab"]
    vocab["a"], vocab["~"] = vocab["~"], vocab["a"]
    Path("tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    for first, second in (("tokenizer.json", "out/vocab.json"), ("out/vocab.json", "out/new.json")):
        assert in_process("convert", first, second).code == 0
    assert Tokenizer.load("out/new.json") == Tokenizer.load("tokenizer.json")
    assert Tokenizer.load("out/new.json").encode("a~") == [126, 97]


@pytest.mark.parametrize("format", ["bpetite", "tiktoken", "huggingface"])
def test_to_sets_the_format_of_out(format: str) -> None:
    expected = in_process("convert", "model.json", out(format))
    same = in_process("convert", "model.json", "out/same", "--to", format)
    if format == "huggingface":  # a name that does not end in .json is a folder's
        assert Path("out/same/tokenizer.json").read_bytes() == Path(out(format)).read_bytes()
    else:
        assert Path("out/same").read_bytes() == Path(out(format)).read_bytes()
    assert (expected.code, same.code) == (0, 0)


@pytest.mark.parametrize("end", ["", "/"])
def test_to_huggingface_makes_a_model_folder(end: str) -> None:
    result = in_process("convert", "model.json", f"out/new{end}", "--to", "huggingface")
    assert (result.code, sorted(written())) == (
        0,
        ["new", "new/tokenizer.json", "new/tokenizer_config.json"],
    )
    assert Tokenizer.load("out/new") == TOKENIZER


def test_from_sets_the_format_of_in() -> None:
    right = in_process("convert", "model.json", "out/new.json", "--from", "bpetite")
    assert right.code == 0
    wrong = in_process("convert", "model.json", "out/other.json", "--from", "huggingface")
    assert (wrong.code, wrong.out, len(wrong.err)) == (1, b"", 1)
    assert wrong.err[0].startswith("bpetite: model.json: ")
    assert list(written()) == ["new.json"]


# Settings that IN does not record


def test_literal_may_have_an_equals_sign() -> None:
    tokenizer = Tokenizer.train(TEXT, 260, special_tokens=("<a=1>", "=", "b=="))
    path = saved(tokenizer, "tiktoken")
    options = ["--special-token=<a=1>=260", "--special-token", "==261", "--special-token=b===262"]
    result = in_process("convert", path, "out/new.json", "--pattern=gpt2", *options)
    assert result.code == 0
    assert Tokenizer.load("out/new.json") == tokenizer


@pytest.mark.slow  # tries its pattern on each character
def test_suggested_options_work() -> None:
    tokenizer = Tokenizer.train(
        TEXT, 260, pattern=r"[\s\S]| ?\p{L}+|'s", special_tokens=("it's", "<| |>")
    )
    tokenizer.save("other.json")
    told = in_process("convert", "other.json", "out/new.tiktoken").err[0].partition("add ")[2]
    result = in_process("convert", "out/new.tiktoken", "out/again.json", *shlex.split(told))
    assert result.code == 0
    assert Tokenizer.load("out/again.json") == tokenizer


def test_suggestion_without_special_tokens() -> None:
    Tokenizer.train("", 256, pattern="qwen2", special_tokens=()).save("other.json")
    words = in_process("convert", "other.json", "out/new.tiktoken").err[0]
    assert words.endswith("; to convert it again, add --pattern qwen2")


def test_public_vocabulary_needs_no_options(public_ranks: str) -> None:
    assert in_process("convert", public_ranks, "out/new.json").code == 0
    assert Tokenizer.load("out/new.json") == TOKENIZER
    result = in_process("convert", "out/new.json", "out/again.tiktoken")
    assert result.err[0].endswith(
        "this file does not record the pattern and the special tokens, but bpetite knows both for "
        "this public vocabulary"
    )


@pytest.mark.parametrize(
    ("option", "what"),
    [(["--pattern=o200k"], "pattern"), (["--special-token=<new>=999"], "special tokens")],
)
def test_public_ranks_that_would_read_otherwise_are_refused(
    public_ranks: str, option: list[str], what: str
) -> None:
    result = in_process("convert", public_ranks, "out/again.tiktoken", *SPECIAL, *option)
    assert result == failure(
        f"out/again.tiktoken: load knows these public ranks, and would lose the {what} of this "
        "vocabulary; save it as .json or tokenizer.json, which hold all"
    )
    assert written() == {}


@pytest.mark.parametrize("options", [("--pattern", "gpt2"), ("--special-token", "<a>=300")])
@pytest.mark.parametrize("format", ["bpetite", "huggingface", "folder"])
def test_recorded_settings_refuse_options(format: str, options: tuple[str, str]) -> None:
    result = in_process("convert", saved(TOKENIZER, format), "out/new.json", *options)
    assert (result.code, result.out, len(result.err)) == (1, b"", 1)
    assert "the file has its own" in result.err[0]
    assert written() == {}


def test_special_token_has_one_id() -> None:
    tokens = ("--special-token", "<a>=290", "--special-token", "<a>=291")
    path = saved(TOKENIZER, "tiktoken")
    result = in_process("convert", path, "out/new.json", "--pattern", "gpt2", *tokens)
    assert result == failure("the special token '<a>' has two ids")


@posix_only
def test_special_token_is_utf8_in_every_locale() -> None:
    tokenizer = Tokenizer.train(TEXT, 260, special_tokens=("«fin»",))
    path = saved(tokenizer, "tiktoken")
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    options = ("--pattern", "gpt2", "--special-token", "«fin»=260")
    assert run("convert", path, "out/new.json", *options, variables=locale).code == 0
    assert Tokenizer.load("out/new.json") == tokenizer


# Other tokens


@pytest.mark.parametrize("target", FORMATS)
def test_special_tokens_are_added(target: str) -> None:
    path = out(target)
    options = ["--add-special-token", "<|a=b|>", "--add-special-token=<|far|>=300"]
    result = in_process("convert", "model.json", path, *options, "--verify", "text.txt")
    expected = TOKENIZER.with_special_tokens({"<|far|>": 300, "<|a=b|>": 301})
    if target == "tiktoken":
        special_tokens = expected.special_tokens
        found = Tokenizer.load(path, pattern="gpt2", special_tokens=special_tokens)
    else:
        found = Tokenizer.load(path)
    assert (result.code, found) == (0, expected)


def test_first_tokens_and_new_special_tokens() -> None:
    options = ("--vocab-size", "270", "--add-special-token", "<|user|>")
    result = in_process("convert", "model.json", "out/new.json", *options)
    assert result == Result(0, b"", ["bpetite: wrote out/new.json: bpetite, 273 ids"])
    found = Tokenizer.load("out/new.json")
    assert found == TOKENIZER.with_vocab_size(270).with_special_tokens(["<|user|>"])


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--add-special-token=<|pad|>"], "'<|pad|>' is a special token already, with the id 291"),
        (["--add-special-token=x=97"], "the id 97 of 'x' is also the id of b'a'"),
        (["--add-special-token=x=400", "--add-special-token=x=401"], "token 'x' has two ids"),
        (["--add-special-token=x", "--add-special-token=x"], "token 'x' is given twice"),
        (["--add-special-token="], "a special token must not be empty"),
        (["--vocab-size=291"], "but this vocabulary has only 290 bytes and merges"),
    ],
)
def test_wrong_changes_are_refused(options: list[str], reason: str) -> None:
    result = in_process("convert", "model.json", "out/new.json", *options)
    assert (result.code, result.out, len(result.err)) == (1, b"", 1)
    assert reason in result.err[0]
    assert written() == {}


def test_verify_shows_what_a_new_special_token_changes() -> None:
    options = ("--add-special-token", "café", "--verify", "text.txt")
    result = in_process("convert", "model.json", "out/new.json", *options)
    assert (result.code, written()) == (1, {})
    assert "text.txt: " in result.err[-1]


def test_other_vocabulary_size_cannot_be_verified() -> None:
    options = ("--vocab-size", "270", "--verify", "text.txt")
    result = in_process("convert", "model.json", "out/new.json", *options)
    words = "--verify compares ids with IN, but --vocab-size changes them"
    assert (result.code, result.err[-1]) == (2, f"bpetite convert: error: {words}")


# Existing files


@pytest.mark.parametrize("format", FORMATS)
def test_only_force_replaces_files(format: str) -> None:
    path = out(format)
    before = {Path(name): b"before" for name in OUTPUTS[format]}
    for name in before:
        name.write_bytes(b"before")
    refused = in_process("convert", "model.json", path)
    first = str(next(iter(before)))
    if format == "gpt2":  # OUT is checked before its neighbour
        first = path
    assert refused == failure(f"{first}: exists; --force replaces it")
    assert {name: name.read_bytes() for name in before} == before
    replaced = in_process("convert", "model.json", path, "--force")
    assert (replaced.code, loaded(path)) == (0, TOKENIZER)


@pytest.mark.parametrize(
    ("format", "name"), [("gpt2", "merges.txt"), ("folder", "new/tokenizer_config.json")]
)
def test_one_existing_file_of_a_pair_refuses_both(format: str, name: str) -> None:
    path = out(format)
    Path("out", name).write_bytes(b"before")
    before = written()
    result = in_process("convert", "model.json", path)
    assert result == failure(f"{Path('out', name)}: exists; --force replaces it")
    assert written() == before


def test_vocabulary_may_replace_itself() -> None:
    path = saved(TOKENIZER, "tiktoken")
    result = in_process("convert", path, path, "--to=bpetite", "--force", *GIVEN["tiktoken"])
    assert (result.code, Tokenizer.load(path)) == (0, TOKENIZER)


# Refusals write nothing


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("none/new.json", "none/new.json: the folder none does not exist"),
        ("text.txt/new.json", "text.txt/new.json: the folder text.txt does not exist"),
    ],
)
def test_out_in_a_missing_folder_is_refused(path: str, reason: str) -> None:
    assert in_process("convert", "model.json", path) == failure(reason)
    assert sorted(os.listdir()) == ["model.json", "out", "text.txt"]


@posix_only
@pytest.mark.parametrize(
    ("out", "named"),
    [("new.tiktoken", "new.tiktoken"), ("vocab.json", "vocab.json"),
     ("tokenizer.json", "tokenizer.json"), ("inner", "inner/tokenizer.json")],
)  # fmt: skip
def test_file_that_does_not_fit_is_named_as_given(out: str, named: str) -> None:
    """The system limits the size of files here; a full disk has the same way."""
    Path("inner").mkdir()
    before = sorted(os.listdir())
    limited = ("sh", "-c", 'ulimit -f 1; exec "$@"', "sh", installed())
    result = run("convert", "model.json", out, command=limited)
    assert result == failure(f"{named}: File too large")
    assert (sorted(os.listdir()), os.listdir("inner")) == (before, [])


def test_missing_parent_folder_is_not_made() -> None:
    result = in_process("convert", "model.json", "none/new", "--to", "huggingface")
    assert result == failure(f"{Path('none/new')}: the folder none does not exist")
    assert sorted(os.listdir()) == ["model.json", "out", "text.txt"]


def test_file_is_no_model_folder() -> None:
    result = in_process("convert", "model.json", "text.txt", "--to", "huggingface", "--force")
    path = Path("text.txt", "tokenizer.json")
    assert result == failure(f"{path}: the folder text.txt does not exist")
    assert Path("text.txt").read_bytes() == RAW


def test_folder_is_no_single_file() -> None:
    result = in_process("convert", "model.json", "out", "--to", "tiktoken", "--force")
    assert result == failure("out: only a file can be replaced")
    assert written() == {}


@posix_only
@pytest.mark.skipif(os.name == "posix" and os.geteuid() == 0, reason="nothing is refused to root")
def test_read_only_folder_is_named() -> None:
    os.chmod("out", 0o500)
    result = in_process("convert", "model.json", "out/new.json")
    assert result == failure("out/new.json: the folder out is not writable")


def test_gpt2_needs_the_name_vocab_json() -> None:
    result = in_process("convert", "model.json", "out/new.json", "--to", "gpt2")
    assert result == failure(
        "out/new.json: expected a name that ends in vocab.json; merges.txt goes next to it"
    )


@pytest.mark.parametrize(
    ("pattern", "arguments", "reason"),
    [
        ("cl100k", ["out/vocab.json"], "it has a pattern other than GPT-2's"),
        (r"\w+", ["out/tokenizer.json"], "has a part that engines read differently"),
        (r"\w+", ["out/new.tiktoken"], "has a part that engines read differently"),
        (r"\w+", ["out/new", "--to", "huggingface"], "has a part that engines read differently"),
    ],
)
@pytest.mark.parametrize("options", [[], ["--force", "--verify", "text.txt"]], ids=str)
def test_changed_ids_are_refused_with_the_reason(
    pattern: str, arguments: list[str], reason: str, options: list[str]
) -> None:
    Tokenizer.train(TEXT, 280, pattern=pattern).save("other.json")
    result = in_process("convert", "other.json", *arguments, *options)
    assert (result.code, result.out, len(result.err)) == (1, b"", 1)
    assert reason in result.err[0]
    assert written() == {}


def test_missing_in_is_named() -> None:
    result = in_process("convert", "none.json", "out/new.json")
    assert result == failure("none.json: No such file or directory")
    assert written() == {}


# Losses of a format


def test_warning_is_one_line() -> None:
    Tokenizer.train(TEXT, 280, pattern=r"\p{L}+", special_tokens=()).save("other.json")
    result = in_process("convert", "other.json", "out/new.tiktoken")
    warning, words = result.err
    assert (result.code, result.out) == (0, b"")
    assert warning == (
        "bpetite: tiktoken drops the text that a pattern does not match, and this pattern does "
        "not match all text; bpetite keeps it"
    )
    assert words.startswith("bpetite: wrote out")


@pytest.fixture
def model_folder() -> str:
    """A model folder with settings that only our own format can also record."""
    path = saved(TOKENIZER, "folder")
    name = Path(path, "tokenizer.json")
    document = json.loads(name.read_text("utf-8"))
    document["added_tokens"][1]["special"] = False
    document["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
        ],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {
            "<|endoftext|>": {"id": "<|endoftext|>", "ids": [290], "tokens": ["<|endoftext|>"]}
        },
    }
    name.write_text(json.dumps(document), encoding="utf-8")
    config = {"bos_token": "<|endoftext|>", "chat_template": "{{ messages }}"}
    Path(path, "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return path


SETTINGS = "lost: bos_token, chat_template of the model folder"
ADDED = "lost: the ids that add_special_tokens adds"
KEPT = "lost: the special tokens that skip_special_tokens keeps"


@pytest.mark.parametrize(
    ("format", "lost"),
    [
        ("bpetite", []),
        ("folder", []),
        ("huggingface", [SETTINGS]),
        ("tiktoken", [SETTINGS, ADDED, KEPT]),
    ],
)
def test_losses_of_a_format_are_named(format: str, lost: list[str], model_folder: str) -> None:
    result = in_process("convert", model_folder, out(format), "--verify", "text.txt")
    assert result.code == 0
    assert [part for part in result.err[-1].split("; ") if part in (SETTINGS, ADDED, KEPT)] == lost


def test_added_tokens_of_spaces_are_whole_in_the_command(tmp_path: Path) -> None:
    TOKENIZER.save(tmp_path / "tokenizer.json", format="huggingface")
    document = json.loads(tmp_path.joinpath("tokenizer.json").read_text("utf-8"))
    flags = dict.fromkeys(("normalized", "lstrip", "rstrip", "single_word", "special"), False)
    id = TOKENIZER.n_vocab
    document["added_tokens"].append({"id": id, "content": "    ", **flags})
    tmp_path.joinpath("tokenizer.json").write_text(json.dumps(document), "utf-8")
    result = in_process("convert", str(tmp_path / "tokenizer.json"), out("tiktoken"))
    assert result.code == 0
    assert f"'    ={id}'" in result.err[-1] or f'"    ={id}"' in result.err[-1]
    assert result.err[-1].endswith("; lost: the added tokens that count in ordinary text")


def test_loss_that_could_change_ids_is_refused(model_folder: str) -> None:
    result = in_process("convert", model_folder, out("gpt2"))
    assert (result.code, result.err) == (
        1,
        [
            "bpetite: GPT-2's files cannot hold this vocabulary: it has ids that "
            "add_special_tokens puts around a text"
        ],
    )


# Verifying


def compared(
    source: str, target: str, text: bytes = RAW, *, ids: int | None = None, of_slices: bool = False
) -> str:
    """Return the line that reports no difference."""
    count = len(TOKENIZER.encode(text.decode())) if ids is None else ids
    slices = ", in slices that end with a line" if of_slices else ""
    return (
        f"bpetite: compared {source} and {target}: {len(text):,} bytes, {count:,} ids{slices}, "
        "no difference"
    )


def test_verify_takes_several_texts() -> None:
    Path("other.txt").write_bytes(b"~~~")
    verify = ("--verify", "text.txt", "-", "other.txt")
    result = in_process("convert", "model.json", "out/new.json", *verify, stdin=b"!!")
    count = len(TOKENIZER.encode(RAW.decode())) + 5
    names = "model.json (bpetite)", "out/new.json (bpetite)"
    assert result.err[0] == compared(*names, RAW + b"~~~!!", ids=count)


LONG = "hello world\n" * 45_000
"""A text that is longer than a slice."""


def test_long_text_is_compared_in_whole_lines() -> None:
    """With one piece per slice, the number of ids shows that slices end with lines."""
    tokenizer = Tokenizer.train(TEXT, 280, pattern=r"[\s\S]+", special_tokens=())
    tokenizer.save("other.json")
    Path("text.txt").write_text(LONG, encoding="utf-8", newline="")
    result = in_process("convert", "other.json", "out/new.json", "--verify", "text.txt")
    assert result.err[0] == compared(
        "other.json (bpetite)",
        "out/new.json (bpetite)",
        LONG.encode(),
        ids=45_000 * len(tokenizer.encode("hello world\n")),
        of_slices=True,
    )


def test_long_line_is_compared_in_slices() -> None:
    text = "~" * 600_000
    Path("text.txt").write_text(text, encoding="utf-8")
    result = in_process("convert", "model.json", "out/new.json", "--verify", "text.txt")
    names = "model.json (bpetite)", "out/new.json (bpetite)"
    assert result.err[0] == compared(*names, text.encode(), ids=600_000, of_slices=True)


def wrong_tiktoken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make tiktoken return another first id for "wrong" in a text."""
    encode = tiktoken.Encoding.encode

    def wrong(self: tiktoken.Encoding, text: str, **options: Any) -> list[int]:
        ids = encode(self, text, **options)
        before = len(encode(self, text.partition("wrong")[0], **options))
        return [*ids[:before], 33, *ids[before + 1 :]] if "wrong" in text else ids

    monkeypatch.setattr(tiktoken.Encoding, "encode", wrong)


WRONG = "~~~\nж~~wrong"
PLACE = "character 7 (line 2, column 4): bpetite has 119 'w', tiktoken has 33 '!'"


@pytest.fixture
def before() -> bytes:
    """The content of every OUT, which must stay."""
    Path("text.txt").write_text(WRONG, encoding="utf-8", newline="")
    for name in ("new.tiktoken", "new.json"):
        Path("out", name).write_bytes(b"before")
    return b"before"


def test_library_of_out_can_differ(monkeypatch: pytest.MonkeyPatch, before: bytes) -> None:
    wrong_tiktoken(monkeypatch)
    verify = ("--force", "--verify", "text.txt")
    result = in_process("convert", "model.json", "out/new.tiktoken", *verify)
    assert result == failure(f"text.txt: {PLACE} (both with out/new.tiktoken)")
    assert written() == {"new.tiktoken": before, "new.json": before}


def test_library_of_in_can_differ(monkeypatch: pytest.MonkeyPatch, before: bytes) -> None:
    path = saved(TOKENIZER, "tiktoken")
    wrong_tiktoken(monkeypatch)
    verify = ("--force", "--verify", "-")
    result = in_process(
        "convert", path, "out/new.json", *GIVEN["tiktoken"], *verify, stdin=WRONG.encode()
    )
    assert result == failure(f"standard input: {PLACE} (both with {path})")
    assert written() == {"new.tiktoken": before, "new.json": before}


def test_written_file_can_differ(monkeypatch: pytest.MonkeyPatch, before: bytes) -> None:
    save = Tokenizer.save
    other = Tokenizer.train("wr wr wr", 257)
    monkeypatch.setattr(Tokenizer, "save", lambda _, *given, **named: save(other, *given, **named))
    verify = ("--force", "--verify", "text.txt")
    result = in_process("convert", "model.json", "out/new.json", *verify)
    assert result == failure(
        "text.txt: character 7 (line 2, column 4): model.json has 119 'w', "
        "out/new.json has 256 'wr'"
    )
    assert written() == {"new.tiktoken": before, "new.json": before}


def test_first_difference_is_in_the_first_text(
    monkeypatch: pytest.MonkeyPatch, before: bytes
) -> None:
    Path("good.txt").write_bytes(RAW)
    Path("worse.txt").write_bytes(b"wrong")
    wrong_tiktoken(monkeypatch)
    verify = ("--force", "--verify", "good.txt", "text.txt", "worse.txt")
    result = in_process("convert", "model.json", "out/new.tiktoken", *verify)
    assert result == failure(f"text.txt: {PLACE} (both with out/new.tiktoken)")
    assert written()["new.tiktoken"] == before


def test_difference_is_located_in_its_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong_tiktoken(monkeypatch)
    Path("text.txt").write_text(LONG + WRONG, encoding="utf-8", newline="")
    verify = ("--verify", "text.txt")
    result = in_process("convert", "model.json", "out/new.tiktoken", *verify)
    lines = 2**18 // 12  # in a slice
    count = (45_000 - 2 * lines) * 12 + 7
    line = 45_000 - 2 * lines + 2
    assert result == failure(
        f"text.txt: in the slice from line {2 * lines + 1} on, character {count} (line {line}, "
        "column 4): bpetite has 119 'w', tiktoken has 33 '!' (both with out/new.tiktoken)"
    )
    assert written() == {}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (None, "bad.txt: No such file or directory"),
        (b"a\xffb", "bad.txt is not UTF-8 at byte 1 (0xff: invalid start byte)"),
    ],
)
def test_unreadable_text_is_named_and_nothing_written(data: bytes | None, reason: str) -> None:
    if data is not None:
        Path("bad.txt").write_bytes(data)
    verify = ("--verify", "text.txt", "bad.txt")
    assert in_process("convert", "model.json", "out/new.json", *verify) == failure(reason)
    assert written() == {}


def test_tiktoken_that_would_drop_text_is_not_compared() -> None:
    Tokenizer.train(TEXT, 280, pattern=r"\p{L}+", special_tokens=()).save("other.json")
    verify = ("--verify", "text.txt")
    result = in_process("convert", "other.json", "out/new.tiktoken", *verify)
    assert (result.code, result.err[1]) == (
        0,
        "bpetite: out/new.tiktoken: not compared with tiktoken, which drops text without a match",
    )
    assert result.err[2].startswith(
        "bpetite: compared other.json (bpetite) and out/new.tiktoken (bpetite): "
    )


# Without the other libraries


@pytest.mark.parametrize(
    ("source", "target", "missing"),
    [
        ("tiktoken", "bpetite", ["tiktoken"]),
        ("bpetite", "tiktoken", ["tiktoken"]),
        ("bpetite", "huggingface", ["tokenizers"]),
        ("gpt2", "folder", ["tokenizers"]),
        ("tiktoken", "huggingface", ["tiktoken", "tokenizers"]),
    ],
)
def test_missing_library_is_named(
    monkeypatch: pytest.MonkeyPatch, source: str, target: str, missing: list[str]
) -> None:
    model, path = saved(TOKENIZER, source), out(target)
    for name in missing:
        monkeypatch.setitem(sys.modules, name, None)  # to import it raises ImportError
    options = GIVEN.get(source, ())
    result = in_process("convert", model, path, *options, "--verify", "text.txt")
    *words, comparison, _ = result.err
    assert (result.code, result.out) == (0, b"")
    assert words == [
        f"bpetite: {name} is not installed: its ids are not compared" for name in missing
    ]
    assert comparison == compared(f"{model} (bpetite)", f"{path} (bpetite)")
    assert loaded(path) == TOKENIZER
