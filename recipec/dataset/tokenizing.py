"""Count tokens with a tokenizer.json, where the package tokenizers is installed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

_MOST_BYTES = 64 * 2**20  # of the file: 250,000 tokens and their merges take 33 MB


def tokens_in(texts: Sequence[str], file: Path) -> int | None:
    """How many tokens the texts have together, without those around a text; None where the file cannot be used."""
    if not find_spec("tokenizers") or not os.path.isfile(file) or file.stat().st_size > _MOST_BYTES:
        return None
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_buffer(file.read_bytes())
    except Exception:  # the library raises no other; the run itself tells what is wrong with the file
        return None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return sum(len(encoded.ids) for encoded in tokenizer.encode_batch(list(texts), add_special_tokens=False))
