"""Recipes as dictionaries: what tests write, change key by key, and compile."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from recipec.axes import METHODS, Own
from recipec.compiler import Compilation, compile_recipe
from recipec.recipe.schema import Recipe
from recipec.rules.metrics import metrics_of

Tables = dict[str, Any]

METRICS = frozenset().union(*map(metrics_of, METHODS.values()))

CHAT = [
    {"messages": [{"role": "user", "content": f"Why {n}?"}, {"role": "assistant", "content": f"Because of {n}."}]}
    for n in range(8)
]
GENERAL = [
    {"messages": [{"role": "user", "content": f"Who is {n}?"}, {"role": "assistant", "content": f"Number {n}."}]}
    for n in range(8)
]
SPLIT_BY = {"topic": [n % 2 for n in range(8)], "user": list(range(8)), "date": [2020 + n for n in range(8)]}
PAIRS = [{"prompt": f"Why {n}?", "chosen": f"Because of {n}.", "rejected": "No idea."} for n in range(8)]
ANSWERS = [{"prompt": f"Why {n}?", "completion": f"Because of {n}.", "label": n % 2 == 0} for n in range(8)]
INSTRUCTIONS = [{"instruction": f"Add {n} and 1.", "input": "", "output": str(n + 1)} for n in range(8)]
PROMPTS = [{"prompt": f"Add {n} and 1.", "sum": n + 1} for n in range(8)]
JUDGE = """def is_right(completions, sum):
    return [float(said[-1]["content"].split()[-1:] == [str(wanted)]) for said, wanted in zip(completions, sum)]


def is_short(completions):
    return [-len(said[-1]["content"]) / 100 for said in completions]
"""
SHOP = '''class Shop:
    def reset(self, sum: int) -> str:
        self.wanted, self.sold = sum, 0
        return " Buy what was asked."

    def buy(self, amount: int) -> str:
        """
        Buys pieces.

        Args:
            amount: How many.
        """
        self.sold += amount
        return f"{self.sold} sold."

    def get_reward(self) -> float:
        return float(self.sold == self.wanted)


def add(one: int, other: int) -> int:
    """
    Adds two numbers.

    Args:
        one: The first.
        other: The second.
    """
    return one + other


def double(one: int) -> int:
    """
    Doubles a number.

    Args:
        one: The number.
    """
    return 2 * one



class Market:
    def reset(self) -> None:
        self.open = True

    def close(self) -> str:
        """Closes the market."""
        self.open = False
        return "Closed."

    def get_reward(self) -> float:
        return float(self.open)
'''
DATA = {
    "prompts.jsonl": PROMPTS,
    "chat.jsonl": CHAT,
    "pairs.jsonl": PAIRS,
    "answers.jsonl": ANSWERS,
    "instructions.jsonl": INSTRUCTIONS,
    "general.jsonl": GENERAL,
}

_KNOWN = {"examples": 5_000, "tokens_per_example": 400, "max_length": 1024}


def _recipe(task: str, model: str, data: Tables, hardware: Tables, **more: Tables) -> Tables:
    return {
        "recipe": {"name": "case"},
        "goal": {"task": task},
        "model": {"name": model},
        "data": data,
        "hardware": hardware,
        **more,
    }


# One recipe for every shape that a bundle can have.
BASES: dict[str, Tables] = {
    "lora-single": _recipe("instruct", "Qwen/Qwen3-8B", {"train": "chat.jsonl"} | _KNOWN, {"gpu": "a100-80gb"}),
    "qlora": _recipe("instruct", "Qwen/Qwen3-14B", {"train": "chat.jsonl"} | _KNOWN, {"gpu": "rtx-4090"}),
    "lora-int8": _recipe(
        "instruct", "Qwen/Qwen3-14B", {"train": "chat.jsonl"} | _KNOWN, {"gpu": "l40s"}, train={"quantization": "int8"}
    ),
    "lora-ddp": _recipe(
        "instruct",
        "Qwen/Qwen2.5-7B",
        {"train": "instructions.jsonl", "template": "plain"} | _KNOWN,
        {"gpu": "h100", "gpus_per_node": 2},
    ),
    "adapters": _recipe(
        "instruct",
        "Qwen/Qwen2.5-7B",
        {"max_length": 1024},
        {"gpu": "h100"},
        adapters=[
            {"name": "support", "train": "chat.jsonl", "examples": 5_000, "tokens_per_example": 400},
            {"name": "orders", "train": "chat.jsonl", "examples": 900, "tokens_per_example": 200, "rank": 8},
        ],
    ),
    "fusion": _recipe(
        "instruct",
        "Qwen/Qwen2.5-1.5B",
        {"max_length": 1024},
        {"gpu": "h100"},
        adapters=[
            {"name": "support", "train": "chat.jsonl", "examples": 5_000, "tokens_per_example": 400},
            {"name": "orders", "train": "instructions.jsonl", "examples": 900, "tokens_per_example": 200},
        ],
        fusion={},
    ),
    "full-fsdp": _recipe(
        "instruct",
        "meta-llama/Llama-3.1-8B",
        {"train": "chat.jsonl"} | _KNOWN | {"examples": 250_000},
        {"gpu": "h100", "gpus_per_node": 8},
    ),
    "zero3-offload": _recipe(
        "instruct",
        "Qwen/Qwen2.5-7B-Instruct",
        {"train": "instructions.jsonl"} | _KNOWN,
        {"gpu": "rtx-4090", "gpus_per_node": 4, "host_memory_gib": 256, "cpu_cores": 64},
        train={"adaptation": "full", "strategy": "zero3", "offload": "cpu"},
    ),
    "sft-dpo": _recipe(
        "align",
        "Qwen/Qwen2.5-7B",
        {"train": "chat.jsonl", "preferences": "pairs.jsonl"} | _KNOWN,
        {"gpu": "a100-80gb", "gpus_per_node": 2},
    ),
    "dpo-full": _recipe(
        "align",
        "Qwen/Qwen2.5-0.5B-Instruct",
        {"preferences": "pairs.jsonl"} | _KNOWN,
        {"gpu": "h100"},
        train={"adaptation": "full"},
    ),
    "kto": _recipe(
        "align", "Qwen/Qwen2.5-0.5B-Instruct", {"preferences": "answers.jsonl"} | _KNOWN, {"gpu": "rtx-3060-12gb"}
    ),
    "sft-kto": _recipe(
        "align",
        "Qwen/Qwen2.5-7B",
        {"train": "chat.jsonl", "preferences": "pairs.jsonl"} | _KNOWN,
        {"gpu": "a100-80gb", "gpus_per_node": 2},
        alignment={"method": "kto"},
    ),
    "orpo": _recipe(
        "align",
        "Qwen/Qwen2.5-0.5B-Instruct",
        {"preferences": "pairs.jsonl"} | _KNOWN,
        {"gpu": "h100"},
        train={"adaptation": "full"},
        alignment={"method": "orpo"},
    ),
    "cpo": _recipe(
        "align",
        "Qwen/Qwen2.5-0.5B-Instruct",
        {"preferences": "pairs.jsonl"} | _KNOWN,
        {"gpu": "h100"},
        train={"adaptation": "full"},
        alignment={"method": "cpo"},
    ),
    "simpo": _recipe(
        "align",
        "Qwen/Qwen2.5-0.5B-Instruct",
        {"preferences": "pairs.jsonl"} | _KNOWN,
        {"gpu": "h100"},
        alignment={"method": "simpo"},
    ),
    "reward": _recipe(
        "reward", "meta-llama/Llama-3.2-1B", {"preferences": "pairs.jsonl"} | _KNOWN, {"gpu": "rtx-4090"}
    ),
    "distill": _recipe(
        "distill",
        "Qwen/Qwen2.5-0.5B-Instruct",
        {"train": "chat.jsonl"} | _KNOWN,
        {"gpu": "h100"},
        alignment={"teacher": "Qwen/Qwen2.5-7B-Instruct"},
    ),
    "on-policy-distill": _recipe(
        "on-policy-distill",
        "Qwen/Qwen2.5-0.5B-Instruct",
        {"prompts": "prompts.jsonl"} | _KNOWN,
        {"gpu": "h100"},
        alignment={"teacher": "Qwen/Qwen2.5-7B-Instruct"},
    ),
    "grpo": _recipe(
        "align",
        "Qwen/Qwen2.5-0.5B-Instruct",
        {"prompts": "prompts.jsonl"} | _KNOWN,
        {"gpu": "h100"},
        alignment={"reward": "judge.py:is_right"},
    ),
    "rloo": _recipe(
        "align",
        "Qwen/Qwen2.5-0.5B-Instruct",
        {"prompts": "prompts.jsonl"} | _KNOWN,
        {"gpu": "h100"},
        alignment={"method": "rloo", "reward": "judge.py:is_right"},
    ),
    "ppo": _recipe(
        "align",
        "Qwen/Qwen2.5-0.5B-Instruct",
        {"prompts": "prompts.jsonl"} | _KNOWN,
        {"gpu": "h100"},
        alignment={"method": "ppo", "reward": "judge.py:is_right"},
    ),
    "tools": _recipe(
        "align",
        "Qwen/Qwen3-0.6B",
        {"prompts": "prompts.jsonl"} | _KNOWN,
        {"gpu": "h100"},
        alignment={"environment": "shop.py:Shop", "tools": ["shop.py:add"], "reward": "judge.py:is_short"},
    ),
    "served": _recipe(
        "align",
        "Qwen/Qwen2.5-0.5B-Instruct",
        {"prompts": "prompts.jsonl"} | _KNOWN,
        {"gpu": "h100", "gpus_per_node": 4},
        alignment={"reward": "judge.py:is_right", "generation": {"engine": "vllm-server"}},
    ),
    "copied": _recipe(
        "align",
        "Qwen/Qwen2.5-0.5B-Instruct",
        {"prompts": "prompts.jsonl"} | _KNOWN,
        {"gpu": "h100", "gpus_per_node": 4},
        alignment={"reward": "judge.py:is_right", "generation": {"engine": "vllm"}},
    ),
    "text": _recipe("continue-pretrain", "Qwen/Qwen2.5-3B", {"train": "manual.txt"} | _KNOWN, {"gpu": "h100"}),
    "text-sft": _recipe(
        "instruct",
        "Qwen/Qwen2.5-3B",
        {"domain_text": "manual.txt", "train": "chat.jsonl"} | _KNOWN,
        {"gpu": "h100"},
    ),
    "pretrain": _recipe(
        "pretrain", "Qwen/Qwen2.5-1.5B", {"train": "manual.txt"} | _KNOWN, {"gpu": "h100", "gpus_per_node": 2}
    ),
    "small-card": _recipe(
        "instruct", "Qwen/Qwen2.5-1.5B-Instruct", {"train": "chat.jsonl"} | _KNOWN, {"gpu": "rtx-3060-12gb"}
    ),
    "auto": _recipe("instruct", "auto", {"train": "chat.jsonl"} | _KNOWN, {"gpu": "a10"}),
    "cpu": _recipe(
        "instruct",
        "EleutherAI/pythia-70m",
        {"train": "chat.jsonl", "examples": 2_000},
        {"gpu": "cpu", "cpu_cores": 2},
    ),
}  # fmt: skip


# Method -> the recipe above whose last stage it is.
OF_METHOD = {
    "pretrain": "pretrain",
    "continue-pretrain": "text",
    "sft": "lora-single",
    "dpo": "dpo-full",
    "kto": "kto",
    "orpo": "orpo",
    "cpo": "cpo",
    "simpo": "simpo",
    "reward": "reward",
    "grpo": "grpo",
    "rloo": "rloo",
    "ppo": "ppo",
    "distill": "distill",
    "on-policy-distill": "on-policy-distill",
}


def others_of(own: Own) -> tuple[float | str, ...]:
    """What a recipe may set a method's own hyperparameter to in place of its value."""
    if own.values is None:
        more, less = (own.value + 8, own.value - 1) if own.whole else (round(own.value + s, 2) for s in (0.2, -0.2))
        return (more if own.allows(more) else less,)
    return tuple(v for v in own.values if v != own.value)


def with_key(recipe: Tables, key: str, value: Any) -> Tables:
    """A copy of the recipe with one dotted key set; None removes it."""
    changed = copy.deepcopy(recipe)
    *path, last = key.split(".")
    table = changed
    for name in path:
        table = table.setdefault(name, {})
    table[last] = value
    if value is None:
        del table[last]
    return changed


def without(recipe: Tables, *keys: str) -> Tables:
    """A copy of the recipe without the dotted keys, and without tables within sections that have no other key."""
    for key in keys:
        recipe = with_key(recipe, key, None)
        table, _, _ = key.rpartition(".")
        if "." in table and not any(value is not None for value in _table(recipe, table).values()):
            recipe = with_key(recipe, table, None)
    return recipe


def _table(recipe: Tables, key: str) -> Mapping[str, Any]:
    found: Any = recipe
    for name in key.split("."):
        found = (found or {}).get(name)
    return found or {}


def toml(recipe: Mapping[str, Any]) -> str:
    """The recipe as TOML, every section on a line of its own, so that a changed key moves no other."""
    lines = [f"{name} = {_value(recipe[name])}" if name in recipe else "" for name in Recipe.model_fields]
    assert recipe.keys() <= Recipe.model_fields.keys()
    return "\n".join(lines) + "\n"


def write_data(folder: Path, *columns: str) -> None:
    """The data files that BASES name; chats have these columns of SPLIT_BY."""
    folder.mkdir(parents=True, exist_ok=True)
    chats = [row | {name: SPLIT_BY[name][place] for name in columns} for place, row in enumerate(CHAT)]
    for name, rows in (DATA | {"chat.jsonl": chats}).items():
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "manual.txt").write_text("A pump moves water.\n" * 20)
    (folder / "judge.py").write_text(JUDGE)
    (folder / "shop.py").write_text(SHOP)


def write_adapter(folder: Path, base: str, **config: Any) -> None:
    """The files of a LoRA adapter as the compiler sees them: it reads no weights."""
    folder.mkdir(parents=True, exist_ok=True)
    written = {"peft_type": "LORA", "base_model_name_or_path": base, "r": 8, "lora_alpha": 16, "lora_dropout": 0.05}
    written |= {"target_modules": ["v_proj", "q_proj"], "bias": "none", "init_lora_weights": True}
    (folder / "adapter_config.json").write_text(json.dumps(written | config))
    (folder / "adapter_model.safetensors").touch()


def compiled(folder: Path, recipe: Tables, *, only_plan: bool = False, only_check: bool = False) -> Compilation:
    """Compile the recipe in `folder`, with the data files that BASES name; errors are in its diagnostics.

    `only_check` takes half the time of `only_plan`: the plan is without what else it would advise.
    """
    if not (folder / "chat.jsonl").exists():
        split = recipe.get("data", {}).get("split")
        write_data(folder, *(SPLIT_BY.keys() & split.values() if isinstance(split, dict) else ()))
    path = folder / "recipe.toml"
    path.write_text(toml(recipe), encoding="utf-8")
    return compile_recipe(path, only_plan=only_plan, only_check=only_check)


def texts(compilation: Compilation) -> dict[str, str]:
    """Path -> text of every emitted file."""
    return {file.path: file.text for file in compilation.files}


def good(folder: Path, recipe: Tables) -> Compilation:
    """Compile a recipe that must be without errors."""
    compilation = compiled(folder, recipe)
    assert compilation.files, [str(finding) for finding in compilation.diagnostics]
    return compilation


@cache
def shape(name: str) -> Compilation:
    """One of BASES as it is, compiled once for all tests of a process that only read its files or its plan."""
    with TemporaryDirectory() as folder:
        return good(Path(folder), BASES[name])


def codes(compilation: Compilation) -> list[str]:
    """The codes of the diagnostics in the order reported."""
    return [diagnostic.code for diagnostic in compilation.diagnostics]


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_string(key)} = {_value(part)}" for key, part in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return _string(value) if isinstance(value, str) else json.dumps(value)


def _string(text: str) -> str:
    """A basic TOML string; what JSON escapes TOML does too, but for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
