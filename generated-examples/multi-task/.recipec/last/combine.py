"""Combine the adapters of multi-task: compare, merge, ensemble and route them.

    python combine.py compare                 the loss of each adapter and combination on the rows of every task
    python combine.py merge --weights billing=0.7 sales=0.3
    python combine.py ask "QUESTION"          answered by the adapter of the nearest task
    python combine.py ask "QUESTION" --task billing
    python combine.py ask "QUESTION" --ensemble billing=0.5 sales=0.5

merge needs no model. It writes a LoRA adapter below outputs/combined, which PEFT loads on the same base. Its --how:
    linear  the weighted sum of the updates, exactly; its rank is the sum of the ranks (PEFT's `cat`, not its `linear`)
    ties    keeps the largest entries of each update, and of those that disagree the stronger sign (arXiv 2306.01708)
    dare    drops entries of each update at random and scales up the rest (arXiv 2311.03099)
ties and dare change an update as a whole. Their result is brought back to the sum of the ranks, and merge prints how
much of it such an adapter holds.

The nearest task is the one whose training questions have the closest mean: means of the base model's last hidden
states, without an adapter. It always finds a task, also for a question that belongs to none.
compare scores the rows that evaluate.py scores, each by the loss of its own task. No task learns from the rows that it
is judged by, but another one may hold them: combinations look better than they are where tasks share questions.
"""

import argparse
import json
import math
import os
import sys
from collections.abc import Iterable
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

import torch
from datasets import Dataset
from peft import PeftConfig, PeftModel
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, PreTrainedTokenizerBase

BUNDLE = Path(__file__).resolve().parent
COMBINED = BUNDLE / "outputs" / "combined"
ORIGIN = "merged_from.json"  # beside a merged adapter: which results it was made from
SCRIPTS = {"billing": "stages/1-billing", "sales": "stages/2-sales"}
ROWS_TO_ROUTE_BY = 100  # training questions of each task
SEED = 42
DENSITY = 0.5  # of an update that ties and dare keep


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    merging = commands.add_parser("merge", help="write one adapter that does the work of several")
    merging.add_argument("--weights", nargs="+", required=True, metavar="TASK=SHARE")
    merging.add_argument("--how", choices=("linear", "ties", "dare"), default="linear")
    merging.add_argument("--scale", type=float, default=1.0, help="of the merged update; 1: the weighted mean")
    merging.add_argument("--density", type=float, help=f"of ties and dare: the share kept; default: {DENSITY:g}")
    merging.add_argument("-o", "--output", type=Path, help="default: a folder of outputs/combined")
    comparing = commands.add_parser("compare", help="the loss of every adapter and combination on every task")
    comparing.add_argument("--rows", type=int, help="of each task at most; default: as many as evaluate.py scores")
    asking = commands.add_parser("ask", help="answer questions with one adapter, or with several together")
    asking.add_argument("questions", nargs="+", metavar="QUESTION")
    answering = asking.add_mutually_exclusive_group()
    answering.add_argument("--task", choices=SCRIPTS, help="default: the nearest one")
    answering.add_argument("--ensemble", nargs="+", metavar="TASK=SHARE")
    args = parser.parse_args()
    {"merge": merge, "compare": compare, "ask": ask}[args.command](args)


def shares(given: list[str]) -> dict[str, float]:
    """The share of each task; stops at unknown tasks and at shares that are not parts of a whole."""
    found: dict[str, float] = {}
    for part in given:
        task, _, share = part.partition("=")
        if task not in SCRIPTS or task in found:
            raise SystemExit(f"{part}: name each task once, of {', '.join(SCRIPTS)}, as in {next(iter(SCRIPTS))}=0.5.")
        try:
            found[task] = float(share)
        except ValueError:
            raise SystemExit(f"{part}: write the share of {task} as a number, as in {task}=0.5.") from None
    if len(found) < 2 or min(found.values()) <= 0 or abs(sum(found.values()) - 1) > 1e-6:
        raise SystemExit(
            f"The shares {' '.join(given)} are not parts of a whole: give two tasks or more positive shares that add "
            "up to 1. `merge --scale` makes the merged update larger or smaller."
        )
    return found


def result(task: str) -> Path:
    """The folder of a task's adapter."""
    folder = BUNDLE / "outputs" / task
    if not (folder / "finished.json").is_file():
        raise SystemExit(f"{folder} holds no finished adapter. Train this task first, as README.md says.")
    return folder


def origin(tasks: Iterable[str]) -> dict[str, str]:
    """What tells the results of tasks from those of another training."""
    return {task: (result(task) / "finished.json").read_text(encoding="utf-8") for task in tasks}


def merge(args: argparse.Namespace) -> None:
    """Write one adapter from those of several tasks."""
    weights = shares(args.weights)
    output = args.output or COMBINED / named(args, weights)
    check_merge(args, output)
    configs = {task: PeftConfig.from_pretrained(result(task)) for task in weights}
    tensors = {task: load_file(result(task) / "adapter_model.safetensors") for task in weights}
    sources = [(tensors[task], scaling(configs[task]), args.scale * share) for task, share in weights.items()]
    torch.manual_seed(SEED)
    merged, lost, whole = {}, 0.0, 0.0
    for name in sorted({name for of in tensors.values() for name in of if ".lora_A." in name}):
        other = name.replace(".lora_A.", ".lora_B.")
        found = [(of[other] * scale, of[name], share) for of, scale, share in sources if name in of]
        merged[other], merged[name], of_update = combined(args.how, found, args.density or DENSITY)
        lost, whole = lost + of_update[0], whole + of_update[1]
    rank = sum(config.r for config in configs.values())
    config = next(iter(configs.values()))
    config.r = config.lora_alpha = rank  # so that PEFT scales the update by 1
    config.use_rslora, config.init_lora_weights, config.inference_mode = False, True, True
    output.mkdir(parents=True, exist_ok=True)
    save_file(merged, output / "adapter_model.safetensors", metadata={"format": "pt"})
    config.save_pretrained(output)
    (output / ORIGIN).write_text(json.dumps(origin(weights), indent=2) + "\n", encoding="utf-8")
    source = result(next(iter(weights)))
    AutoTokenizer.from_pretrained(source).save_pretrained(output)
    print(f"{output}: an adapter of rank {rank}, which holds {1 - lost / (whole or 1):.1%} of the merged update")


def named(args: argparse.Namespace, weights: dict[str, float]) -> str:
    """A folder of its own for every way to merge."""
    parts = [args.how, *(f"{task}-{100 * share:g}" for task, share in weights.items())]
    density = "" if args.density is None else f"-density-{args.density:g}"
    scale = "" if args.scale == 1 else f"-scale-{args.scale:g}"
    return "-".join(parts) + density + scale


def check_merge(args: argparse.Namespace, output: Path) -> None:
    """Stop at a density that would do nothing, and at a name that compare has for something else."""
    if args.density is not None and args.how == "linear":
        raise SystemExit("--density is of ties and dare: linear keeps all entries.")
    if args.density is not None and not 0 < args.density <= 1:
        raise SystemExit(f"--density is {args.density:g}: the share of entries kept is above 0 and at most 1.")
    if adapter_name(output) in (*SCRIPTS, "base", "ensemble"):
        raise SystemExit(f"{output}: compare would take it for another column. Give the folder another name.")


def scaling(config: PeftConfig) -> float:
    """What PEFT multiplies the product of the two matrices by."""
    return config.lora_alpha / (math.sqrt(config.r) if config.use_rslora else config.r)


def combined(
    how: str, parts: list[tuple[torch.Tensor, torch.Tensor, float]], density: float
) -> tuple[torch.Tensor, torch.Tensor, tuple[float, float]]:
    """Matrices B and A of the merged update of one module, and the squares of what they lose and of the whole update.

    `parts` has B, A and the share of each task.
    """
    if how == "linear":
        return (
            torch.cat([b * share for b, _, share in parts], dim=1).contiguous(),
            torch.cat([a for _, a, _ in parts]).contiguous(),
            (0.0, 1.0),
        )
    device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else "cpu"
    updates = torch.stack([b.to(device).float() @ a.to(device).float() for b, a, _ in parts])
    weights = torch.tensor([share for _, _, share in parts], device=device)[:, None, None]
    update = (ties if how == "ties" else dare)(updates, weights, density)
    rank = sum(len(a) for _, a, _ in parts)
    u, s, v = torch.svd_lowrank(update, q=min(rank, *update.shape), niter=4)
    lost, whole = (update - (u * s) @ v.T).square().sum().item(), update.square().sum().item()
    b, a = torch.zeros(len(update), rank), torch.zeros(rank, update.shape[1])
    b[:, : len(s)], a[: len(s)] = (u * s).cpu(), v.T.cpu()
    return b, a, (lost, whole)


def ties(updates: torch.Tensor, weights: torch.Tensor, density: float) -> torch.Tensor:
    """Trim each update to its largest entries; where signs differ, take the mean of those with the stronger one."""
    flat = updates.abs().flatten(1)
    least = flat.kthvalue(flat.shape[1] - math.ceil(density * flat.shape[1]) + 1, dim=1).values
    trimmed = updates * (updates.abs() >= least[:, None, None])
    agree = (trimmed.sign() == (weights * trimmed).sum(0).sign()) & (trimmed != 0)
    taking_part = (weights * agree).sum(0)
    return weights.sum() * (weights * trimmed * agree).sum(0) / taking_part.clamp_min(1e-12)


def dare(updates: torch.Tensor, weights: torch.Tensor, density: float) -> torch.Tensor:
    """Drop entries at random, scale the others so that the mean stays, and add up."""
    kept = torch.rand(updates.shape).to(updates.device) < density
    return (weights * updates * kept / density).sum(0)


def compare(args: argparse.Namespace) -> None:
    """Print and keep the loss of every adapter and combination on the held-out rows of every task."""
    model, tokenizer = load()
    merged = {adapter_name(file.parent): file.parent for file in COMBINED.glob("*/adapter_config.json")}
    for name, folder in merged.items():
        made_from = json.loads((folder / ORIGIN).read_text(encoding="utf-8"))
        if made_from != origin(made_from):
            raise SystemExit(f"{folder} was merged from adapters of an earlier training. Merge again, or remove it.")
        model.load_adapter(folder, adapter_name=name)
    together = Ensemble(model, dict.fromkeys(SCRIPTS, 1 / len(SCRIPTS)))
    means = task_means(model, tokenizer)
    table: dict[str, dict[str, float]] = {}
    for task in SCRIPTS:
        evaluation = evaluation_of(task)
        rows = rows_of(evaluation, evaluation.ROWS, args.rows or evaluation.MAX_ROWS)
        with model.disable_adapter():
            losses = {"base": evaluation.measure(model, tokenizer, rows)["eval_loss"]}
        for adapter in (*SCRIPTS, *sorted(merged)):
            model.set_adapter(adapter)
            losses[adapter] = evaluation.measure(model, tokenizer, rows)["eval_loss"]
        losses["ensemble"] = evaluation.measure(together, tokenizer, rows)["eval_loss"]
        found = [nearest(meaning(model, evaluation.opening(row, tokenizer)), means) for row in rows]
        table[task] = losses | {"routed here": found.count(task) / len(found)}
    COMBINED.mkdir(parents=True, exist_ok=True)
    (COMBINED / "compare.json").write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")
    columns = list(table[task])
    print("Loss on held-out rows, in nats per token, and the share of rows that are routed to their own task:\n")
    print(f"| task | {' | '.join(columns)} |\n{'|---' * (len(columns) + 1)}|")
    for task, values in table.items():
        print(f"| {task} | {' | '.join(f'{values[column]:.4f}' for column in columns)} |")


def adapter_name(folder: Path) -> str:
    """What PEFT calls a merged adapter: a name may have no dot."""
    return folder.name.replace(".", "-")


def load() -> tuple[PeftModel, PreTrainedTokenizerBase]:
    """The base model as evaluate.py loads it, with the adapter of every task, and its tokenizer."""
    base, tokenizer = evaluation_of(next(iter(SCRIPTS))).load("before")
    first, *others = SCRIPTS
    model = PeftModel.from_pretrained(base, result(first), adapter_name=first)
    for task in others:
        model.load_adapter(result(task), adapter_name=task)
    return model.eval(), tokenizer


@cache
def evaluation_of(task: str) -> ModuleType:
    """evaluate.py of a task, with the rows.py that stands beside it."""
    folder = str(BUNDLE / SCRIPTS[task])
    sys.modules.pop("rows", None)  # every task has its own
    sys.path.insert(0, folder)
    spec = spec_from_file_location(f"evaluate_{task}", f"{folder}/evaluate.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.path.remove(folder)
    return module


def rows_of(evaluation: ModuleType, file: Path, most: int) -> Dataset:
    """The first rows of a file that prepare_data.py has written."""
    rows = evaluation.prepared(file)
    return rows.select(range(min(most, len(rows))))


class Ensemble(torch.nn.Module):
    """Several adapters that answer together: the weighted mean of the probabilities that each gives a token."""

    def __init__(self, model: PeftModel, weights: dict[str, float]) -> None:
        super().__init__()
        self.model, self.weights = model, weights

    @property
    def device(self) -> torch.device:
        return self.model.device

    def get_input_embeddings(self) -> torch.nn.Module:
        return self.model.get_input_embeddings()

    def forward(self, **batch: object) -> SimpleNamespace:
        likely = 0.0
        for task, weight in self.weights.items():
            self.model.set_adapter(task)
            likely += weight * self.model(**batch).logits.float().softmax(-1)
        return SimpleNamespace(logits=likely.clamp_min(torch.finfo(torch.float32).tiny).log())


@torch.no_grad()
def ask(args: argparse.Namespace) -> None:
    """Print the answer to each question, and who gives it."""
    together = shares(args.ensemble) if args.ensemble else {}
    model, tokenizer = load()
    means = {} if args.task or together else task_means(model, tokenizer)
    for asked in args.questions:
        question = tokens_of(asked, tokenizer)
        if together:
            speaker = " + ".join(f"{share:g} {task}" for task, share in together.items())
            answer = answer_together(Ensemble(model, together), tokenizer, question)
        else:
            speaker = args.task or nearest(meaning(model, question), means)
            model.set_adapter(speaker)
            answer = evaluation_of(speaker).answers(model, tokenizer, [question])[0]
        print(f"{speaker}: {tokenizer.decode(answer, skip_special_tokens=True).strip()}")


def tokens_of(question: str, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """The question as the user's turn of the chat template."""
    turns = [{"role": "user", "content": question}]
    return tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_dict=True)["input_ids"]


def answer_together(together: Ensemble, tokenizer: PreTrainedTokenizerBase, question: list[int]) -> list[int]:
    """The greedy answer of several adapters, each of which reads all of it for every token."""
    ends = together.model.generation_config.eos_token_id
    stops = {tokenizer.eos_token_id, *(ends if isinstance(ends, list) else [ends])}
    answer: list[int] = []
    while len(answer) < evaluation_of(next(iter(SCRIPTS))).NEW_TOKENS and stops.isdisjoint(answer[-1:]):
        read = torch.tensor([question + answer], device=together.device)
        answer.append(together(input_ids=read, use_cache=False, logits_to_keep=1).logits[0, -1].argmax().item())
    return answer


@torch.no_grad()
def task_means(model: PeftModel, tokenizer: PreTrainedTokenizerBase) -> dict[str, torch.Tensor]:
    """What the training questions of each task are about, as the base model sees them."""
    found = {}
    for task in SCRIPTS:
        evaluation = evaluation_of(task)
        rows = rows_of(evaluation, evaluation.ROWS.with_name("train.jsonl"), ROWS_TO_ROUTE_BY)
        found[task] = torch.stack([meaning(model, evaluation.opening(row, tokenizer)) for row in rows]).mean(0)
    return found


@torch.no_grad()
def meaning(model: PeftModel, question: list[int]) -> torch.Tensor:
    """The mean of the base model's last hidden states over a question."""
    read = torch.tensor([question], device=model.device)
    with model.disable_adapter():
        states = model(input_ids=read, output_hidden_states=True, use_cache=False, logits_to_keep=1).hidden_states
    return states[-1][0].float().mean(0)


def nearest(found: torch.Tensor, means: dict[str, torch.Tensor]) -> str:
    """The task whose mean is closest."""
    return min(means, key=lambda task: torch.dist(found, means[task]).item())


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="backslashreplace")  # what is printed of rows may have letters that a log cannot
    main()
