"""The rows of stage on-policy-distill: how they become tokens, and which tokens are learned."""

from pathlib import Path

from datasets import Dataset, Features, Json, List, Value, load_dataset
from transformers import PreTrainedTokenizerBase

COLUMNS = Features({"prompt": List(Json()), "length": Value("int64")})


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


def check_tokenizers(student: PreTrainedTokenizerBase, teacher: PreTrainedTokenizerBase) -> None:
    """Refuse a teacher for which the student's tokens mean something else: they are compared by their numbers."""
    numbers = teacher.get_vocab()
    strange = [token for token, number in student.get_vocab().items() if numbers.get(token) != number]
    if strange:
        raise SystemExit(f"{len(strange)} of the student's tokens are not the teacher's, such as {strange[0]!r}.")
    text = "Sämtliche 3,141 cafés:\n\tfor i in range(10): print(f'{i}²') # 日本語 🙂  ..."
    ours, theirs = (tokenizer(text, add_special_tokens=False)["input_ids"] for tokenizer in (student, teacher))
    if ours != theirs:
        raise SystemExit("The teacher's tokenizer cuts text unlike the student's. Choose another teacher.")
