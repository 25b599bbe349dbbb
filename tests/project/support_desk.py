"""A support desk's program, which uses every public name of bpetite.

It trains a vocabulary on tickets, judges it, prepares token files, and streams answers. The types
are those of a user's program: mypy --strict and pyright accept it.
"""

from __future__ import annotations

import asyncio
import importlib
import pickle
import warnings
from array import array
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import bpetite
from bpetite import (
    Chunk,
    DecodeStream,
    DecodeStreamBatch,
    DecodeStreamError,
    EncodeStream,
    PieceCounts,
    PieceCountsHeader,
    StreamEvent,
    StreamVocabulary,
    Tag,
    Tokenizer,
    TokenText,
    TrainingProgress,
    Trusted,
    analysis,
    arrow,
    corpora,
    formats,
)

TICKETS = [
    "The printer in room 12 does not print. It blinks red.",
    "Mein Drucker druckt nicht, er blinkt rot 🙂",
    "The screen in room 12 does not wake. It blinks blue.",
]

END = "<|endoftext|>"


def trained(folder: Path) -> tuple[Tokenizer, PieceCounts]:
    """Train a vocabulary on the counts of two days, and store both."""
    steps: list[tuple[str, float]] = []

    def show(progress: TrainingProgress) -> None:
        steps.append((progress.stage, progress.done / (progress.total or 1)))

    (folder / "monday.txt").write_text(TICKETS[0], "utf-8")
    monday = PieceCounts.from_corpus([folder / "monday.txt"], pattern="cl100k")
    tuesday = PieceCounts.from_corpus(TICKETS[1:], pattern="cl100k") * 2
    counts = monday + tuesday
    monday.save(folder / "monday.counts")
    assert PieceCounts.load(folder / "monday.counts") == monday
    header = PieceCounts.read_header(folder / "monday.counts")
    assert header == monday.header
    assert PieceCounts.from_items(counts.items(), pattern="cl100k") == counts
    merged = counts.header
    halves = counts.partition(2)
    assert sum(map(len, halves)) == len(counts) > len(counts.prune(2))
    assert (merged.min_count, merged.dropped_pieces) == (1, 0)
    print(described(merged))

    tokenizer = Tokenizer.train(counts, 300, progress=show)
    assert steps[-1] == ("merging", 1)
    same = Tokenizer.train([folder / "monday.txt"], 280, pattern=tokenizer.patterns[0])
    print(tokenizer.fingerprint == same.fingerprint, tokenizer.with_vocab_size(280).n_vocab)
    return tokenizer, counts


def described(header: PieceCountsHeader) -> str:
    sizes = (header.pieces, header.distinct_pieces, header.text_bytes)
    return f"{header.pattern} with Unicode {header.unicode_version}: {sizes}"


def converted(tokenizer: Tokenizer, folder: Path) -> Tokenizer:
    """Add special tokens, save the vocabulary in two formats, and compare the files."""
    model = tokenizer.with_special_tokens(["<|user|>", "<|bot|>"], pad_to_multiple_of=8)
    model = model.with_settings(eos_token=END)
    model.save(folder / "model.json")
    model.save(folder / "model.tiktoken")
    assert {formats.recognise(folder / "model.json")} <= {*formats.FORMATS}
    assert formats.format_of_path(folder / "model.tiktoken") == "tiktoken"
    verifier = formats.Verifier(model, folder / "model.json")
    assert (verifier.reference_library, verifier.difference(TICKETS[0])) == (None, None)
    print(dict(model.settings))
    kept, new = analysis.embedding_map(tokenizer, model)
    print(model.lossless, model.patterns, model.special_tokens, len(kept), len(new))
    uses = Counter(id for ticket in TICKETS for id in model.encode_ordinary(ticket))
    pruned, old_ids = model.without_rare(uses, 290)
    assert pruned.vocab_size == 290 == len(pruned.ids) - len(model.special_tokens)
    assert len(old_ids) == pruned.n_vocab
    assert Tokenizer.load(folder / "model.json") == model
    return model


def encoded(tokenizer: Tokenizer) -> Counter[str]:
    """Encode tickets in every way, each for its purpose; count the ids."""
    text, sizes = TICKETS[1], Counter[str]()
    ids = tokenizer.encode(text)
    assert tokenizer.encode(text, dtype="uint32").tolist() == ids
    assert tokenizer.encode_batch([text]) == [ids]
    assert tokenizer.encode_bytes(b"\xff") == [255]
    rows, starts = tokenizer.encode_batch(TICKETS, dtype="uint16")
    sizes["batch"], sizes["rows"] = len(rows), len(starts) - 1
    for block, _, _ in corpora.encode(tokenizer, TICKETS, end=END):
        sizes["blocks"] += len(block)
    data = "".join(TICKETS).encode()
    ends = array("Q", [0, *(len("".join(TICKETS[: n + 1]).encode()) for n in range(len(TICKETS)))])
    sizes["offsets"] = len(tokenizer.encode_buffer(data, ends, end=END)[0])
    assert tokenizer.encode_with_offsets(text)[1] == [
        *tokenizer.encode_with_offsets(text, dtype="uint32")[1]
    ]
    prompt = [Trusted("<|user|>"), text, Trusted("<|bot|>")]
    sizes["prompt"] = len(tokenizer.encode_parts(prompt)[0])
    assert sizes["prompt"] == len(tokenizer.encode_parts(prompt, dtype="uint32")[0])
    assert tokenizer.fits(text, tokenizer.count(text))
    assert text.startswith(tokenizer.truncate(text, 5))
    first = next(tokenizer.chunks(text, 5))
    assert isinstance(first, Chunk)
    assert first == first
    assert (first.text, len(first)) == (text[first.start : first.end], len(first.ids))
    growing: EncodeStream = tokenizer.encode_stream()
    final = growing.step(text)
    fork, waiting = growing.copy(), growing.pending
    assert final + growing.flush() == final + fork.flush() == ids
    growing.reset()
    assert waiting
    assert not growing.pending

    assert tokenizer.decode(ids) == text == tokenizer.decode_batch([ids])[0]
    assert tokenizer.decode_bytes(ids) == text.encode()
    assert tokenizer.decode_with_offsets(ids)[0] == text
    assert tokenizer.first_noncanonical(analysis.split_ids(tokenizer, ids, 1.0, seed=7)) == 0
    token = tokenizer.tokens[ids[-1]]
    assert tokenizer.token_id(token) in tokenizer.ids_with_prefix(token[:1])
    print(len(tokenizer.merges), sizes)
    return sizes


def tokenized(tokenizer: Tokenizer, folder: Path) -> dict[str, Any]:
    """Read documents from files, and write token files; return the manifest."""
    (folder / "a.jsonl").write_text('{"text": "It blinks"}\n{"id": 1}\n{"text": ""}\n' * 4)
    try:
        [*corpora.Corpus(folder / "a.jsonl")]
    except corpora.BadDocumentError as error:
        bad: corpora.BadDocument = error.document
        assert (bad.unit, bad.row, bad.byte, bad.detail) == ("line", 1, 22, bad.detail)
        print(bad.path, bad.reason, bad.to_json())
    corpus = corpora.Corpus(folder / "a.jsonl", on_bad="skip")
    for batch in corpus.batches():
        assert isinstance(batch, corpora.Batch)
        assert len(batch.rows) == len(batch.offsets) - 1
        print(bytes(batch.data))
    assert all(is_whole for _, is_whole in corpus.segments())
    assert corpus.total_bytes() is None
    report: corpora.Report = corpus.report
    assert (report.documents, report.empty, report.bad) == (8, 4, len(report.first_bad))
    file: corpora.CorpusFile = corpus.files[0]
    assert (file.format, file.compression, file.size) == ("jsonl", None, report.stored_bytes)
    spans: tuple[corpora.Span, ...] = file.spans(60)
    assert spans[0].path == file.path == corpus.spans[0].path
    assert spans[0].start == 0
    assert len(spans) == len(corpus.parts(60))
    assert spans[-1].end == file.size
    assert [*corpus.part(spans)] == [*corpus]
    assert corpus.settings["on_bad"] == "skip"
    assert corpora.count(tokenizer, corpus, allowed_special="all") == sum(
        map(tokenizer.count, corpus)
    )
    assert report.text_bytes == 4 * len("It blinks")
    block: corpora.Block = next(corpora.encode(tokenizer, corpus))
    assert (len(block.ids), block.is_complete) == (block.offsets[-1], True)

    parts = corpora.plan(corpus, tokenizer, folder / "parts", "megatron", end=END, part_bytes=60)
    for part in parts[:1]:
        assert isinstance(part, corpora.Part)
        assert part.sources
        assert part.bytes > 0
        print(part.number, part.folder, corpora.tokenize_part(part))
    corpora.tokenize_parts(parts)
    manifest = corpora.finish(folder / "parts")
    done: list[corpora.TokenizeProgress] = []
    whole = corpora.tokenize(
        corpus, tokenizer, folder / "tokens", "megatron", end=END, progress=done.append
    )
    assert done[-1].done_bytes == done[-1].total_bytes
    assert done[-1].ids
    assert done[-1].text_bytes
    assert manifest["totals"] == whole["totals"]
    assert "megatron" in corpora.TOKEN_FORMATS
    assert corpora.verify(folder / "tokens", tokenizer) == []

    pyarrow: Any = importlib.import_module("pyarrow")
    column = arrow.encode(tokenizer, pyarrow.array(TICKETS))
    assert arrow.decode(tokenizer, column).to_pylist() == TICKETS
    assert arrow.count(tokenizer, pyarrow.array(TICKETS)).to_pylist() == [*map(len, column)]
    return manifest


def streamed(tokenizer: Tokenizer) -> None:
    """Show a model's answer while it arrives, and stop it."""
    ids = tokenizer.encode("Hi <b>🙂</b> STOP after")
    stream: DecodeStream = tokenizer.decode_stream(stop="STOP", tags=["<b>", "</b>"])
    pieces = [piece for id in ids[:4] for piece in stream.step_event(id).pieces]
    state, twin = stream.to_state(), stream.copy()
    print(stream.pending, stream.withheld, stream.stops_paused, stream.stop_reason)
    answer = stream.step_event(ids[4:])
    pieces += [piece for piece in answer.pieces if not isinstance(piece, Tag)]
    assert stream.finish_reason == answer.finish_reason == "stop"
    assert " after".startswith(stream.text_after_stop)
    rest: tuple[TokenText, ...] = (
        DecodeStream.from_state(tokenizer, state).step_event(ids[4:]).tokens
    )
    assert all(each.end - each.start == len(each.text) for each in rest)
    assert b"".join(each.bytes for each in rest if each.id) != b""
    twin.pause_stops()
    twin.resume_stops()
    print(pieces, twin.flush_event().finish_reason)
    twin.reset()
    print(twin.step(ids[0]) + twin.flush())

    plain = StreamVocabulary(dict(enumerate(tokenizer.tokens)), special_ids=[300])
    assert plain.special_ids == {300}
    assert len(plain) == tokenizer.n_vocab
    assert plain.token_bytes(97) == b"a"
    assert "".join(plain.stream(ids)) == tokenizer.decode(ids)
    assert [*plain.decode_stream().texts(ids)] == [*tokenizer.stream(ids)]
    foreign = StreamVocabulary({0: b"a", 1: b"\xff"}).decode_stream(errors="strict")
    try:
        foreign.step([0, 1])
    except DecodeStreamError as error:
        print(error.id, error.index, error.text)
    last: StreamEvent = [*tokenizer.decode_stream(stop="STOP").events(ids)][-1]
    assert (last.finish_reason, last.stop_reason, last.ids_read) == ("stop", "STOP", last.ids_read)
    assert last.text == "".join(last.pieces)
    assert len(last.tokens) >= 0

    rooms = DecodeStreamBatch[str](tokenizer, errors="strict")
    rooms.add("12", stop="STOP")
    rooms.add("13")
    assert rooms.step({"12": ids, "13": ids[:1]})["13"] == "H"
    assert "13" in rooms
    assert [*rooms] == ["12", "13"]
    assert len(rooms) == 2
    assert rooms["12"].finish_reason == "stop"
    assert rooms.step_event({"12": ids})["12"].ids_read > 0
    try:
        rooms.step({"13": [0xFF]})
    except bpetite.DecodeStreamBatchError as group:
        print([*group.errors], group.results)
    print(rooms.finish("12"))
    asyncio.run(astreamed(tokenizer, ids))


async def astreamed(tokenizer: Tokenizer, ids: list[int]) -> None:
    """Show answers of asynchronous sources."""

    async def source() -> AsyncIterator[int]:
        for id in ids:
            yield id

    texts = [text async for text in tokenizer.astream(source())]
    other = [text async for text in tokenizer.decode_stream().atexts(source())]
    events = [event.text async for event in tokenizer.decode_stream().aevents(source())]
    plain = StreamVocabulary(dict(enumerate(tokenizer.tokens)))
    assert texts == other == [text async for text in plain.astream(source())]
    assert "".join(events) == "".join(texts)


def judged(tokenizer: Tokenizer, other: Tokenizer, folder: Path) -> None:
    """Write a report on two vocabularies, and explain the ids of a word."""
    texts = {"en": TICKETS[0], "de": TICKETS[1]}
    models = {"ours": tokenizer, "small": other}
    report: analysis.Report = analysis.report(models, texts, parallel=texts, next_merges=5)
    (folder / "report.html").write_text(analysis.page(report, "desk.py"), "utf-8")
    print(report.version, report.parallel, len(report.to_dict()))
    for vocabulary in report.vocabularies:
        print(vocabulary.gini, [use.bytes_per_token for use in vocabulary.uses])
    print([text.words for text in report.texts], [each.common for each in report.comparisons])

    pieces: Iterator[analysis.ExplainedPiece] = analysis.explain(tokenizer, TICKETS[0])
    for piece in pieces:
        print(piece.text, piece.kind, piece.byte_ids, [*piece.states()], piece.roots, piece.ids)
        for step in piece.steps:
            print(merge_of(step))
    assert len(analysis.merge_ids(tokenizer)) == len(tokenizer.merges)


def merge_of(step: analysis.MergeStep) -> str:
    lost = "" if step.lost is None else f", before {step.lost} of rank {step.lost_rank}"
    return f"{step.pair} in slots {step.parts}: {step.id} {step.token!r}, rank {step.rank}{lost}"


def main(folder: Path) -> dict[str, Any]:
    """Run everything in an empty folder; return the manifest of the token files."""
    print(bpetite.__version__, bpetite.engine, *bpetite.PATTERNS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bpetite.SlowEngineWarning)
        warnings.simplefilter("ignore", bpetite.CorpusWarning)
        small, counts = trained(folder)
        assert pickle.loads(pickle.dumps(counts)) == counts
        model = converted(small, folder)
        tiktoken: Any = importlib.import_module("tiktoken")
        ranks = {token: id for id, token in enumerate(small.tokens[: small.special_tokens[END]])}
        encoding = tiktoken.Encoding(
            "desk",
            pat_str=small.patterns[0],
            mergeable_ranks=ranks,
            special_tokens={END: len(ranks)},
        )
        assert Tokenizer.from_tiktoken(encoding) == small
        encoded(model)
        streamed(model)
        judged(model, small.with_vocab_size(270), folder)
        return tokenized(model, folder)


if __name__ == "__main__":
    main(Path())
