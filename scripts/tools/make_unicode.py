"""Write tiktoken's general categories of Unicode to src/bpetite/_unicode/data.py.

If tiktoken and tokenizers change to another Unicode version, change VERSION and run this with
`.venv/bin/python scripts/tools/make_unicode.py`.
"""

from itertools import groupby
from pathlib import Path

import tiktoken

VERSION = "16.0.0"
CATEGORIES = (
    "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co Cn"
)
OUTPUT = Path(__file__).resolve().parents[2] / "src" / "bpetite" / "_unicode" / "data.py"
WIDTH = 92


def main() -> None:
    """Write runs of code points that have the same category in tiktoken."""
    category_of = ["Cs"] * 0x110000  # surrogates, which cannot be encoded
    for category in CATEGORIES.split():
        encoding = tiktoken.Encoding(
            category,
            pat_str=rf"\p{{{category}}}",
            mergeable_ranks={bytes([byte]): byte for byte in range(256)},
            special_tokens={},
        )
        for code in (*range(0xD800), *range(0xE000, 0x110000)):
            if encoding.encode_ordinary(chr(code)):  # tiktoken drops unmatched text
                category_of[code] = category
    runs = [f"{category}{len(list(run))}" for category, run in groupby(category_of)]
    lines = [""]
    for run in runs:
        if len(lines[-1]) + len(run) >= WIDTH:
            lines.append("")
        lines[-1] += f" {run}" if lines[-1] else run
    OUTPUT.write_text(
        f'"""The general category of every code point in Unicode {VERSION}."""\n\n'
        f'VERSION = "{VERSION}"\n\n'
        "# Runs of code points of one category, from 0 on: the category and the length.\n"
        'RUNS = """\n' + "\n".join(lines) + '\n"""\n',
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
