"""The rows of stage kto: how they become tokens, and which tokens are learned."""

from pathlib import Path

from datasets import Dataset, Features, Json, List, Value, load_dataset
from transformers import PreTrainedTokenizerBase
from trl.data_utils import common_prefix_length

COLUMNS = Features(
    {
        "prompt": List(Json()),
        "completion": List(Json()),
        "label": Value("bool"),
        "length": Value("int64"),
    }
)


def prepared(file: Path) -> Dataset:
    """The rows of a file. Without their types the library takes texts for dates where all of them look like dates."""
    return load_dataset("json", data_files=str(file), split="train", features=COLUMNS)


def encode(row: dict, tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int]]:
    """Token ids and which of them are learned: those after the prompt, as the trainer finds them."""
    whole = tokenizer.apply_chat_template(row["prompt"] + row["completion"], return_dict=True)["input_ids"]
    start = common_prefix_length(opening(row, tokenizer), whole)
    return whole, [0] * start + [1] * (len(whole) - start)


def opening(row: dict, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """The prompt, ready for an answer."""
    return tokenizer.apply_chat_template(row["prompt"], add_generation_prompt=True, return_dict=True)["input_ids"]


def trained_tokens(rows: Dataset) -> int:
    """How many tokens the rows teach."""
    return sum(len(row["completion_ids"]) for row in rows)


def trained_text(row: dict, tokenizer: PreTrainedTokenizerBase) -> str:
    """The prompt, then the answer and how it is labeled."""
    label = "desirable" if row["label"] else "undesirable"
    return f"{tokenizer.decode(row['prompt_ids'])}\n  [[{label}]] {tokenizer.decode(row['completion_ids'])}"


def ends_with_stop(row: dict, tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether the last token of the answer, white space aside, is one that ends a turn."""
    tokens = list(row["completion_ids"])
    while tokens and not tokenizer.decode(tokens[-1]).strip():
        tokens.pop()
    return bool(tokens) and tokenizer.decode(tokens[-1]) in (tokenizer.eos_token, "<|im_end|>")
