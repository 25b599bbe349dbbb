"""Give a property of the tests other examples, without a bound, until time is up or it fails.

`scripts/fuzz NAME` runs this. hypothesis shows the example that fails, as in a test, and the exit
code is 1. The same seed gives the same examples.
"""

from __future__ import annotations

import _thread
import argparse
import random
import sys
import threading
import warnings
from importlib import import_module
from typing import Any

from hypothesis import HealthCheck, core, settings
from hypothesis.errors import UnsatisfiedAssumption
from hypothesis.internal.conjecture import engine
from tools.venv import ROOT

PROPERTIES = {
    "assembled": "laws.test_assembled.test_assembled_files_have_the_ids_of_tokenizers",
    "door": "doors.test_tiktoken_door.test_random_calls_match_tiktoken",
    "fallback": "formats.test_byte_fallback.test_ids_and_texts_match_tokenizers",
    "prompts": "streaming.test_prompt.test_edits_are_one_encode",
    "templates": "chat.test_chat_template.test_random_template_renders_as_in_transformers",
    "threads": "support.threads.threads_share_every_public_object",
}
"""The properties, in the folder of tests. They take no fixtures."""

_NO_BOUND = 10**9
_SHRINKING_SECONDS = 30


def main() -> None:
    """Run a property until time is up; if it fails, its error ends the program."""
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__)
    parser.add_argument("name", choices=PROPERTIES)
    parser.add_argument("--seconds", type=float, default=60, help="how long (default: 60)")
    parser.add_argument("--seed", type=int, help="of the examples (default: random)")
    options = parser.parse_args()
    seed = random.randrange(10**9) if options.seed is None else options.seed
    core.global_force_seed = seed  # type: ignore[assignment] # as pytest's --hypothesis-seed does
    checks = [*HealthCheck]
    settings.register_profile(
        "fuzz",
        max_examples=_NO_BOUND,
        deadline=None,
        database=None,
        suppress_health_check=checks,
        report_multiple_bugs=False,
    )
    settings.load_profile("fuzz")
    engine.MAX_SHRINKING_SECONDS = _SHRINKING_SECONDS
    warnings.simplefilter("ignore")
    sys.path.insert(0, str(ROOT / "tests"))
    module, _, name = PROPERTIES[options.name].rpartition(".")
    check = getattr(import_module(module), name)
    print(f"{options.name}, seed {seed}", flush=True)
    tried = failed = 0
    is_over = False
    given_check = check.hypothesis.inner_test

    def watched(*arguments: Any, **named: Any) -> None:
        nonlocal tried, failed
        tried += 1
        try:
            given_check(*arguments, **named)
        except UnsatisfiedAssumption:
            raise
        except Exception as error:
            failed += 1
            if failed == 1:
                print(f"example {tried}: {error!r:.2000}\nmaking it smaller", flush=True)
            raise

    def end() -> None:
        nonlocal is_over
        is_over = not failed  # else hypothesis is about to end
        if is_over:
            _thread.interrupt_main()

    check.hypothesis.inner_test = watched
    timer = threading.Timer(options.seconds, end)
    timer.daemon = True
    timer.start()
    try:
        check()
    except KeyboardInterrupt:
        if not is_over:
            sys.exit(130)
    print(f"{tried:,} examples, no difference")


if __name__ == "__main__":
    main()
