"""Write tests/data/golden: a small corpus, and its vocabulary file.

Run it with `.venv/bin/python scripts/tools/make_golden.py`. If git shows a change afterwards,
training no longer gives the same vocabulary for the same text.
"""

import tempfile
from pathlib import Path

from bpetite import Tokenizer

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "data" / "golden"

VOCAB_SIZE = 320

SPECIAL_TOKENS = ("<|endoftext|>", "<|é|>")

# Several scripts, contractions, numbers, symbols; CRLF, a tab, a no-break and an em space.
CORPUS = (
    "The hen then met the ten men. Don't they know it's ten past ten, 10:10, in 2026?\n"
    "We'll see what they've seen; I'm told she'd rather not say. 'Tis nothing, then!\r\n"
    "\n"
    "def ten(men: int = 10) -> str:\n"
    "    return f'{men} men'  # ten or 100\n"
    "\tif men == 10: pass\n"
    "\n"
    "Zehn Männer hören zehn Züge über zehn Brücken fahren.\n"
    "Десять человек слышат десять поездов.\n"
    "十个人听见十列火车。十人が十本の列車を聞く。\n"
    "दस आदमी दस रेलगाड़ियाँ सुनते हैं। ١٠ رجال\n"
    "🙂🙂 👩‍🚀👩‍🚀 🇩🇪 cafe\u0301 naïve\u00a0naïve\u2003x² ½  end   \n"
    "aaaaaaaaaaaaaaaa ---------------- <|endoftext|>\n"
)


def golden_files() -> dict[str, bytes]:
    """Return the name and the bytes of each file."""
    tokenizer = Tokenizer.train(CORPUS, VOCAB_SIZE, special_tokens=SPECIAL_TOKENS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "vocabulary.json")
        tokenizer.save(path)
        vocabulary = path.read_bytes()
    return {"corpus.txt": CORPUS.encode(), "vocabulary.json": vocabulary}


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, data in golden_files().items():
        (FOLDER / name).write_bytes(data)
