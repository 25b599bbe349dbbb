"""An interrupt soon ends long work of the native engine, and other threads run meanwhile."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.engines import native_only
from support.times import best_time

pytestmark = native_only

PROGRAM = """
import _thread, itertools, random, signal, sys, threading, time
from array import array
from bpetite import Tokenizer
from bpetite.corpora import encode

some = "".join(random.choices("abcdefghij", k=100_000))
pattern, given, work = sys.argv[1:]
work = eval(f"lambda: {work}")  # an interrupt in eval itself would end Python
tokenizer = Tokenizer.train(some, 1000, pattern=pattern)
given = eval(given)
begun = threading.Event()

def interrupt():
    global begin
    begun.wait()
    begin = time.process_time()  # another process may use the processor meanwhile
    time.sleep(0.2)
    _thread.interrupt_main()

signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Thread(target=interrupt, daemon=True).start()
begun.set()
try:
    work()
except KeyboardInterrupt:
    print(time.process_time() - begin)
"""

OWN = r"\w+|\W"


@pytest.mark.parametrize(
    ("pattern", "given", "work"),
    [
        pytest.param(
            OWN,
            "some * 200",
            "tokenizer.encode(given)",
            id="piece of an own pattern",
            marks=pytest.mark.slow,
        ),
        pytest.param("gpt2", "some * 200", "tokenizer.encode(given)", id="piece"),
        pytest.param(
            "o200k",
            "some * 200",
            "tokenizer.count(given)",
            id="piece, counted",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "cl100k",
            "' '.join([some * 200] * 2)",
            "tokenizer.encode(given, threads=2, dtype='uint32')",
            id="pieces, by threads",
        ),
        pytest.param(
            "gpt2",
            "'你好' * 20_000_000",
            "tokenizer.count(given)",
            id="run of Chinese",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "gpt2", "some * 200", "[*encode(tokenizer, [given])]", id="piece of a document"
        ),
        pytest.param(
            "gpt2",
            "['ab ' * 900] * 100_000",
            "tokenizer.encode_batch(given, threads=2, dtype='uint32')",
            id="many texts",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "gpt2",
            "(some[:2000] * 20_000).encode(), array('q', range(0, 40_000_001, 2000))",
            "tokenizer.encode_buffer(*given, threads=2)",
            id="documents in a buffer",
        ),
        pytest.param(
            "gpt2",
            "['ab ' * 33] * 2_000_000",
            "tokenizer.encode_parts(given, dtype='uint32')",
            id="parts of a text",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "gpt2",
            "'ab<|endoftext|>' * 20_000_000",
            "tokenizer.count(given)",
            id="special tokens",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "gpt2",
            "itertools.repeat(' '.join(random.choices('abcdefgh', k=100_000)))",
            "Tokenizer.train(given, 10**7, threads=2)",
            id="documents that train",
        ),
        pytest.param(
            "gpt2",
            "''.join(random.choices('abcdefghij', k=2_000_000))",
            "Tokenizer.train(given, 10**7, threads=2)",
            id="merges",
        ),
        pytest.param(
            "gpt2",
            "memoryview(bytes(500_000_000))",
            "tokenizer.decode_bytes(given)",
            id="ids",
        ),
    ],
)
def test_an_interrupt_ends_work_soon(pattern: str, given: str, work: str) -> None:
    """Another thread sends the interrupt, so it must run during native work."""

    def seconds() -> float:
        command = [sys.executable, "-c", PROGRAM, pattern, given, work]
        ended = subprocess.run(command, capture_output=True, check=True, timeout=100)
        return float(ended.stdout)

    limit = 1.4 if "threads=2" in work else 0.7
    assert best_time(seconds, enough=limit) < limit


LISTED = """
import gc, signal
from bpetite import Tokenizer

tokenizer = Tokenizer.train("ab " * 9, 257)
looks = []

def look(*_):
    lists = [found for found in gc.get_objects() if type(found) is list and len(found) > 100_000]
    looks.append([(len(found), found[-1]) for found in lists])

signal.signal(signal.SIGALRM, look)
signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
ids = tokenizer.encode("ab " * 5_000_000)
signal.setitimer(signal.ITIMER_REAL, 0)
assert ids == [256, 32] * 5_000_000
look()
assert len(looks) > 2 and looks[-1]
print(all(found == (10_000_000, 32) for look in looks for found in look))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX timers")
def test_a_signal_handler_cannot_find_an_unfinished_list() -> None:
    """Python code finds a list through the garbage collector, which tracks only whole lists."""
    result = subprocess.run(
        [sys.executable, "-c", LISTED], capture_output=True, check=True, timeout=100
    )
    assert result.stdout == b"True\n"


SHRUNK = """
import gc, threading, time
from bpetite import Tokenizer

tokenizer = Tokenizer.train("", 256, special_tokens=())

def shrink_lists():
    while True:
        for found in gc.get_objects(0)[-50:]:
            if type(found) is list and len(found) > 60_000 and len(found) % 65_536 == 0:
                found.append(1)
                found.pop()
        time.sleep(0)

threading.Thread(target=shrink_lists, daemon=True).start()
assert len(tokenizer.encode("a " * 10_000_000)) == 20_000_000
"""


def test_a_thread_cannot_shrink_an_unfinished_list() -> None:
    """If it could, the native engine would write past the end of the list's memory."""
    subprocess.run([sys.executable, "-c", SHRUNK], capture_output=True, check=True, timeout=100)


CHANGED = """
import signal
from bpetite import Tokenizer

tokenizer = Tokenizer.train("ab " * 9, 257)
data = bytearray(("1234567890" * 90 + " ").encode() * 40_000)

def change(*_):
    data[-1000:] = bytes([255]) * 1000

signal.signal(signal.SIGALRM, change)
signal.setitimer(signal.ITIMER_REAL, 0.01)
try:
    tokenizer.encode(data, dtype="uint32")
except RuntimeError as error:
    print(error)
print(tokenizer.encode("ab"))
"""

FAILED = "the native engine failed in this call (index out of bounds: "
ADVICE = (
    "); the tokenizer itself is unharmed. Do not change a text in a buffer or in a mapped file "
    "while it is encoded. If none was changed, this is an error in bpetite: please report it with "
    "the lines on stderr\n[256]\n"
)


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX timers")
def test_a_text_changed_meanwhile_is_only_an_error() -> None:
    result = subprocess.run(
        [sys.executable, "-c", CHANGED], capture_output=True, check=True, timeout=100, text=True
    )
    assert result.stdout.startswith(FAILED)
    assert result.stdout.endswith(ADVICE)
