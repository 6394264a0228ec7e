"""Evaluate stage reward of rlhf before and after training: the scores of the same rows.

    python stages/2-reward/evaluate.py before     the model that training starts from, with a random head: it guesses
    python stages/2-reward/evaluate.py after      the trained model, and what changed
    python stages/2-reward/evaluate.py merged     the merged model, compared with the trained one

Writes outputs/evaluation/reward/before.json, after.json and merged.json. With --quick it reads 32 rows
and writes into the folder quick below that.
What was measured on the same rows, model and script is not measured again.
"""

import argparse
import hashlib
import json
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import correlation, fmean

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

import torch
from accelerate import PartialState
from datasets import Dataset
from peft import PeftModel
from torch.nn.utils.rnn import pad_sequence
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    set_seed,
)

from rows import encode, prepared

BUNDLE = Path(__file__).resolve().parents[2]
BASE = str(BUNDLE / "outputs" / "sft" / "merged")
TRAINED = BUNDLE / "outputs" / "reward"
FINISHED = TRAINED / "finished.json"  # which result it is; train.py writes it last
MERGED = TRAINED / "merged"
MERGED_INTO = "the base, in bfloat16"  # a merge into other weights is made anew
WHENS = ("before", "after", "merged")
ROWS = BUNDLE / "data" / "reward" / "test.jsonl"
RESULTS = BUNDLE / "outputs" / "evaluation" / "reward"
MAX_ROWS = 1000
QUICK_ROWS = 32
TOKENS_AT_ONCE = 4096  # of a batch, with its padding
SAMPLES = 5
# A merge rounds each weight once more, which moves a loss by thousandths at most.
MERGE_MAY_COST = 0.01  # nats per pair; or 10% of what training gained, where that is more


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("when", choices=WHENS)
    parser.add_argument("--quick", action="store_true", help="a first look: few rows")
    args = parser.parse_args()
    results, most = (RESULTS / "quick", QUICK_ROWS) if args.quick else (RESULTS, MAX_ROWS)
    known: dict[str, dict] = {}
    behind: list[Path] = []  # the files that tell this model and this comparison from others
    for when in WHENS[: WHENS.index(args.when) + 1]:
        behind += marker(when)
        question, file = digest(*behind), results / f"{when}.json"
        known[when] = earlier(file, question)
        behind += [file] * bool(known[when])
    if known[args.when]:
        print(f"{file} is up to date and not measured again.")
    else:
        rows = prepared(ROWS)
        rows = rows.select(range(min(most, len(rows))))
        model, tokenizer = load(when)
        metrics = measure(model, tokenizer, rows)
        samples = show(model, tokenizer, rows)
        known[when] = {"rows": len(rows), "metrics": metrics, "samples": samples, "digest": question}
        found = json.dumps(known[when], indent=2, ensure_ascii=False)
        results.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{found}\n", encoding="utf-8")
        print(f"{when}: {found}")
    compare({when: result["metrics"] for when, result in known.items() if result}, when)


def marker(when: str) -> list[Path]:
    """The file that says which model it is; none for the one that training starts from."""
    if when == "before":
        return []
    if not FINISHED.is_file():
        raise SystemExit(f"{TRAINED} holds no finished result. Run train.py first.")
    if when == "after":
        return [FINISHED]
    merged, result = MERGED / "finished.json", json.loads(FINISHED.read_text(encoding="utf-8"))
    merge = json.dumps(result | {"merged_into": MERGED_INTO}, indent=2) + "\n"
    if not merged.is_file() or merged.read_text(encoding="utf-8") != merge:
        raise SystemExit(f"{MERGED} does not hold this result. Run merge_adapter.py first.")
    return [merged]


def compare(metrics: dict[str, dict[str, float]], when: str) -> None:
    """Print what is known side by side; stop where a merge has lost what was trained."""
    for name in dict.fromkeys(name for of in metrics.values() for name in of):
        values = [f"{of[name]:.4f} {then}" for then, of in metrics.items() if name in of]
        print(f"{name}: {', '.join(values)}")
    if when != "merged":
        return
    before, after, merged = (metrics.get(then, {}).get("loss") for then in WHENS)
    if after is None or merged is None:
        print("The merged model is not compared: run `evaluate.py after`, or add --quick to both.")
        return
    allowed = MERGE_MAY_COST if before is None else max(MERGE_MAY_COST, 0.1 * (before - after))
    if merged - after > allowed:
        raise SystemExit(
            f"The merge adds {merged - after:.4f} to loss; {allowed:.4f} is tolerated (MERGE_MAY_COST). "
            "Serve the adapter on the base that it was trained on."
        )


def digest(*more: Path) -> str:
    """What is asked, how, and of which model: two results can be compared only if all are the same."""
    if not ROWS.is_file():
        raise SystemExit(f"{ROWS} is missing. Run prepare_data.py first.")
    files = (ROWS, Path(__file__), Path(__file__).with_name("rows.py"), *more)
    found = hashlib.sha256(b"".join(file.read_bytes() for file in files))
    found.update(which_model(Path(BASE)))
    return found.hexdigest()


def which_model(folder: Path) -> bytes:
    """What tells a folder's model from another: the name of a training's result, else parts of its files."""
    if (folder / "finished.json").is_file():
        return (folder / "finished.json").read_bytes()
    found = hashlib.sha256()
    for file in sorted(path for path in folder.iterdir() if path.is_file()):
        size = file.stat().st_size
        found.update(f"{file.name} {size}".encode())
        with file.open("rb") as stream:
            for place in range(0, size, max(2**16, size // 64)):  # of large files 4 MiB from everywhere
                stream.seek(place)
                found.update(stream.read(2**16))
    return found.digest()


def earlier(file: Path, question: str) -> dict:
    """What was found before; empty if nothing was, or it is cut off, or of other rows or another model."""
    try:
        result = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if result.get("digest") != question:
        print(f"{file} is not used: of other rows, another model or another version of this script")
        return {}
    return result


def load(when: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The model before or after training or merged, and its tokenizer with the chat template of the training."""
    source = {"before": BASE, "after": str(TRAINED), "merged": str(MERGED)}[when]
    set_seed(42)  # the head is random before training
    model = AutoModelForSequenceClassification.from_pretrained(
        source if when == "merged" else BASE,
        dtype=torch.bfloat16,
        device_map={"": PartialState().device},
        attn_implementation="sdpa",
        num_labels=1,  # one score
    )
    if when == "after":
        model = PeftModel.from_pretrained(model, TRAINED)
    tokenizer = AutoTokenizer.from_pretrained(source)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token  # as the trainer does
    model.config.pad_token_id = tokenizer.pad_token_id  # the score is read at the last token that is no padding
    # rounded to 16 bits, the scores of answers that are nearly as good would tie
    model.score.float().register_forward_pre_hook(lambda head, states: (states[0].float(),))
    return model.eval(), tokenizer


@torch.no_grad()
def measure(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: Dataset) -> dict[str, float]:
    """How often and by how much the chosen answer scores higher, and whether scores only follow the length."""
    pairs = scores(model, tokenizer, rows)
    rewards = [reward for pair, _ in pairs for reward in pair]
    lengths = [length for _, pair in pairs for length in pair]
    varies = len(set(rewards)) > 1 and len(set(lengths)) > 1
    return {
        "loss": fmean(surprise(chosen - rejected) for (chosen, rejected), _ in pairs),
        "accuracy": fmean(chosen > rejected for (chosen, rejected), _ in pairs),
        "margin": fmean(chosen - rejected for (chosen, rejected), _ in pairs),
        "mean_reward": fmean(rewards),
        "length_correlation": correlation(rewards, lengths) if varies else 0.0,
        "longer_is_chosen": fmean(chosen > rejected for _, (chosen, rejected) in pairs),  # the accuracy of length alone
    }


def surprise(margin: float) -> float:
    """The loss of a pair, which is what training lowers: -log(sigmoid(margin))."""
    return max(-margin, 0.0) + math.log1p(math.exp(-abs(margin)))


def scores(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: Dataset
) -> list[tuple[tuple[float, float], tuple[int, int]]]:
    """Of the chosen and the rejected answer of every row: their scores, and how many tokens they have."""
    encoded = [encode(row, tokenizer, answer) for row in rows for answer in ("chosen", "rejected")]
    found = []
    for places in batches([tokens for tokens, _ in encoded]):
        batch = [encoded[place][0] for place in places]
        ids = padded(batch, model.config.pad_token_id).to(model.device)
        present = padded([[1] * len(tokens) for tokens in batch]).to(model.device)
        rewards = model(input_ids=ids, attention_mask=present, use_cache=False).logits[:, 0].tolist()
        found += zip(places, rewards, strict=True)
    rewards = [reward for _, reward in sorted(found)]
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
    sys.stdout.reconfigure(errors="backslashreplace")  # what is printed of rows may have letters that a log cannot
    main()
