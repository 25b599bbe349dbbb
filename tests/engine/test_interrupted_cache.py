"""An interrupt at any moment of `encode` leaves no wrong ids in the cache."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

PROGRAM = """
import pickle, random, signal, time
import bpetite

randint = random.Random(7).randint
size = 80_000 if bpetite.engine == "native" else 4_000
words = ["".join(chr(97 + randint(0, 3)) for _ in range(randint(2, 20))) for _ in range(size)]
text = " ".join(words)
trained = bpetite.Tokenizer.train(words[:2_000], 600)
begin = time.perf_counter()
expected = trained.encode(text)
seconds = time.perf_counter() - begin
may_raise = False

def interrupt(*_):
    if may_raise:
        raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
n_interrupted = 0
while n_interrupted < 5:
    tokenizer = pickle.loads(pickle.dumps(trained))  # it has an empty cache
    try:
        may_raise = True
        signal.setitimer(signal.ITIMER_REAL, random.uniform(0, 0.8 * seconds) + 1e-4)
        tokenizer.encode(text)
    except KeyboardInterrupt:
        n_interrupted += 1
    may_raise = False
    assert tokenizer.encode(text) == expected
    assert tokenizer.count(text) == len(expected)
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs POSIX timers")
def test_interrupted_encode_leaves_the_cache_right() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, encoding="utf-8", check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
