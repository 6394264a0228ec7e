"""The rows of stage pretrain: how they become tokens, and which tokens are learned."""

import json
from collections.abc import Iterator
from pathlib import Path

from datasets import Dataset, Features, Value
from transformers import PreTrainedTokenizerBase

COLUMNS = Features({"text": Value("string"), "length": Value("int64")})


def prepared(file: Path) -> Dataset:
    """The rows of a file: the library's own reader takes texts for dates where all of them look like dates."""
    return Dataset.from_generator(lines, features=COLUMNS, gen_kwargs={"file": (str(file), file.stat().st_mtime_ns)})


def lines(file: tuple[str, int]) -> Iterator[dict]:
    with open(file[0], encoding="utf-8") as rows:
        yield from map(json.loads, rows)


def encode(row: dict, tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int]]:
    """Token ids and which of them are learned: all of them."""
    tokens = tokenizer(row["text"] + tokenizer.eos_token)["input_ids"]
    return tokens, [1] * len(tokens)


def opening(row: dict, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """The beginning of the text, for the model to go on from: half of it, and 256 tokens at most."""
    tokens = tokenizer(row["text"])["input_ids"]
    return tokens[: min((len(tokens) + 1) // 2, 256)]


def trained_tokens(rows: Dataset) -> int:
    """How many tokens the rows teach."""
    return sum(label != -100 for row in rows for label in row["labels"])


def trained_text(row: dict, tokenizer: PreTrainedTokenizerBase) -> str:
    """The row as text, with every trained stretch between [[ and ]]."""
    text, span, trained = "", [], False
    for token, label in zip([*row["input_ids"], None], [*row["labels"], None], strict=True):
        if span and (token is None or (label != -100) != trained):
            text += f"[[{tokenizer.decode(span)}]]" if trained else tokenizer.decode(span)
            span = []
        span.append(token)
        trained = label != -100
    return text
