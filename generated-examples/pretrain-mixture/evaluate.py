"""Evaluate pretrain-mixture before and after training: the same rows, the same loss, the same questions.

    python evaluate.py before     random weights, as training starts from: they guess, a loss of about ln(vocabulary)
    python evaluate.py after      the trained model, and what changed

    torchrun --standalone --nproc-per-node N evaluate.py before    on N GPUs

Writes outputs/evaluation/pretrain/before.json and after.json. With --quick it reads 32 rows
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
from collections.abc import Iterable, Iterator
from itertools import starmap
from pathlib import Path

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

import torch
from accelerate import PartialState
from accelerate.utils import gather_object
from datasets import Dataset
from torch.nn.utils.rnn import pad_sequence
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    set_seed,
)

from rows import encode, opening, prepared

BUNDLE = Path(__file__).resolve().parent
BASE = "Qwen/Qwen3-30B-A3B-Base"
TRAINED = BUNDLE / "outputs" / "pretrain"
FINISHED = TRAINED / "finished.json"  # which result it is; train.py writes it last
WHENS = ("before", "after")
ROWS = BUNDLE / "data" / "pretrain" / "test.jsonl"
RESULTS = BUNDLE / "outputs" / "evaluation" / "pretrain"
MAX_ROWS = 500
QUICK_ROWS = 32
MAX_LENGTH = 4096
TOKENS_AT_ONCE = 4096  # of a batch, with its padding
SAMPLES = 5
NEW_TOKENS = 128
ANSWERS_AT_ONCE = 8  # questions in a batch: the keys and values of each are in memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("when", choices=WHENS)
    parser.add_argument("--quick", action="store_true", help="a first look: few rows")
    args = parser.parse_args()
    processes = PartialState(cpu=not torch.accelerator.is_available())  # those of torchrun; without it this one alone
    results, most = (RESULTS / "quick", QUICK_ROWS) if args.quick else (RESULTS, MAX_ROWS)
    known: dict[str, dict] = {}
    behind: list[Path] = []  # the files that tell this model and this comparison from others
    for when in WHENS[: WHENS.index(args.when) + 1]:
        behind += marker(when)
        question, file = digest(*behind), results / f"{when}.json"
        known[when] = earlier(file, question)
        behind += [file] * bool(known[when])
    if known[args.when]:
        PartialState().print(f"{file} is up to date and not measured again.")
    else:
        rows = prepared(ROWS)
        rows = rows.select(range(min(most, len(rows))))
        model, tokenizer = load(when)
        metrics = measure(model, tokenizer, rows, most)
        samples = show(model, tokenizer, rows)
        known[when] = {"rows": len(rows), "metrics": metrics, "samples": samples, "digest": question}
        if not processes.is_main_process:
            return
        found = json.dumps(known[when], indent=2, ensure_ascii=False)
        results.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{found}\n", encoding="utf-8")
        print(f"{when}: {found}")
    compare({when: result["metrics"] for when, result in known.items() if result})


def marker(when: str) -> list[Path]:
    """The file that says which model it is; none for the one that training starts from."""
    if when == "before":
        return []
    if not FINISHED.is_file():
        raise SystemExit(f"{TRAINED} holds no finished result. Run train.py first.")
    return [FINISHED]


def compare(metrics: dict[str, dict[str, float]]) -> None:
    """Print what is known side by side."""
    for name in dict.fromkeys(name for of in metrics.values() for name in of):
        values = [f"{of[name]:.4f} {then}" for then, of in metrics.items() if name in of]
        PartialState().print(f"{name}: {', '.join(values)}")


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
        PartialState().print(f"{file} is not used: of other rows, another model or another version of this script")
        return {}
    return result


def load(when: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The model before or after training, and its tokenizer with the chat template of the training."""
    source = BASE if when == "before" else str(TRAINED)
    if when == "before":
        model = random_model()
    else:
        model = AutoModelForCausalLM.from_pretrained(
            source,
            dtype=torch.bfloat16,
            device_map={"": PartialState().device},
            attn_implementation="sdpa",
        )
    tokenizer = AutoTokenizer.from_pretrained(source)
    model.config.output_router_logits = False  # the balance of the experts is a matter of training
    return model.eval(), tokenizer


def random_model() -> PreTrainedModel:
    """A model with the architecture of BASE and random weights."""
    set_seed(42)
    shape = AutoConfig.from_pretrained(BASE)
    model = AutoModelForCausalLM.from_config(
        shape,
        dtype=torch.bfloat16,
        attn_implementation="sdpa",
    )
    return model.to(PartialState().device)


@torch.no_grad()
def measure(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: Dataset, most: int = MAX_ROWS
) -> dict[str, float]:
    """Loss and perplexity over the texts, in about `most` windows as long as the blocks of training."""
    windows, all_tokens = [], 0
    for row in rows:
        text, learned = encode(row, tokenizer)
        all_tokens += len(text) - 1  # the first token follows nothing
        for start in window_starts(len(text), -(-most // len(rows))):
            end = start + MAX_LENGTH
            windows.append((text[start:end], learned[start:end]))
    loss, tokens = map(sum, zip(*summed_losses(model, windows), strict=True))
    if not tokens:
        raise SystemExit(f"No row of {ROWS} has a trained token. Check the loss mask.")
    PartialState().print(f"scored {tokens:,} of {all_tokens:,} tokens of the texts")
    return {"eval_loss": loss / tokens, "perplexity": math.exp(loss / tokens)}


def window_starts(tokens: int, most: int) -> range:
    """Where windows of a text start, spread over all of it; each begins with the last token of the one before."""
    starts = range(0, max(1, tokens - 1), MAX_LENGTH - 1)
    return starts[:: -(-len(starts) // most)]


def summed_losses(model: PreTrainedModel, encoded: list[tuple[list[int], list[int]]]) -> list[tuple[float, int]]:
    """Of each sequence, given as tokens and marks of the learned ones: their summed loss, and how many they are."""
    cut = [(tokens[:MAX_LENGTH], learned[:MAX_LENGTH]) for tokens, learned in encoded]
    found = []
    for places in mine(batches([tokens for tokens, _ in cut])):
        batch = [cut[place] for place in places]
        losses = torch.cat([*starmap(token_losses, learned_logits(model, batch))])
        parts = losses.split([sum(learned[1:]) for _, learned in batch])
        found += [(place, part.sum().item(), len(part)) for place, part in zip(places, parts, strict=True)]
    return [(loss, tokens) for _, loss, tokens in sorted(gather_object(found))]


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


def mine(parts: Iterable[list[int]]) -> list[list[int]]:
    """This process's share of the batches; every process makes the same ones."""
    processes = PartialState()
    return list(parts)[processes.process_index :: processes.num_processes]


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
    said = [answer for _, answer in sorted(gather_object(found))]
    pairs = zip(questions, said, strict=True)
    return [{"question": tokenizer.decode(asked), "answer": tokenizer.decode(answer)} for asked, answer in pairs]


def groups(count: int) -> list[range]:
    """The places that this process answers, as many at once as find room; each process has a share of them."""
    share = range(count)[PartialState().process_index :: PartialState().num_processes]
    return [share[start : start + ANSWERS_AT_ONCE] for start in range(0, len(share), ANSWERS_AT_ONCE)]


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
    PartialState().wait_for_everyone()  # a rank that leaves early can break the connections of the others
    PartialState().destroy_process_group()
