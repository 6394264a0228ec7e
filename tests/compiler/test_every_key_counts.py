"""No key of the language is idle: each one, set to another legal value, changes an emitted file or the plan."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from shutil import copyfile
from typing import Any

import pytest
from compiling import BASES, OF_METHOD, SPLIT_BY, Tables, good, others_of, texts, with_key, write_adapter, write_data
from tiers import quick_where

from recipec.axes import METHODS, Method
from recipec.recipe.schema_keys import keys_of
from recipec.recipe.schema_training import ADAPTED

# Keys that say what may be, not what is made; what they refuse is shown in tests/errors.
LIMITS = {
    "recipe.extends": "says where the other keys come from",
    "recipe.allow": "silences warnings",
    "budget.max_hours": "refuses a plan",
    "budget.max_gpu_hours": "refuses a plan",
    "budget.max_cost_usd": "refuses a plan",
    "policy.models": "refuses a model",
    "policy.licenses": "refuses a model",
    "policy.max_gpus": "refuses a plan",
    "policy.max_usd": "refuses a plan",
    "train.tensor_parallel": "changes the plan, which is not built: tests/planner/test_several_nodes.py",
    "train.context_parallel": "changes the plan, which is not built: tests/planner/test_several_nodes.py",
    "train.expert_parallel": "changes the plan of FSDP, which is not built: tests/planner/test_several_nodes.py; that "
    "of DeepSpeed-MoE: tests/execution/test_dispatched_experts.py",
}

TELLING = ("README.md",)  # reasons and places are there of what is decided anyway
WHERE = ("because", "origin", "where", "inputs", "accepts", "source", "watch", "dissent", "recipe", "allow")

FROM_TEXT = tuple(name for name, base in OF_METHOD.items() if base in ("text", "pretrain"))

BEFORE = ("prompt", "prefix")  # tables of what stands before every row

# The methods that run with bottleneck adapters.
BOTTLENECKED = tuple(row.name for row in METHODS.values() if "bottleneck" in row.adaptations)

# No loss of theirs keeps the load of experts balanced.
NO_EXPERTS = {row.name for row in METHODS.values() if row.has_value_head or (row.generates and row.has_teacher)}

# How one stage learns: key -> another value.
LEARNING: dict[str, Any] = {
    "learning_rate": 2.7e-4,
    "schedule": "linear",
    "warmup": 0.2,
    "weight_decay": 0.05,
    "max_grad_norm": 0.5,
    "epochs": 7,
    "max_steps": 321,
    "global_batch_size": 48,
    "micro_batch_size": 2,
    "eval_every": 0.25,
    "save_every": 0.6,  # a multiple of whatever share eval_every has
    "early_stopping_patience": 7,
    "logging_steps": 3,
    "attention": "eager",
    "packing": True,
    "sampling": "random",
    "curriculum.by": "length",
    "curriculum.column": "difficulty",
    "lora.rank": 4,
    "lora.alpha": 48,
    "lora.targets": ["q_proj", "v_proj"],
    "lora.dropout": 0.2,
    "lora.variant": "rslora",
    "arguments": {"full_determinism": True},  # every trainer takes it
}
SOURCES = tuple(
    f"data.{part}" for part in ("train", "domain_text", "preferences", "prompts", "eval", "test", "general")
)
SOURCE: dict[str, Any] = {
    "split": "validation",
    "subset": "en",
    "revision": "abc",
    "weight": 2,
    "take": 3,
    "examples": 700,
    "tokens_per_example": 90,
    "format": "instruction",
    "columns": {"messages": "dialog"},
}

# Key -> the base that it is set on, and the value; what follows "+" is in MORE.


def _base(method: Method) -> str:
    """A recipe that runs the method, with an adapter where it can have one."""
    return f"{OF_METHOD[method.name]}+lora" if method.name in ADAPTED else OF_METHOD[method.name]


CASES: dict[str, tuple[str, Any]] = {
    "recipe.name": ("lora-single", "another"),
    "recipe.description": ("lora-single", "What for."),
    "recipe.seed": ("lora-single", 7),
    "goal.task": ("text", "pretrain"),
    "goal.priority": ("lora-single", "memory"),
    "goal.new_domain": ("lora-single", True),
    "goal.first_time": ("full-fsdp", True),
    "model.name": ("lora-single", "Qwen/Qwen2.5-7B"),
    "model.like": ("lora-single+unknown model", "Qwen/Qwen2.5-7B"),
    "model.revision": ("lora-single", "abc"),
    "model.init_from": ("lora-single", "./start"),
    "model.new_tokens": ("lora-single", ["<|question|>"]),
    "model.trust_remote_code": ("lora-single", True),
    "model.family": ("auto", "smollm"),
    "model.licenses": ("auto", ["MIT"]),
    "model.max_params_billion": ("auto", 4),
    "data.train": ("lora-single", ["chat.jsonl", "chat-more.jsonl"]),
    "data.preferences": ("dpo-full", ["pairs.jsonl", "pairs-more.jsonl"]),
    "alignment.precompute_reference": ("dpo-full", False),
    "data.eval": ("lora-single", "chat-more.jsonl"),
    "data.eval_fraction": ("lora-single", 0.2),
    "data.test": ("lora-single", "chat-more.jsonl"),
    "data.test_fraction": ("lora-single", 0.2),
    "data.general": ("lora-single+elastic", "chat-more.jsonl"),
    "data.replay": ("lora-single+general", 0.15),
    "data.split.stratify": ("lora-single+share", "topic"),
    "data.split.group": ("lora-single+share", "user"),
    "data.split.time": ("lora-single+share", "date"),
    "data.format": ("lora-single+hub", "instruction"),
    "data.columns": ("lora-single+hub", {"messages": "turns"}),
    "data.template": ("lora-single", "chatml"),
    "data.max_length": ("lora-single", 512),
    "data.overflow": ("lora-single", "truncate"),
    "data.examples": ("lora-single", 50_000),
    "data.tokens_per_example": ("lora-single", 900),
    "hardware.gpu": ("lora-single", "h200"),
    "hardware.vram_gib": ("lora-single+no gpu", 24),
    "hardware.gpus_per_node": ("lora-single", 2),
    "hardware.nodes": ("full-fsdp", 2),
    "hardware.network_gbps": ("full-fsdp+nodes", 400),
    "hardware.gpu_link": ("full-fsdp", "pcie"),
    "hardware.host_memory_gib": ("cpu", 32),
    "hardware.cpu_cores": ("lora-single", 12),
    "hardware.measured": ("lora-ddp", "my-node.toml"),
    "launch.with": ("lora-single", "none"),
    "launch.env": ("lora-single", {"NCCL_DEBUG": "WARN"}),
    "data.ignore": ("lora-single+hub", ["id"]),
    "data.carry": ("lora-single", ["tools"]),
    "data.reasoning": ("lora-single", "keep"),
    "data.loss_on": ("lora-single", "last-answer"),
    "data.opening_answers": ("lora-single", "skip"),
    "data.incomplete": ("lora-single", "skip"),
    "data.system": ("lora-single", "You are brief."),
    "launch.setup": ("lora-single", ["source env.sh"]),
    "alignment.method": ("sft-dpo", "none"),
    "alignment.kl_control": ("sft-dpo+no method", "high"),
    "alignment.reward.function": ("grpo+rewards", "judge.py:is_short"),
    "alignment.reward.weight": ("grpo+rewards", 0.5),
    "alignment.reward.model": ("grpo+reward model", "Qwen/Qwen2.5-1.5B-Instruct"),
    "alignment.reward.like": ("grpo+unknown reward model", "Qwen/Qwen2.5-1.5B-Instruct"),
    "alignment.reward.revision": ("grpo+reward model", "abc"),
    **{f"alignment.{own.key}": (OF_METHOD[row.name], others_of(own)[0]) for row in METHODS.values() for own in row.own},
    **{f"alignment.{own.key}": ("tools", others_of(own)[0]) for row in METHODS.values() for own in row.acts},
    **{f"alignment.{own.key}": ("served", 1) for row in METHODS.values() for own in row.serves},
    **{f"alignment.{own.key}": ("copied", 2) for row in METHODS.values() for own in row.splits},
    "alignment.environment": ("tools+no functions", "shop.py:Market"),
    "alignment.tools": ("tools", ["shop.py:add", "shop.py:double"]),
    "alignment.teacher.name": ("distill+teacher", "Qwen/Qwen2.5-3B-Instruct"),
    "alignment.teacher.like": ("distill+unknown teacher", "Qwen/Qwen2.5-3B-Instruct"),
    "alignment.teacher.revision": ("distill+teacher", "abc"),
    "train.adaptation": ("dpo-full", "lora"),
    "train.quantization": ("lora-single", "nf4"),
    "train.precision": ("lora-single", "fp16"),
    "train.strategy": ("lora-ddp", "fsdp"),
    "train.offload": ("lora-ddp+sharded", "cpu"),
    "train.activation_checkpointing": ("lora-single", True),
    "train.recompute_every": ("lora-single", 2),
    "train.activation_offload": ("lora-single", True),
    "train.loop": ("lora-single", "accelerate"),
    "train.compile": ("lora-single", True),
    "train.fp8": ("lora-single+eight bits", True),
    "train.experts.capacity_factor": ("pretrain+dispatched", 1.75),
    "train.experts.eval_capacity_factor": ("pretrain+dispatched", 3.5),
    "train.experts.min_capacity": ("pretrain+dispatched", 9),
    "train.experts.balance_loss": ("pretrain+dispatched", 0.03),
    "train.optimizer": ("lora-single", "adamw-8bit"),
    "train.keep_checkpoints": ("lora-single", 5),
    "evaluate.samples": ("lora-single", 17),
    "evaluate.max_new_tokens": ("lora-single", 77),
    "track.to": ("lora-single", "wandb"),
    "track.project": ("lora-single+wandb", "assistants"),
    "track.run": ("lora-single", "second-try"),
    "registry.status": ("lora-single", "staging"),
    "registry.tags": ("lora-single", ["support"]),
    "budget.price_per_gpu_hour": ("lora-single", 2.5),
    "budget.prices": ("lora-single", "prices.toml"),
    **{f"train.{key}": ("lora-single", value) for key, value in LEARNING.items()},
    **{
        f"train.{method.name}.{key}": (_base(method), value)
        for method in METHODS.values()
        for key, value in LEARNING.items()
        if method.name in ADAPTED or not key.startswith("lora")
    },
    "train.curriculum.parts": ("lora-single+ordered", 4),
    **{f"train.{name}.curriculum.parts": (f"{OF_METHOD[name]}+ordered", 4) for name in METHODS},
    **{f"train.{name}.curriculum.column": (f"{OF_METHOD[name]}+graded", "difficulty") for name in FROM_TEXT},
    **{f"train.{place}ewc.strength": ("lora-single+elastic", 5) for place in ("", "sft.")},
    **{f"train.{place}ewc.rows": ("lora-single+elastic", 64) for place in ("", "sft.")},
    "train.continue-pretrain.ewc.strength": ("text+elastic text", 5),
    "train.continue-pretrain.ewc.rows": ("text+elastic text", 64),
    "train.lora.expert_rank": ("lora-single+experts", 3),
    **{f"train.{place}prompt.virtual_tokens": ("lora-single", 7) for place in ("", "sft.")},
    **{f"train.{place}prefix.virtual_tokens": ("lora-single", 7) for place in ("", "sft.")},
    "train.bottleneck.after": ("lora-single", "attention-and-mlp"),
    "train.bottleneck.reduction_factor": ("lora-single", 8),
    **{
        f"train.{name}.bottleneck.{key}": (f"{OF_METHOD[name]}+bottleneck", value)
        for name in BOTTLENECKED
        for key, value in (("after", "attention-and-mlp"), ("reduction_factor", 8))
    },
    **{f"train.{place}{name}.encoder_hidden_size": ("lora-single", 64) for place in ("", "sft.") for name in BEFORE},
    **{
        f"train.{name}.lora.expert_rank": (f"{OF_METHOD[name]}+experts", 3)
        for name in ADAPTED
        if name not in NO_EXPERTS
    },
    **{
        f"train.{method.name}.packing": (_base(method), False)
        for method in METHODS.values()
        if method.packs == "blocks"
    },
}
HELD = {"train": {"adaptation": "full", "ewc": {"strength": 2.0}}, "model.name": "Qwen/Qwen2.5-0.5B-Instruct"}
MORE: dict[str, Tables] = {
    "unknown model": {"model.name": "org/unknown", "model.like": "Qwen/Qwen3-8B"},
    "teacher": {"alignment.teacher": {"name": "Qwen/Qwen2.5-7B-Instruct"}},
    "reward model": {"alignment.reward": {"model": "Qwen/Qwen2.5-0.5B-Instruct"}},
    "unknown reward model": {"alignment.reward": {"model": "org/unknown", "like": "Qwen/Qwen2.5-0.5B-Instruct"}},
    "unknown teacher": {"alignment.teacher": {"name": "org/unknown", "like": "Qwen/Qwen2.5-7B-Instruct"}},
    "no functions": {"alignment.tools": None},
    "share": {"data.eval_fraction": 0.1},
    "hub": {"data.train": {"hub": "org/rows"}, "data.format": "chat"},
    "no method": {"alignment.method": None},
    "no gpu": {"hardware.gpu": None, "hardware.vram_gib": 80},
    "lora": {"train.adaptation": "lora"},
    "bottleneck": {"train.adaptation": "bottleneck"},
    "rewards": {"alignment.reward": {"function": "judge.py:is_right", "weight": 0.25}},
    "graded": {"data.train": "graded.jsonl"},
    "ordered": {"train.curriculum": {"by": "length"}},
    "experts": {
        "model.name": "Qwen/Qwen3-30B-A3B",
        "train.adaptation": "lora",
        "hardware": {"gpu": "h200", "gpus_per_node": 8},
    },
    "dispatched": {
        "model.name": "Qwen/Qwen3-30B-A3B-Base",
        "train": {"loop": "deepspeed", "expert_parallel": 8},
        "hardware": {"gpu": "h200", "gpus_per_node": 8, "host_memory_gib": 2000},
    },
    "general": {"data.general": "general.jsonl"},
    "elastic": {**HELD, "data.general": "general.jsonl"},
    "elastic text": {**HELD, "data.general": "graded.jsonl"},
    "eight bits": {"train.adaptation": "full", "model.name": "Qwen/Qwen2.5-0.5B-Instruct", "hardware.gpu": "h100"},
    "wandb": {"track.to": "wandb"},
    "nodes": {"hardware.nodes": 2},
    "sharded": {"train.strategy": "zero2", "hardware.host_memory_gib": 256},
}


# Shared by all stages, and never of use in these: on a mixture of experts a value head (BAD-073) and a student that
# writes its answers (BAD-054) are refused, and so is prompt tuning in a stage that does not run with it, an order of
# rows where the trainer draws its own (BAD-121), keeps that of the file (BAD-125) or draws prompts at random as it is,
# and packing where none is possible.
REFUSED = {f"train.{name}.lora.expert_rank" for name in NO_EXPERTS} | {
    f"train.{name}.{table}.{key}"
    for name in ADAPTED
    if "prompt-tuning" not in METHODS[name].adaptations
    for table in BEFORE
    for key in ("virtual_tokens", "encoder_hidden_size")
}
REFUSED |= {
    f"train.{name}.bottleneck.{key}"
    for name in ADAPTED
    if name not in BOTTLENECKED
    for key in ("after", "reduction_factor")
}
REFUSED |= {
    f"train.{name}.curriculum.{key}"
    for name, row in METHODS.items()
    if "train_sampling_strategy" in row.unread_arguments
    for key in ("by", "column", "parts")
}
REFUSED |= {f"train.{name}.sampling" for name, row in METHODS.items() if row.generates or row.sampling == "sequential"}
REFUSED |= {f"train.{name}.packing" for name, row in METHODS.items() if row.packs not in ("examples", "blocks")}
REFUSED |= {f"train.{name}.lora.dropout" for name, row in METHODS.items() if row.has_value_head}  # BAD-072
REFUSED |= {
    f"train.{name}.ewc.{key}" for name, row in METHODS.items() if not row.learns_tokens for key in ("strength", "rows")
}  # BAD-182
CASES = {key: case for key, case in CASES.items() if key not in REFUSED}


def test_every_key_is_listed() -> None:
    listed = {key for key in _keys(()) if not key.startswith(("adapters.", "fusion."))}
    assert listed - set(_source_keys()) == CASES.keys() - set(SOURCES) | LIMITS.keys() | REFUSED
    assert set(keys_of(("data", "train"))) == SOURCE.keys() | {"path", "hub"}


OF_A_TASK = {  # of a table of [[adapters]] -> another value
    "name": "returns",
    "train": "chat-more.jsonl",
    "eval": "chat-more.jsonl",
    "eval_fraction": 0.2,
    "test": "chat-more.jsonl",
    "test_fraction": 0.2,
    "examples": 1_200,
    "tokens_per_example": 300,
    "learning_rate": 2.7e-4,
    "epochs": 7,
    "rank": 4,
}


@pytest.mark.parametrize("key", keys_of(("adapters",)))
def test_a_key_of_a_task_changes_something(folder: Path, key: str) -> None:
    first, second = BASES["adapters"]["adapters"]
    changed = {**BASES["adapters"], "adapters": [first, second | {key: OF_A_TASK[key]}]}
    assert _made(folder, BASES["adapters"]) != _made(folder, changed)


OF_THE_MIX = {key: value for key, value in OF_A_TASK.items() if key not in ("name", "rank")} | {"identity_penalty": 0.1}


@pytest.mark.parametrize("key", keys_of(("fusion",)))
def test_a_key_of_the_mix_changes_something(folder: Path, key: str) -> None:
    changed = {**BASES["fusion"], "fusion": {key: OF_THE_MIX[key]}}
    assert _made(folder, BASES["fusion"]) != _made(folder, changed)


# Keys that every stage has: `train.KEY` runs with every commit, and so does one in five of `train.METHOD.KEY`.
OF_A_STAGE = [key for key in CASES if key.startswith("train.") and key.split(".")[1] in METHODS]
EACH = pytest.mark.parametrize("key", quick_where({*CASES} - {*OF_A_STAGE} | {*OF_A_STAGE[::5]}, CASES))


@EACH
def test_a_key_changes_something(folder: Path, key: str) -> None:
    base, value = CASES[key]
    assert _outputs(folder, base) != _made(folder, with_key(_base(base), key, value))


@EACH
def test_the_registry_entry_tells_apart_what_trains_otherwise(folder: Path, key: str) -> None:
    """What changes the digest of a plan, and with it the result, changes another field of registry/entry.json."""
    name, value = CASES[key]
    (digest, entry), (other_digest, other) = (
        _registered(folder, recipe) for recipe in (_base(name), with_key(_base(name), key, value))
    )
    assert digest == other_digest or entry != other or key == "model.trust_remote_code"  # code that the revision names


def _registered(folder: Path, recipe: Tables) -> tuple[str, Any]:
    """The digest of the plan, and all else that the entry says."""
    entry = json.loads(_built(folder, json.dumps(recipe))[0]["registry/entry.json"])
    return entry["training_metadata"].pop("plan_digest"), entry


# A base that has the part, its file and the format of its rows; and values that only its rows can have.
OF_PARTS = {
    "data.domain_text": ("text-sft", "graded.jsonl", "chat"),
    "data.preferences": ("dpo-full", "pairs.jsonl", "preference"),
    "data.prompts": ("grpo", "prompts.jsonl", "prompts"),
    "data.eval": ("lora-single", "chat-more.jsonl", "chat"),
    "data.test": ("lora-single", "chat-more.jsonl", "chat"),
    "data.general": ("lora-single+elastic", "chat-more.jsonl", "chat"),
}
OWN: dict[str, dict[str, Any]] = {
    "data.domain_text": {"columns": {"text": "body"}},
    "data.preferences": {"format": "unpaired-preference", "columns": {"chosen": "better"}},
    "data.prompts": {"columns": {"prompt": "question"}},
}
_HELD_OUT = ("data.eval", "data.test", "data.general")
_OF_LEARNED = ("weight", "format", "examples", "tokens_per_example")  # refused there, or that of the learned sources
_ONE_FORMAT = ("data.domain_text", "data.prompts")  # there is one way alone to write them


@pytest.mark.parametrize(
    ("part", "key"),
    [
        (part, key)
        for part in SOURCES
        for key in ("path", "hub", *SOURCE)
        if not (part in _HELD_OUT and key in _OF_LEARNED)
        if not (part in _ONE_FORMAT and key == "format")
    ],
)
def test_a_key_of_a_source_changes_something(folder: Path, part: str, key: str) -> None:
    name, file, format = OF_PARTS.get(part, ("lora-single", "chat.jsonl", "chat"))
    base = with_key(_base(name), "data.format", format)
    source = {"path": file} if key in ("path", "hub", "weight", "take") else {"hub": "org/other"}
    moved = {"hub": {"hub": "org/rows"}, "path": {"path": f"{file.removesuffix('.jsonl')[:-1]}*.jsonl"}}
    changed = moved[key] if key in moved else {**source, key: {**SOURCE, **OWN.get(part, {})}[key]}
    assert _made(folder, with_key(base, part, source)) != _made(folder, with_key(base, part, changed))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recipes")
    write_data(folder, *SPLIT_BY)
    for name in ("chat", "pairs", "answers", "instructions"):
        _graded(folder / f"{name}.jsonl")
    texts = [{"text": f"A pump moves water {n} times.", "difficulty": n} for n in range(8)]
    (folder / "graded.jsonl").write_text("".join(json.dumps(row) + "\n" for row in texts))
    for name in ("chat", "pairs"):
        copyfile(folder / f"{name}.jsonl", folder / f"{name}-more.jsonl")
    (folder / "prices.toml").write_text("[a100-80gb]\nusd_per_hour = 9\n")
    write_adapter(folder / "start", "Qwen/Qwen3-8B")
    copyfile(Path(__file__).parents[1] / "facts" / "h100-pair.toml", folder / "my-node.toml")
    return folder


def _graded(file: Path) -> None:
    """The same rows, each with how hard it is."""
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps(row | {"difficulty": n}) + "\n" for n, row in enumerate(rows)))


def _keys(table: tuple[str, ...]) -> Iterator[str]:
    for key in keys_of(table):
        path = (*table, key)
        yield from _keys(path) if keys_of(path) else (".".join(path),)


def _source_keys() -> Iterator[str]:
    return (f"{part}.{key}" for part in SOURCES for key in ("path", "hub", *SOURCE))


def _base(name: str) -> Tables:
    base, _, more = name.partition("+")
    recipe = BASES[base]
    for key, value in MORE.get(more, {}).items():
        recipe = with_key(recipe, key, value)
    return recipe


@cache
def _outputs(folder: Path, name: str) -> tuple[dict[str, str], Any]:
    return _made(folder, _base(name))


def _made(folder: Path, recipe: Tables) -> tuple[dict[str, str], Any]:
    """The files and what was planned, without what only tells where a value is set."""
    written, plan = _built(folder, json.dumps(recipe))
    files = {path: _without_digest(text) for path, text in written.items() if path not in TELLING}
    return files, _planned(json.loads(plan))


@cache
def _built(folder: Path, recipe: str) -> tuple[dict[str, str], bytes]:
    """The files and the plan of a recipe in JSON."""
    compilation = good(folder, json.loads(recipe))
    return texts(compilation), compilation.plan_json


def _without_digest(text: str) -> str:
    return re.sub(r"\b[0-9a-f]{16,64}\b", "", text)


def _planned(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _planned(part) for name, part in value.items() if name not in WHERE}
    if isinstance(value, list):
        return [_planned(part) for part in value]
    return value
