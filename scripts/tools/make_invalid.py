"""Write tests/data/invalid: copies of a valid vocabulary file, each with one fault.

The name of a file tells its fault.
"""

import copy
import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "data" / "invalid"


def valid_document() -> dict[str, Any]:
    """Return the document of a vocabulary with three merges and two special tokens."""
    tokens = [bytes([byte]) for byte in range(256)]
    tokens += [b"ab", b"abc", b" abc", b"<|a|>", b"<|b|>"]
    return {
        "schema_version": 1,
        "mergeable_vocab_size": 259,
        "pretokenizer_pattern": (
            r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
        ),
        "vocab": {str(id): list(token) for id, token in enumerate(tokens)},
        "merges": [[97, 98], [256, 99], [32, 257]],
        "special_tokens": {"<|a|>": 259, "<|b|>": 260},
    }


def valid_document_2() -> dict[str, Any]:
    """Return the document of schema version 2 of a vocabulary with unusual ids.

    The byte b has the id 255 - b. The four merges are (a b) (ab c) (a bc) (space abc): the second
    and the third make the same token, and no merge makes bc or xyz.
    """
    return {
        "schema_version": 2,
        "pretokenizer_pattern": r" ?[a-zé]+|\s+",
        "unicode_version": "16.0.0",
        "byte_ids": [255 - byte for byte in range(256)],
        "merges": [158, 157, 300, 156, 158, 400, 223, 301],
        "merge_ids": [[300, 2], [301, 2]],
        "other_tokens": {"400": [98, 99], "500": [120, 121, 122]},
        "ignore_merges": False,
        "more_patterns": [r"[a-m]|."],
        "normalizer": "NFC",
        "special_tokens": {"<|a|>": 700, "bc": 400},
        "kept_special_tokens": ["bc"],
        "prefix_ids": [400, 158],
        "suffix_ids": [302],
        "settings": {"bos_token": "<|a|>"},
    }


VALID = valid_document()
VALID_2 = valid_document_2()


def file_of(document: object) -> bytes:
    """Return the file of a document; lone surrogates are escaped."""
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def replaced(old: str, new: bytes) -> bytes:
    """Return the valid file with one part replaced."""
    file = file_of(VALID)
    assert file.count(old.encode()) == 1, old
    return file.replace(old.encode(), new)


def changed(*path: str | int, to: object, valid: object = VALID) -> bytes:
    """Return the valid file with another value at a path."""
    document: Any = copy.deepcopy(valid)
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = to
    return file_of(document)


def changed_2(*path: str | int, to: object) -> bytes:
    """Return the valid file of schema version 2 with another value at a path."""
    return changed(*path, to=to, valid=VALID_2)


def without(*path: str, valid: object = VALID) -> bytes:
    """Return the valid file without a key."""
    document: Any = copy.deepcopy(valid)
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return file_of(document)


def without_2(key: str) -> bytes:
    """Return the valid file of schema version 2 without a key."""
    return without(key, valid=VALID_2)


def invalid_files() -> dict[str, bytes]:
    """Return the bytes of each file by the name of its fault."""
    file = file_of(VALID)
    return {
        # No JSON object at all
        "empty": b"",
        "truncated": file[: len(file) // 2],
        "byte-order-mark": b"\xef\xbb\xbf" + file,
        "not-utf-8": replaced('"<|a|>":259', b'"\xff":259'),
        "not-json": file.replace(b'"', b"'"),
        "not-a-number": replaced('"schema_version":1', b'"schema_version":NaN'),
        "not-an-object": b"[]\n",
        # Keys
        "key-given-twice": replaced('"schema_version":1', b'"schema_version":1,"schema_version":1'),
        "key-missing": without("merges"),
        "key-unknown": changed("version", to=1),
        # Single values
        "schema-version-unknown": changed("schema_version", to=3),
        "mergeable-vocab-size-wrong": changed("mergeable_vocab_size", to=261),
        "pattern-different": changed("pretokenizer_pattern", to=r"\S+|\s+"),
        # Merges
        "merges-not-a-list": changed("merges", to={"0": [97, 98]}),
        "merge-of-three": changed("merges", 1, to=[256, 99, 100]),
        "merge-of-strings": changed("merges", 0, to=["a", "b"]),
        "merge-refers-to-later-id": changed("merges", 1, 0, to=258),
        "merge-given-twice": changed("merges", 2, to=[97, 98]),
        # Special tokens
        "special-tokens-not-an-object": changed("special_tokens", to=["<|a|>", "<|b|>"]),
        "special-token-given-twice": replaced('"<|a|>":259', b'"<|a|>":259,"<|a|>":259'),
        "special-token-empty": replaced('"<|b|>":260', b'"":260'),
        "special-token-with-lone-surrogate": replaced('"<|b|>":260', rb'"<|\ud800|>":260'),
        "special-id-after-a-gap": changed("special_tokens", "<|b|>", to=261),
        "special-id-shared": changed("special_tokens", "<|b|>", to=259),
        # Vocab
        "vocab-not-an-object": changed("vocab", to=[[0], [1]]),
        "vocab-id-given-twice": replaced('"256":', b'"256":[97,98],"256":'),
        "vocab-id-missing": without("vocab", "255"),
        "vocab-id-unknown": changed("vocab", "261", to=[97]),
        "vocab-id-with-leading-zero": changed("vocab", "01", to=[1]),
        "vocab-bytes-not-a-list": changed("vocab", "256", to="ab"),
        "vocab-byte-out-of-range": changed("vocab", "255", to=[256]),
        "vocab-bytes-not-of-the-merge": changed("vocab", "257", to=[97, 98, 100]),
        "vocab-bytes-not-of-the-literal": changed("vocab", "259", to=[60, 124, 98, 124, 62]),
        # Schema version 2
        "2-unicode-version-different": changed_2("unicode_version", to="15.0.0"),
        "2-pattern-does-not-compile": changed_2("pretokenizer_pattern", to="("),
        "2-byte-id-given-twice": changed_2("byte_ids", 1, to=255),
        "2-merges-of-odd-length": changed_2("merges", to=[158, 157, 300]),
        "2-merge-of-itself": changed_2("merges", 1, to=300),
        "2-merge-given-twice": changed_2("merges", to=[158, 157, 300, 156, 300, 156, 223, 301]),
        "2-merge-makes-another-token": changed_2("merges", 5, to=157),
        "2-merge-ids-of-a-huge-run": changed_2("merge_ids", to=[[0, 4294967295]]),
        "2-other-token-of-one-byte": changed_2("other_tokens", "400", to=[98]),
        "2-other-id-with-leading-zero": changed_2("other_tokens", "01", to=[98, 99]),
        "2-bytes-with-two-ids": changed_2("other_tokens", "500", to=[97, 98]),
        "2-special-id-of-another-token": changed_2("special_tokens", "<|a|>", to=300),
        "2-key-missing": without_2("settings"),
        "2-key-unknown": changed_2("vocab", to={}),
        "2-one-more-pattern-is-a-name": changed_2("more_patterns", to=["gpt2"]),
        "2-normalizer-unknown": changed_2("normalizer", to="NFKC"),
        "2-kept-special-token-unknown": changed_2("kept_special_tokens", to=["bc", "<|b|>"]),
        "2-kept-special-token-given-twice": changed_2("kept_special_tokens", to=["bc", "bc"]),
        "2-prefix-id-unknown": changed_2("prefix_ids", 1, to=701),
        "2-suffix-id-not-an-integer": changed_2("suffix_ids", 0, to=302.0),
        "2-setting-not-a-string": changed_2("settings", "bos_token", to=700),
        "2-setting-with-lone-surrogate": changed_2("settings", "bos_token", to="\ud800"),
    }


def main() -> None:
    """Make the folder hold these files and no others."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in FOLDER.glob("*.json"):
        path.unlink()
    for reason, data in invalid_files().items():
        (FOLDER / f"{reason}.json").write_bytes(data)


if __name__ == "__main__":
    main()
