"""Evaluate reward before and after training: the scores of the same rows.

    python evaluate.py before     the model that training starts from, with a random head: it guesses
    python evaluate.py after      the trained model, and what changed

Writes outputs/evaluation/reward/before.json and after.json.
What was measured on the same rows, model and script is not measured again.
"""

import argparse
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from statistics import correlation, fmean

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

import torch
from datasets import Dataset, load_dataset
from peft import AutoPeftModelForSequenceClassification
from torch.nn.utils.rnn import pad_sequence
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    set_seed,
)

from rows import encode

BUNDLE = Path(__file__).resolve().parent
BASE = "Qwen/Qwen3-8B"
TRAINED = BUNDLE / "outputs" / "reward"
FINISHED = TRAINED / "finished.json"  # which result it is; train.py writes it last
ROWS = BUNDLE / "data" / "reward" / "test.jsonl"
RESULTS = BUNDLE / "outputs" / "evaluation" / "reward"
MAX_ROWS = 500
TOKENS_AT_ONCE = 4096  # of a batch, with its padding
SAMPLES = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("when", choices=("before", "after"))
    when = parser.parse_args().when
    question = digest()
    before = known = earlier("before", question)
    if when == "after":
        if not FINISHED.is_file():
            raise SystemExit(f"{TRAINED} holds no finished result: run train.py first")
        question = digest(FINISHED, RESULTS / "before.json") if before else digest(FINISHED)
        known = earlier("after", question)
    if known:
        print(f"{RESULTS / f'{when}.json'} is up to date: not measured again")
        return
    model, tokenizer = load(when)
    rows = load_dataset("json", data_files=str(ROWS), split="train")
    rows = rows.select(range(min(MAX_ROWS, len(rows))))
    result = {"metrics": measure(model, tokenizer, rows), "samples": show(model, tokenizer, rows), "digest": question}
    print(f"{when}: {json.dumps(result, indent=2, ensure_ascii=False)}")
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{when}.json").write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n")
    if when == "after" and before:
        for name, old in before["metrics"].items():
            print(f"{name}: {old:.4f} before, {result['metrics'][name]:.4f} after")


def digest(*more: Path) -> str:
    """What is asked, how, and of which model: two results can be compared only if all are the same."""
    files = (ROWS, Path(__file__), Path(__file__).with_name("rows.py"), *more)
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def earlier(when: str, question: str) -> dict:
    """What was found before; empty if nothing was, or on other rows, or of another model."""
    file = RESULTS / f"{when}.json"
    result = json.loads(file.read_text()) if file.is_file() else {}
    if result and result.get("digest") != question:
        print(f"{file} is not used: it is of other rows, another model or another version of this script")
        return {}
    return result


def load(when: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The model before or after training, and its tokenizer with the chat template of the training."""
    source = BASE if when == "before" else str(TRAINED)
    set_seed(42)  # the head is random before training
    loader = AutoModelForSequenceClassification if when == "before" else AutoPeftModelForSequenceClassification
    model = loader.from_pretrained(
        source,
        dtype=torch.bfloat16,
        device_map="auto",
        attn_implementation="sdpa",
        num_labels=1,  # one score
    )
    tokenizer = AutoTokenizer.from_pretrained(source)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token  # as the trainer does
    model.config.pad_token_id = tokenizer.pad_token_id  # the score is read at the last token that is no padding
    return model.eval(), tokenizer


@torch.no_grad()
def measure(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: Dataset) -> dict[str, float]:
    """How often and by how much the chosen answer scores higher, and whether scores only follow the length."""
    pairs = scores(model, tokenizer, rows)
    rewards = [reward for pair, _ in pairs for reward in pair]
    lengths = [length for _, pair in pairs for length in pair]
    varies = len(set(rewards)) > 1 and len(set(lengths)) > 1
    return {
        "accuracy": fmean(chosen > rejected for (chosen, rejected), _ in pairs),
        "margin": fmean(chosen - rejected for (chosen, rejected), _ in pairs),
        "mean_reward": fmean(rewards),
        "length_correlation": correlation(rewards, lengths) if varies else 0.0,
        "longer_is_chosen": fmean(chosen > rejected for _, (chosen, rejected) in pairs),  # the accuracy of length alone
    }


def scores(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: Dataset
) -> list[tuple[tuple[float, float], tuple[int, int]]]:
    """Of the chosen and the rejected answer of every row: their scores, and how many tokens they have."""
    encoded = [encode(row, tokenizer, answer) for row in rows for answer in ("chosen", "rejected")]
    rewards = [0.0] * len(encoded)
    for places in batches([tokens for tokens, _ in encoded]):
        batch = [encoded[place][0] for place in places]
        ids = padded(batch, model.config.pad_token_id).to(model.device)
        present = padded([[1] * len(tokens) for tokens in batch]).to(model.device)
        found = model(input_ids=ids, attention_mask=present).logits[:, 0].tolist()
        for place, reward in zip(places, found, strict=True):
            rewards[place] = reward
    lengths = [sum(answered) for _, answered in encoded]
    return list(zip(by_row(rewards), by_row(lengths), strict=True))


def by_row(numbers: list) -> list[tuple]:
    """The numbers of a row's two answers side by side."""
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def batches(sequences: list[list[int]]) -> Iterator[list[int]]:
    """The places of sequences of like length, the longest first, as many as fit into TOKENS_AT_ONCE; one at least."""
    batch: list[int] = []
    for place in sorted(range(len(sequences)), key=lambda place: -len(sequences[place])):
        if batch and (len(batch) + 1) * len(sequences[batch[0]]) > TOKENS_AT_ONCE:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


def padded(sequences: list[list[int]], fill: int = 0, side: str = "right") -> torch.Tensor:
    tensors = [torch.tensor(numbers) for numbers in sequences]
    return pad_sequence(tensors, batch_first=True, padding_value=fill, padding_side=side)


@torch.no_grad()
def show(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: Dataset) -> list[dict[str, str | float]]:
    """The first pairs with their scores."""
    shown, first = [], rows.select(range(min(SAMPLES, len(rows))))
    for row, ((chosen, rejected), _) in zip(first, scores(model, tokenizer, first), strict=True):
        texts = {part: row[part][-1]["content"] for part in ("prompt", "chosen", "rejected")}
        shown.append({**texts, "chosen_reward": chosen, "rejected_reward": rejected})
    return shown


if __name__ == "__main__":
    main()
