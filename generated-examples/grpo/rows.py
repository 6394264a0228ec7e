"""The rows of stage grpo: how they become tokens, and which tokens are learned."""

from pathlib import Path

from datasets import Dataset, Features, Json, List, Value, load_dataset
from transformers import PreTrainedTokenizerBase

COLUMNS = Features({"prompt": List(Json()), "judged_by": Value("string"), "length": Value("int64")})


def prepared(file: Path) -> Dataset:
    """The rows of a file. Without their types the library takes texts for dates where all of them look like dates."""
    return load_dataset("json", data_files=str(file), split="train", features=COLUMNS)


def told(row: dict) -> dict:
    """What the chat template is told beside the messages."""
    return {"enable_thinking": False}


def encode(row: dict, tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int]]:
    """The prompt as tokens, ready for an answer; every token counts."""
    tokens = opening(row, tokenizer)
    return tokens, [1] * len(tokens)


def opening(row: dict, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """The prompt, ready for an answer."""
    asked = tokenizer.apply_chat_template(row["prompt"], add_generation_prompt=True, return_dict=True, **told(row))
    return asked["input_ids"]


def trained_tokens(rows: Dataset) -> int:
    """How many tokens the prompts have that are answered; what is learned is written while training."""
    return sum(rows["length"])


def trained_text(row: dict, tokenizer: PreTrainedTokenizerBase) -> str:
    """The prompt as the model sees it."""
    return tokenizer.decode(opening(row, tokenizer))
