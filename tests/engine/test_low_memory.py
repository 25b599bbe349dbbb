"""With little memory left, calls raise MemoryError, and later calls give the right ids."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import replace

import pytest
from support import byte_fallback
from support.engines import native_only
from support.programs import output_of

from bpetite import PieceCounts, Tokenizer
from bpetite._vocabulary import Stages

pytestmark = [
    native_only,
    pytest.mark.skipif(sys.platform != "linux", reason="limits the memory as Linux does"),
]

CALLS = {
    "encode": "tokenizer.encode(text)",
    "encode of many pieces": "tokenizer.encode(numbers)",
    "encode of one piece": "tokenizer.encode('a' * (1 << 20))",
    "encode of special tokens": "tokenizer.encode('<|a|>' * (1 << 19))",
    "encode to an array": "tokenizer.encode(text, dtype='uint32')",
    "encode of bytes to an array": "tokenizer.encode(data, dtype='uint32')",
    "encode to an array with threads": "tokenizer.encode(text, threads=2, dtype='uint32')",
    "encode_batch": "tokenizer.encode_batch(texts)",
    "encode_batch with threads": "tokenizer.encode_batch(texts, threads=2)",
    "encode_batch to arrays": "tokenizer.encode_batch([text] * 3, dtype='uint32')",
    "encode_batch of short texts to arrays": "tokenizer.encode_batch(texts, dtype='uint32')",
    "encode_buffer": "tokenizer.encode_buffer(data, bounds)",
    "encode_parts": "tokenizer.encode_parts(texts)",
    "encode_parts to arrays": "tokenizer.encode_parts([Trusted(text), text], dtype='uint32')",
    "encode_with_offsets": "tokenizer.encode_with_offsets(text)",
    "encode_with_offsets to arrays": "tokenizer.encode_with_offsets(text, dtype='uint32')",
    "encode_stream": "tokenizer.encode_stream().step(text)",
    "count": "tokenizer.count(numbers)",
    "decode": "tokenizer.decode(tokens)",
    "decode_with_offsets": "tokenizer.decode_with_offsets(tokens)",
    "stream": "tokenizer.decode_stream().step(tokens)",
    "stream of byte fallback": "fallback.decode_stream().step(letters)",
    "encode of text in other forms": "nfc.encode(marks)",
    "encode of bytes in other forms": "nfc.encode(marks.encode())",
    "from_corpus": "PieceCounts.from_corpus(numbers)",
    "from_corpus with threads": "PieceCounts.from_corpus([numbers] * 4, threads=2)",
    "from_items": "PieceCounts.from_items(items)",
    "sum of counts": "[many + many for _ in range(9)]",
    "partition of counts": "[many.partition(7) for _ in range(9)]",
    "train": "Tokenizer.train(numbers, 400)",
    "train from counts": "Tokenizer.train(many, 300)",
    "train with a base": "Tokenizer.train(many, 2050, base=large)",
    "texts of JSON Lines": "[*Corpus('long.jsonl').batches()]",
    "load of a vocabulary": "Tokenizer.load('merges.json').encode(text)",
    "load of tiktoken's ranks": (
        "Tokenizer.load('ranks.tiktoken', pattern='gpt2', special_tokens={}).encode(text)"
    ),
}

# Each call has a process of its own for each room, forked from one that has only made its input:
# memory that earlier calls had given back would be room too.
PROGRAM = """
import array, os, regex, resource
from bpetite import PieceCounts, Tokenizer, Trusted
from bpetite.corpora import Corpus

tokenizer = Tokenizer.load("small.json")
large = Tokenizer.load("merges.json")
fallback = Tokenizer.load("tokenizer.json")
nfc = Tokenizer.load("nfc.json")
sample = "ab cd <|a|> ef, 12345678 it's \\u4f60\\u597d " * 40
ids = tokenizer.encode(sample)
text = "ab cd ef " * (1 << 19)
data = text.encode()
numbers = " ".join(map(str, range(1 << 18)))
many = PieceCounts.load("many.counts")
tokens = list(range(256, 260)) * (1 << 19)
letters = fallback.encode("abc") * (1 << 19)
marks = ("e\\u0301" + "a" * 600) * (1 << 12)
texts = [f"a text of number {number}" for number in range(1 << 15)]
bounds = array.array("Q", range(0, len(data) + 1, 9))
items = [(f"{number:x}", 1) for number in range(1 << 17)]

def result_of(work):
    try:
        return work()
    except MemoryError:
        return MemoryError

def test(name, call, megabytes):
    with open("/proc/self/statm") as sizes:
        used = int(sizes.read().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + (megabytes << 20), hard))
    is_raised = result_of(call) is MemoryError
    short = result_of(lambda: tokenizer.encode(sample))
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    assert short in (ids, MemoryError)
    assert tokenizer.encode(sample) == ids == tokenizer.encode(sample, dtype='uint32').tolist()
    assert tokenizer.encode_batch([sample] * 3, threads=2) == [ids] * 3
    print(name, "raised" if is_raised else "made", sep="|", flush=True)

for name, call in CALLS.items():
    for megabytes in (1, 5, 16):
        # By chance, threads leave less than 100 KB at a time, which may still end the process.
        for _ in range(3):
            child = os.fork()
            if child == 0:
                os.dup2(1, 2)
                test(name, eval("lambda: " + call), megabytes)
                os._exit(0)
            _, status = os.waitpid(child, 0)
            if status == 0:
                break
        else:
            print(name, f"ended with {megabytes} MB", sep="|", flush=True)
"""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return a line for each call and room: the call's name, and how it ended."""
    folder = tmp_path_factory.mktemp("vocabularies")
    text = " ".join(f"{number:x}" for number in range(20_000))
    Tokenizer.train("ab cd ef " * 9, 262, special_tokens=["<|a|>"]).save(folder / "small.json")
    llama = byte_fallback.SETTINGS["Llama 2, Phi-3"]
    byte_fallback.write(byte_fallback.document_of("\u2581abc", [("a", "b")], **llama), folder)
    plain = Tokenizer.train("ab cd ef " * 9, 262)
    Tokenizer(replace(plain._vocabulary, stages=Stages((("NFC",),)))).save(folder / "nfc.json")
    large = Tokenizer.train(text, 2000)
    large.save(folder / "merges.json")
    large.save(folder / "ranks.tiktoken", format="tiktoken")
    PieceCounts.from_corpus(" ".join(map(str, range(1 << 18)))).save(folder / "many.counts")
    (folder / "long.jsonl").write_bytes(b'{"text": "' + rb"\n" * (1 << 22) + b'"}')
    with contextlib.chdir(folder):
        return output_of(f"CALLS = {CALLS!r}\n{PROGRAM}", timeout=600).splitlines()


@pytest.mark.parametrize("call", CALLS)
def test_too_little_memory_raises_memory_error(call: str, outcomes: list[str]) -> None:
    ends = {line.partition("|")[2] for line in outcomes if line.startswith(f"{call}|")}
    assert ends in ({"raised"}, {"raised", "made"})


FULL_HEAP = """
import ctypes, os, resource
from bpetite import Tokenizer

text = " ".join(map(str, range(20_000)))
Tokenizer.train(text, 300)
malloc = ctypes.CDLL(None).malloc
malloc.restype, malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]

for room in range(150_000, 450_000, 20_000):
    child = os.fork()
    if child == 0:
        with open("/proc/self/statm") as sizes:
            used = int(sizes.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used, resource.RLIM_INFINITY))
        for size in (1 << 24, 1 << 20, 1 << 16, 1 << 13):
            while malloc(size):
                pass
        resource.setrlimit(resource.RLIMIT_AS, (used + room, resource.RLIM_INFINITY))
        try:
            Tokenizer.train(text, 300)
        except MemoryError:
            pass
        except BaseException:
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status):  # less than 100 KB may end the process
        print(os.WEXITSTATUS(status))
"""


def test_a_full_heap_raises_memory_error() -> None:
    """Else memory that was given back hides what the first objects of a call do without it."""
    assert set(output_of(FULL_HEAP).split()) == {"0"}
