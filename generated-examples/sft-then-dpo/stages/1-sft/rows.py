"""The rows of stage sft: how they become tokens, and which tokens are learned."""

from pathlib import Path

from datasets import Dataset, Features, Json, List, Value, load_dataset
from transformers import PreTrainedTokenizerBase

MARKED_TEMPLATE = Path(__file__).resolve().parents[2] / "marked_template.jinja"

COLUMNS = Features({"messages": List(Json()), "length": Value("int64")})


def prepared(file: Path) -> Dataset:
    """The rows of a file. Without their types the library takes texts for dates where all of them look like dates."""
    return load_dataset("json", data_files=str(file), split="train", features=COLUMNS)


def encode(row: dict, tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int]]:
    """Token ids and which of them are learned: those of the assistant."""
    encoded = tokenizer.apply_chat_template(
        row["messages"],
        chat_template=marked(tokenizer),
        return_dict=True,
        return_assistant_tokens_mask=True,
    )
    return encoded["input_ids"], encoded["assistant_masks"]


def marked(tokenizer: PreTrainedTokenizerBase) -> str:
    """The model's own chat template with what the assistant says marked."""
    marks = MARKED_TEMPLATE.read_text(encoding="utf-8")
    return marks.replace("OWN_TEMPLATE", tokenizer.get_chat_template().removesuffix("\n"))


def opening(row: dict, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """The conversation up to the assistant's last answer."""
    last = max(index for index, message in enumerate(row["messages"]) if message["role"] == "assistant")
    encoded = tokenizer.apply_chat_template(row["messages"][:last], add_generation_prompt=True, return_dict=True)
    return encoded["input_ids"]


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


def ends_with_stop(row: dict, tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether the last trained token, white space aside, is one that ends a turn."""
    tokens = [label for label in row["labels"] if label != -100]
    while tokens and not tokenizer.decode(tokens[-1]).strip():
        tokens.pop()
    return bool(tokens) and tokenizer.decode(tokens[-1]) in (tokenizer.eos_token, "<|im_end|>")
