"""Evaluate team-sales before and after training: the same rows, the same loss, the same questions.

    python evaluate.py before     the model that training starts from
    python evaluate.py after      the trained model, and what changed
    python evaluate.py merged     the merged model, compared with the trained one

Writes outputs/evaluation/sft/before.json, after.json and merged.json. With --quick it reads 32 rows
and writes into the folder quick below that.
Losses are means over all learned tokens, in nats.
What was measured on the same rows, model and script is not measured again.
"""

import argparse
import hashlib
import json
import math
import os
import sys
from collections.abc import Iterator
from itertools import starmap
from pathlib import Path

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

import torch
from accelerate import PartialState
from datasets import Dataset
from peft import PeftModel
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from rows import encode, opening, prepared

BUNDLE = Path(__file__).resolve().parent
BASE = "Qwen/Qwen3-8B"
TRAINED = BUNDLE / "outputs" / "sft"
FINISHED = TRAINED / "finished.json"  # which result it is; train.py writes it last
MERGED = TRAINED / "merged"
MERGED_INTO = "the base, in bfloat16"  # a merge into other weights is made anew
WHENS = ("before", "after", "merged")
ROWS = BUNDLE / "data" / "sft" / "test.jsonl"
RESULTS = BUNDLE / "outputs" / "evaluation" / "sft"
MAX_ROWS = 500
QUICK_ROWS = 32
MAX_LENGTH = 2048
TOKENS_AT_ONCE = 4096  # of a batch, with its padding
SAMPLES = 5
NEW_TOKENS = 128
ANSWERS_AT_ONCE = 8  # questions in a batch: the keys and values of each are in memory
# A merge rounds each weight once more, which moves a loss by thousandths at most.
MERGE_MAY_COST = 0.01  # nats per token; or 10% of what training gained, where that is more


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
    before, after, merged = (metrics.get(then, {}).get("eval_loss") for then in WHENS)
    if after is None or merged is None:
        print("The merged model is not compared: run `evaluate.py after`, or add --quick to both.")
        return
    allowed = MERGE_MAY_COST if before is None else max(MERGE_MAY_COST, 0.1 * (before - after))
    if merged - after > allowed:
        raise SystemExit(
            f"The merge adds {merged - after:.4f} to eval_loss; {allowed:.4f} is tolerated (MERGE_MAY_COST). "
            "Serve the adapter on the base that it was trained on."
        )


def digest(*more: Path) -> str:
    """What is asked, how, and of which model: two results can be compared only if all are the same."""
    if not ROWS.is_file():
        raise SystemExit(f"{ROWS} is missing. Run prepare_data.py first.")
    files = (ROWS, Path(__file__), Path(__file__).with_name("rows.py"), *more)
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


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
    model = AutoModelForCausalLM.from_pretrained(
        source if when == "merged" else BASE,
        dtype=torch.bfloat16,
        device_map={"": PartialState().device},
        attn_implementation="sdpa",
    )
    if when == "after":
        model = PeftModel.from_pretrained(model, TRAINED)
    tokenizer = AutoTokenizer.from_pretrained(source)
    return model.eval(), tokenizer


@torch.no_grad()
def measure(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: Dataset) -> dict[str, float]:
    """Loss and perplexity over all learned tokens."""
    losses = summed_losses(model, [encode(row, tokenizer) for row in rows])
    loss, tokens = map(sum, zip(*losses, strict=True))
    if not tokens:
        raise SystemExit(f"No row of {ROWS} has a trained token among its first {MAX_LENGTH}. Check the loss mask.")
    return {"eval_loss": loss / tokens, "perplexity": math.exp(loss / tokens)}


def summed_losses(model: PreTrainedModel, encoded: list[tuple[list[int], list[int]]]) -> list[tuple[float, int]]:
    """Of each sequence, given as tokens and marks of the learned ones: their summed loss, and how many they are."""
    cut = [(tokens[:MAX_LENGTH], learned[:MAX_LENGTH]) for tokens, learned in encoded]
    found = []
    for places in batches([tokens for tokens, _ in cut]):
        batch = [cut[place] for place in places]
        losses = torch.cat([*starmap(token_losses, learned_logits(model, batch))])
        parts = losses.split([sum(learned[1:]) for _, learned in batch])
        found += [(place, part.sum().item(), len(part)) for place, part in zip(places, parts, strict=True)]
    return [(loss, tokens) for _, loss, tokens in sorted(found)]


def token_losses(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The loss of every token, of 512 at a time: in fp32 the logits of each take a few MiB."""
    parts = zip(logits.split(512), labels.split(512), strict=True)
    return torch.cat([torch.nn.functional.cross_entropy(some.float(), of, reduction="none") for some, of in parts])


def learned_logits(
    model: PreTrainedModel, batch: list[tuple[list[int], list[int]]]
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The logits that foretell the learned tokens of a batch, and these tokens: in one piece, as no row is longer."""
    ids = padded([tokens for tokens, _ in batch]).to(model.device)
    present = padded([[1] * len(tokens) for tokens, _ in batch]).to(model.device)
    learned = padded([marks for _, marks in batch])[:, 1:].bool().to(model.device)
    kept = learned.any(0).nonzero().flatten().tolist()  # where the head is needed
    logits = model(input_ids=ids, attention_mask=present, logits_to_keep=kept, use_cache=False).logits
    return [(logits[learned[:, kept]], ids[:, 1:][learned])]


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
def show(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: Dataset) -> list[dict[str, str]]:
    """Greedy answers to the first questions, each up to the token that ends it."""
    questions = [opening(row, tokenizer) for row in rows.select(range(min(SAMPLES, len(rows))))]
    found = []
    for places in groups(len(questions)):
        found += zip(places, answers(model, tokenizer, [questions[place] for place in places]), strict=True)
    said = [answer for _, answer in sorted(found)]
    pairs = zip(questions, said, strict=True)
    return [{"question": tokenizer.decode(asked), "answer": tokenizer.decode(answer)} for asked, answer in pairs]


def groups(count: int) -> list[range]:
    """The places that are answered, as many at once as find room."""
    return [range(count)[start : start + ANSWERS_AT_ONCE] for start in range(0, count, ANSWERS_AT_ONCE)]


def answers(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, questions: list[list[int]]) -> list[list[int]]:
    """What the model says to each question, up to the token that ends it."""
    ids = padded(questions, side="left").to(model.device)
    present = padded([[1] * len(question) for question in questions], side="left").to(model.device)
    stops = endings(model, tokenizer)
    output = model.generate(
        ids,
        attention_mask=present,
        max_new_tokens=NEW_TOKENS,
        do_sample=False,
        eos_token_id=stops or None,
        pad_token_id=stops[0] if stops else 0,  # behind the end of an answer
    )
    said = output[:, ids.shape[1] :].tolist()
    ends = [next((n for n, token in enumerate(answer, 1) if token in stops), len(answer)) for answer in said]
    return [answer[:end] for answer, end in zip(said, ends, strict=True)]


def endings(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """The tokens that end an answer, also of an adapter, beside which the settings are those of the base model."""
    end = model.generation_config.eos_token_id
    stops = [] if end is None else torch.tensor(end).flatten().tolist()
    return stops if tokenizer.eos_token_id in (None, *stops) else [*stops, tokenizer.eos_token_id]


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="backslashreplace")  # what is printed of rows may have letters that a log cannot
    main()
