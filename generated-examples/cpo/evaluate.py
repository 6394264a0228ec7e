"""Evaluate cpo before and after training: the same rows, the same loss, the same questions.

    python evaluate.py before     the model that training starts from
    python evaluate.py after      the trained model, and what changed

Writes outputs/evaluation/cpo/before.json and after.json.
Losses are means over all learned tokens, in nats.
What was measured on the same rows, model and script is not measured again.
"""

import argparse
import hashlib
import json
import os
from pathlib import Path

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

import torch
from datasets import Dataset, load_dataset
from peft import AutoPeftModelForCausalLM
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from rows import encode, opening

BUNDLE = Path(__file__).resolve().parent
BASE = "Qwen/Qwen2.5-7B-Instruct"
TRAINED = BUNDLE / "outputs" / "cpo"
FINISHED = TRAINED / "finished.json"  # which result it is; train.py writes it last
ROWS = BUNDLE / "data" / "cpo" / "test.jsonl"
RESULTS = BUNDLE / "outputs" / "evaluation" / "cpo"
MAX_ROWS = 500
MAX_LENGTH = 1024
SAMPLES = 5
NEW_TOKENS = 128


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
    loader = AutoModelForCausalLM if when == "before" else AutoPeftModelForCausalLM
    model = loader.from_pretrained(
        source,
        dtype=torch.bfloat16,
        device_map="auto",
        attn_implementation="sdpa",
    )
    tokenizer = AutoTokenizer.from_pretrained(source)
    return model.eval(), tokenizer


@torch.no_grad()
def measure(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: Dataset) -> dict[str, float]:
    """How often the chosen answer is the likelier one, which is what is trained, and its loss per token."""
    wins, pairs, loss, tokens = 0, 0, 0.0, 0
    for row in rows:
        chosen_loss, chosen_tokens = summed_loss(model, *encode(row, tokenizer, "chosen"))
        rejected_loss, rejected_tokens = summed_loss(model, *encode(row, tokenizer, "rejected"))
        loss, tokens = loss + chosen_loss, tokens + chosen_tokens
        if chosen_tokens and rejected_tokens:
            wins, pairs = wins + (chosen_loss < rejected_loss), pairs + 1
    if not pairs:
        raise SystemExit(f"no row of {ROWS} has learned tokens of both answers among its first {MAX_LENGTH}")
    return {"preference_accuracy": wins / pairs, "chosen_loss": loss / tokens}


def summed_loss(model: PreTrainedModel, tokens: list[int], learned: list[int]) -> tuple[float, int]:
    """Summed loss of the learned tokens, and how many there are."""
    ids = torch.tensor([tokens[:MAX_LENGTH]], device=model.device)
    mask = torch.tensor(learned[1:MAX_LENGTH], dtype=torch.bool, device=model.device)
    logits = model(input_ids=ids).logits[0, :-1][mask].float()
    loss = torch.nn.functional.cross_entropy(logits, ids[0, 1:][mask], reduction="sum")
    return loss.item(), int(mask.sum())


@torch.no_grad()
def show(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: Dataset) -> list[dict[str, str]]:
    """Greedy answers to the first questions."""
    answered = []
    for row in rows.select(range(min(SAMPLES, len(rows)))):
        question = opening(row, tokenizer)
        ids = torch.tensor([question], device=model.device)
        output = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW_TOKENS, do_sample=False)
        answer = tokenizer.decode(output[0, len(question) :])
        answered.append({"question": tokenizer.decode(question), "answer": answer})
    return answered


if __name__ == "__main__":
    main()
