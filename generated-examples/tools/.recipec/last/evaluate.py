"""Evaluate tools before and after training: the rewards of the same prompts, played with the same tools.

    python evaluate.py before     the model that training starts from
    python evaluate.py after      the trained model, and what changed
    python evaluate.py merged     the merged model, compared with the trained one

Writes outputs/evaluation/grpo/before.json, after.json and merged.json. With --quick it reads 32 rows
and writes into the folder quick below that.
Rewards are means over the prompts, of one greedy answer to each, played with the tools of the training.
What was measured on the same rows, model and script is not measured again.
"""

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle, starmap
from pathlib import Path
from statistics import fmean

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

import torch
from accelerate import PartialState
from datasets import Dataset
from peft import PeftModel
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from trl.chat_template_utils import (
    add_response_schema,
    get_training_chat_template,
    is_chat_template_prefix_preserving,
    parse_response,
)

from rows import encode, opening, prepared, told
from tools import Shop, tools_of

BUNDLE = Path(__file__).resolve().parent
BASE = "Qwen/Qwen3-1.7B"
TRAINED = BUNDLE / "outputs" / "grpo"
FINISHED = TRAINED / "finished.json"  # which result it is; train.py writes it last
MERGED = TRAINED / "merged"
MERGED_INTO = "the base, in bfloat16"  # a merge into other weights is made anew
WHENS = ("before", "after", "merged")
ROWS = BUNDLE / "data" / "grpo" / "test.jsonl"
RESULTS = BUNDLE / "outputs" / "evaluation" / "grpo"
MAX_ROWS = 128
QUICK_ROWS = 32
MAX_LENGTH = 128
TOKENS_AT_ONCE = 4096  # of a batch, with its padding
SAMPLES = 5
NEW_TOKENS = 384
ROUNDS = 4  # of tool calls in an answer
ANSWERS_AT_ONCE = 128  # questions in a batch: the keys and values of each are in memory
# A merge rounds each weight once more, which moves a loss by thousandths at most.
MERGE_MAY_COST = 0.01  # nats per token


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
        metrics, said = measure(model, tokenizer, rows)
        samples = show(tokenizer, rows, said)
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
    after, merged = (metrics.get(then, {}).get("prompt_loss") for then in WHENS[1:])
    if after is None or merged is None:
        print("The merged model is not compared: run `evaluate.py after`, or add --quick to both.")
        return
    if merged - after > MERGE_MAY_COST:
        raise SystemExit(
            f"The merge adds {merged - after:.4f} to prompt_loss; {MERGE_MAY_COST} is tolerated (MERGE_MAY_COST). "
            "Serve the adapter on the base that it was trained on."
        )
    start = metrics.get("before", metrics["after"])["mean_reward"]  # where nothing is learned
    gained, kept = (metrics[then].get("mean_reward", start) - start for then in WHENS[1:])
    if gained - kept > max(gained / 2, 0.2):
        raise SystemExit(
            f"Of what training gained in mean_reward, {gained:.4f}, the merged model has {kept:.4f}. "
            "Serve the adapter on the base that it was trained on."
        )


def digest(*more: Path) -> str:
    """What is asked, how, and of which model: two results can be compared only if all are the same."""
    if not ROWS.is_file():
        raise SystemExit(f"{ROWS} is missing. Run prepare_data.py first.")
    files = (
        ROWS,
        Path(__file__),
        Path(__file__).with_name("rows.py"),
        Path(__file__).with_name("tools.py"),
        *sorted(Path(__file__).with_name("functions").glob("*.py")),
        *more,
    )
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
def measure(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: Dataset
) -> tuple[dict[str, float], list[list[dict]]]:
    """The mean reward of a greedy answer to each prompt, played with the tools, and how they were called.

    prompt_loss: nats per token of the prompts, which a merge must not change. mean_length: tokens written.
    cut_share: answers that do not end, or still call in the last round. calls: of tools, for each answer.
    failed_calls: the share of them that a tool refused.
    The answers come second.
    """
    found = []
    for places in groups(len(rows)):
        found += zip(places, played(model, tokenizer, rows.select(places)), strict=True)
    found = [answer for _, answer in sorted(found, key=lambda one: one[0])]
    loss, tokens = map(sum, zip(*summed_losses(model, [encode(row, tokenizer) for row in rows]), strict=True))
    names = found[0]["rewards"].keys()
    earned = {name: [answer["rewards"][name] for answer in found] for name in names}
    means = {name: fmean([value for value in values if value is not None] or [0.0]) for name, values in earned.items()}
    calls = sum(answer["calls"] for answer in found)
    metrics = {
        **{f"reward_{name}": mean for name, mean in means.items()},
        "mean_reward": sum(means.values()),
        "prompt_loss": loss / tokens,
        "mean_length": fmean(answer["tokens"] for answer in found),
        "cut_share": fmean(answer["cut"] for answer in found),
        "calls": calls / len(found),
        "failed_calls": sum(answer["failed"] for answer in found) / max(1, calls),
    }
    return metrics, [answer["messages"] for answer in found]


def played(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: Dataset) -> list[dict]:
    """An answer to each row: its messages, how it ended, how tools were called, and what it earned."""
    episodes = [Shop() for _ in rows]
    talks = [begun(row, episode.reset(**row)) for row, episode in zip(rows, episodes, strict=True)]
    offered = [tools_of(episode) for episode in episodes]
    counts = answer_with_tools(model, tokenizer, rows, talks, offered)
    messages = [talk[len(row["prompt"]) :] for talk, row in zip(talks, rows, strict=True)]
    earned = [{"Shop": episode.get_reward()} for episode in episodes]
    found = zip(counts, messages, earned, strict=True)
    return [counted | {"messages": said, "rewards": rewards} for counted, said, rewards in found]


def answer_with_tools(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    rows: Dataset,
    talks: list[list[dict]],
    offered: list[list[Callable]],
) -> list[dict]:
    """Write every answer behind its talk, turn by turn with the results of calls; count tokens and calls."""
    add_response_schema(tokenizer)  # by which calls are found in what the model writes
    whole = is_chat_template_prefix_preserving(tokenizer)
    template = tokenizer.chat_template if whole else get_training_chat_template(tokenizer)
    counts = [{"tokens": 0, "cut": False, "calls": 0, "failed": 0} for _ in talks]
    going, starts, stops = [*range(len(talks))], {}, endings(model, tokenizer)
    for turn in range(ROUNDS + 1):
        asked = [shown(tokenizer, template, talks[place], offered[place], rows[place]) for place in going]
        for place, question, tokens in zip(going, asked, answers(model, tokenizer, asked), strict=True):
            left = starts.setdefault(place, len(question)) + NEW_TOKENS - len(question)  # results count, too
            said = tokens[: max(0, left)]
            talks[place].append(parse_response(tokenizer, said, prefix=question, tools=offered[place]))
            counts[place]["tokens"] += len(said)
            counts[place]["cut"] = not said or said[-1] not in stops
        going = [place for place in going if talks[place][-1].get("tool_calls") and not counts[place]["cut"]]
        for place in going:
            if turn == ROUNDS:
                counts[place]["cut"] = True
            else:
                call_tools(talks[place], offered[place], counts[place])
        if not going:
            break
    return counts


def call_tools(talk: list[dict], tools: list[Callable], counted: dict) -> None:
    """Put the results of the calls in the last message behind it."""
    for call in talk[-1]["tool_calls"]:
        result, failed = called(call, tools)
        talk.append({"role": "tool", "name": call["function"]["name"], "content": result})
        counted["calls"] += 1
        counted["failed"] += failed


def begun(row: dict, observed: str | None) -> list[dict]:
    """The prompt, with what reset says behind its last message, as the trainer has it."""
    *before, last = row["prompt"]
    return [*before, {**last, "content": last["content"] + (observed or "")}]


def shown(
    tokenizer: PreTrainedTokenizerBase, template: str, talk: list[dict], tools: list[Callable], row: dict
) -> list[int]:
    """All that was said as tokens, with the tools, ready for what comes next."""
    asked = {"add_generation_prompt": True, "return_dict": True, "chat_template": template}
    return tokenizer.apply_chat_template(talk, tools=tools, **asked, **told(row))["input_ids"]


def called(call: dict, tools: list[Callable]) -> tuple[str, bool]:
    """What the trainer tells the model of a call, and whether it failed."""
    name = call["function"]["name"]
    tool = next((tool for tool in tools if tool.__name__ == name), None)
    if tool is None:
        return str({"error": f"Tool {name} not found."}), True
    try:
        return tool(**call["function"]["arguments"]), False
    except Exception as error:
        return str({"error": str(error)}), True


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
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """The logits that foretell the learned tokens of a batch, and these tokens: of a long row in pieces."""
    ids = padded([tokens for tokens, _ in batch]).to(model.device)
    present = padded([[1] * len(tokens) for tokens, _ in batch]).to(model.device)
    learned = padded([marks for _, marks in batch])[:, 1:].bool().to(model.device)
    kept = learned.any(0).nonzero().flatten()  # where the head is needed
    inputs = {"input_ids": ids, "attention_mask": present, "use_cache": False}
    with kept_states(model) as repeat:
        for places in kept.split(TOKENS_AT_ONCE):  # all places of several rows
            here = learned[:, places]
            yield model(**inputs, logits_to_keep=places.tolist()).logits[here], ids[:, 1 + places][here]
            repeat()


@contextmanager
def kept_states(model: PreTrainedModel) -> Iterator[Callable[[], None]]:
    """The layers run until they are told to repeat what they have found: then only the head runs."""
    embeddings = model.get_input_embeddings()
    layers = [module for module in model.modules() if embeddings in module.children()][-1]  # wrappers have them, too
    run, found = layers.forward, []

    def noted(*args: object, **options: object) -> object:
        found.append(run(*args, **options))
        return found[-1]

    def repeat() -> None:
        again = cycle(found)  # more than one state where several adapters answer together
        layers.forward = lambda *_, **__: next(again)

    layers.forward = noted
    try:
        yield repeat
    finally:
        layers.forward = run


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


def show(tokenizer: PreTrainedTokenizerBase, rows: Dataset, said: list[list[dict]]) -> list[dict]:
    """The first prompts, played: every message behind the prompt, calls and results among them."""
    questions = [tokenizer.decode(opening(row, tokenizer)) for row in rows.select(range(min(SAMPLES, len(rows))))]
    return [{"question": asked, "answer": messages} for asked, messages in zip(questions, said, strict=False)]


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
        repetition_penalty=1.0,  # none, as in training, whatever the model's own settings say
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
