"""Combine the adapters of fused-tasks: compare, ensemble and route them.

    python combine.py compare                 the loss of each adapter and combination on the rows of every task
    python combine.py ask "QUESTION"          answered by the adapter of the nearest task
    python combine.py ask "QUESTION" --task billing
    python combine.py ask "QUESTION" --ensemble billing=0.5 sales=0.5
    python combine.py ask "QUESTION" --fused  answered by the learned mix of all adapters

The nearest task is the one whose training questions have the closest mean: means of the base model's last hidden
states, without an adapter. It always finds a task, also for a question that belongs to none.
compare scores the rows that evaluate.py scores, each by the loss of its own task. No task learns from the rows that it
is judged by, but another one may hold them: combinations look better than they are where tasks share questions.
The mix learns from rows of its own: it may have learned some of the rows that compare scores. No task has learned those
by which evaluate.py of the mix judges it.
"""

import argparse
import json
import os
import sys
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

import torch
from datasets import Dataset
from peft import PeftModel
from transformers import PreTrainedTokenizerBase

BUNDLE = Path(__file__).resolve().parent
COMBINED = BUNDLE / "outputs" / "combined"
SCRIPTS = {"billing": "stages/1-billing", "sales": "stages/2-sales"}
MIX = {"fusion": "stages/3-fusion"}  # learned behind them, from rows of all tasks
ROWS_TO_ROUTE_BY = 100  # training questions of each task


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    comparing = commands.add_parser("compare", help="the loss of every adapter and combination on every task")
    comparing.add_argument("--rows", type=int, help="of each task at most; default: as many as evaluate.py scores")
    asking = commands.add_parser("ask", help="answer questions with one adapter, or with several together")
    asking.add_argument("questions", nargs="+", metavar="QUESTION")
    answering = asking.add_mutually_exclusive_group()
    answering.add_argument("--task", choices=SCRIPTS, help="default: the nearest one")
    answering.add_argument("--ensemble", nargs="+", metavar="TASK=SHARE")
    answering.add_argument("--fused", action="store_true", help="the learned mix of all adapters")
    args = parser.parse_args()
    {"compare": compare, "ask": ask}[args.command](args)


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
            "up to 1."
        )
    return found


def result(task: str) -> Path:
    """The folder of a task's adapter."""
    folder = BUNDLE / "outputs" / task
    if not (folder / "finished.json").is_file():
        raise SystemExit(f"{folder} holds no finished adapter. Train this task first, as README.md says.")
    return folder


def compare(args: argparse.Namespace) -> None:
    """Print and keep the loss of every adapter and combination on the held-out rows of every task."""
    fused = losses_of_mix(args.rows)
    model, tokenizer = load()
    together = Ensemble(model, dict.fromkeys(SCRIPTS, 1 / len(SCRIPTS)))
    means = task_means(model, tokenizer)
    table: dict[str, dict[str, float]] = {}
    for task in SCRIPTS:
        evaluation = evaluation_of(task)
        rows = rows_of(evaluation, evaluation.ROWS, args.rows or evaluation.MAX_ROWS)
        with model.disable_adapter():
            losses = {"base": evaluation.measure(model, tokenizer, rows)["eval_loss"]}
        for adapter in SCRIPTS:
            model.set_adapter(adapter)
            losses[adapter] = evaluation.measure(model, tokenizer, rows)["eval_loss"]
        losses["ensemble"] = evaluation.measure(together, tokenizer, rows)["eval_loss"]
        losses["fused"] = fused[task]
        found = [nearest(meaning(model, evaluation.opening(row, tokenizer)), means) for row in rows]
        table[task] = losses | {"routed here": found.count(task) / len(found)}
    COMBINED.mkdir(parents=True, exist_ok=True)
    (COMBINED / "compare.json").write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")
    columns = list(table[task])
    print("Loss on held-out rows, in nats per token, and the share of rows that are routed to their own task:\n")
    print(f"| task | {' | '.join(columns)} |\n{'|---' * (len(columns) + 1)}|")
    for task, values in table.items():
        print(f"| {task} | {' | '.join(f'{values[column]:.4f}' for column in columns)} |")


def losses_of_mix(most: int | None) -> dict[str, float]:
    """The loss of the learned mix on the held-out rows of every task; its model is gone before others are loaded."""
    model, tokenizer = evaluation_of("fusion").load("after")
    found = {}
    for task in SCRIPTS:
        evaluation = evaluation_of(task)
        rows = rows_of(evaluation, evaluation.ROWS, most or evaluation.MAX_ROWS)
        found[task] = evaluation.measure(model, tokenizer, rows)["eval_loss"]
    return found


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
    folder = str(BUNDLE / (SCRIPTS | MIX)[task])
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
    if args.fused:
        answer_fused(args.questions)
        return
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


def answer_fused(questions: list[str]) -> None:
    """Print the answer of the learned mix to each question."""
    evaluation = evaluation_of("fusion")
    model, tokenizer = evaluation.load("after")
    for asked in questions:
        answer = evaluation.answers(model, tokenizer, [tokens_of(asked, tokenizer)])[0]
        print(f"fused: {tokenizer.decode(answer, skip_special_tokens=True).strip()}")


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
