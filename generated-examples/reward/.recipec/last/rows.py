"""The rows of stage reward: how they become tokens, and what is scored of them."""

from pathlib import Path

from datasets import Dataset, Features, Json, List, Value, load_dataset
from transformers import PreTrainedTokenizerBase
from trl.data_utils import common_prefix_length

COLUMNS = Features({"prompt": List(Json()), "chosen": List(Json()), "rejected": List(Json()), "length": Value("int64")})


def prepared(file: Path) -> Dataset:
    """The rows of a file. Without their types the library takes texts for dates where all of them look like dates."""
    return load_dataset("json", data_files=str(file), split="train", features=COLUMNS)


def encode(row: dict, tokenizer: PreTrainedTokenizerBase, answer: str) -> tuple[list[int], list[int]]:
    """Token ids with one of the two answers, and which of them are the answer's, as the trainer finds them."""
    pair = [row["prompt"] + row[side] for side in ("chosen", "rejected")]
    encoded = [tokenizer.apply_chat_template(turns, return_dict=True)["input_ids"] for turns in pair]
    start = min(common_prefix_length(opening(row, tokenizer), tokens) for tokens in encoded)
    whole = encoded[answer == "rejected"]
    return whole, [0] * start + [1] * (len(whole) - start)


def opening(row: dict, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """The prompt, ready for an answer."""
    return tokenizer.apply_chat_template(row["prompt"], add_generation_prompt=True, return_dict=True)["input_ids"]


def trained_tokens(rows: Dataset) -> int:
    """How many tokens the scores of the rows are read from."""
    return sum(len(row["chosen_ids"]) + len(row["rejected_ids"]) for row in rows)


def trained_text(row: dict, tokenizer: PreTrainedTokenizerBase) -> str:
    """Both conversations as they are scored."""
    chosen, rejected = (tokenizer.decode(row[f"{part}_ids"]) for part in ("chosen", "rejected"))
    return f"[[chosen]] {chosen}\n[[rejected]] {rejected}"
