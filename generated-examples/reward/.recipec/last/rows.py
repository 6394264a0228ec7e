"""The rows of stage reward: how they become tokens, and what is scored of them."""

from datasets import Dataset
from transformers import PreTrainedTokenizerBase
from trl.data_utils import common_prefix_length


def encode(row: dict, tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int]]:
    """Token ids and which of them are learned: those after the prompt, as the trainer finds them."""
    whole = tokenizer.apply_chat_template(row["prompt"] + row["completion"], return_dict=True)["input_ids"]
    start = common_prefix_length(opening(row, tokenizer), whole)
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


def ends_with_stop(row: dict, tokenizer: PreTrainedTokenizerBase) -> bool:
    """Always: the model scores answers and writes none."""
    return True
