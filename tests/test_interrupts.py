"""An interrupt soon ends what takes long in the core, and other threads go on meanwhile.

`test_trainer` says so of training. Where a signal does harm, that is told.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
from engines import native_only

pytestmark = native_only

PROGRAM = """
import _thread, random, signal, sys, threading, time
from bpetite import Tokenizer

some = "".join(random.choices("abcdefghij", k=100_000))
pattern, given, work = sys.argv[1:]
work = eval(f"lambda: tokenizer.{work}")  # an interrupt in eval itself would end Python
tokenizer = Tokenizer.train(some, 1000, pattern=pattern)
given = eval(given)
begun = threading.Event()

def interrupt():
    global due
    begun.wait()
    due = time.monotonic() + 0.2
    time.sleep(0.2)
    _thread.interrupt_main()

signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Thread(target=interrupt, daemon=True).start()
begun.set()
try:
    work()
except KeyboardInterrupt:
    print(time.monotonic() - due)
"""

OWN = r"\w+|\W"


@pytest.mark.parametrize(
    ("pattern", "given", "work"),
    [
        pytest.param(OWN, "some * 200", "encode(given)", id="piece of an own pattern"),
        pytest.param("gpt2", "some * 200", "encode(given)", id="piece"),
        pytest.param("o200k", "some * 200", "count(given)", id="piece, counted"),
        pytest.param(
            "cl100k",
            "' '.join([some * 200] * 2)",
            "encode_array(given, threads=2)",
            id="pieces, by threads",
        ),
        pytest.param("gpt2", "'你好' * 20_000_000", "count(given)", id="run of Chinese"),
        pytest.param(
            "gpt2",
            "['ab ' * 900] * 100_000",
            "encode_batch_arrays(given, threads=2)",
            id="many texts",
        ),
        pytest.param(
            "gpt2",
            "'ab<|endoftext|>' * 20_000_000",
            "count(given)",
            id="special tokens",
        ),
        pytest.param(
            "gpt2",
            "memoryview(bytes(500_000_000))",
            "decode_bytes(given)",
            id="ids",
        ),
    ],
)
def test_an_interrupt_ends_work_soon(pattern: str, given: str, work: str) -> None:
    """It comes from another thread, which must have its turn while the core works."""
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, pattern, given, work],
        capture_output=True,
        check=True,
        timeout=100,
    )
    assert float(result.stdout) < 0.5


LISTED = """
import gc, signal
from bpetite import Tokenizer

tokenizer = Tokenizer.train("ab " * 9, 257)
seen = []

def look(*_):
    for found in gc.get_objects():
        if type(found) is list and len(found) > 100_000:
            seen.append({type(item) for item in (found[0], found[-1])} == {int})

signal.signal(signal.SIGALRM, look)
signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
ids = tokenizer.encode("ab " * 10_000_000)
signal.setitimer(signal.ITIMER_REAL, 0)
print(all(seen), len(ids), ids == [256, 32] * 10_000_000)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no timers that send signals")
def test_what_a_signal_finds_of_a_list_that_is_being_made_is_a_list() -> None:
    result = subprocess.run(
        [sys.executable, "-c", LISTED], capture_output=True, check=True, timeout=100
    )
    assert result.stdout == b"True 20000000 True\n"


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
    tokenizer.encode_array(data)
except RuntimeError as error:
    print(error)
print(tokenizer.encode("ab"))
"""

FAILED = (
    "the native core failed in this call, of which there is no result; the tokenizer is as it was. "
    "A text in a buffer, or in a file that is mapped, must not be changed while it is worked on. "
    "If none was, this is an error in bpetite: please report it with the lines that were written "
    "to stderr (index out of bounds: "
)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no timers that send signals")
def test_a_text_that_is_changed_meanwhile_is_an_error_and_nothing_worse() -> None:
    result = subprocess.run(
        [sys.executable, "-c", CHANGED], capture_output=True, check=True, timeout=100, text=True
    )
    assert result.stdout.startswith(FAILED)
    assert result.stdout.endswith(")\n[256]\n")
