"""Flip every decision that a recipe can fix: each line that changes must lead back to it.

In two steps: a changed line names a decision that changed, and a changed decision was made from one that changed, back
to the flipped key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, compiled, good, others_of, texts, with_key
from tiers import one_in

from recipec.axes import METHODS
from recipec.compiler import Compilation
from recipec.render.artifact import Rendered
from recipec.rules import RULES
from recipec.rules.core import Decision

OWN = [own for method in METHODS.values() for own in method.keys]
OWN_KEYS = sorted({own.key for own in OWN})  # every process of a test run has them in the same order
# Recipe key -> values to flip it to; the first that a base does not have yet and may have is taken.
FLIPS: dict[str, tuple[Any, ...]] = {
    **{f"alignment.{key}": tuple(v for own in OWN if own.key == key for v in others_of(own)) for key in OWN_KEYS},
    "alignment.method": ("none",),
    "alignment.precompute_reference": (False, True),
    "data.eval_fraction": (0.2,),
    "data.examples": (700, 30_000),
    "data.max_length": (512,),
    "data.overflow": ("truncate",),
    "data.template": ("chatml", "plain", "model"),
    "data.test_fraction": (0.2,),
    "data.tokens_per_example": (900, 100),
    "alignment.generation.server_gpus": (1,),
    "alignment.generation.engine_tensor_parallel": (2,),
    "fusion.identity_penalty": (0.1, 0),
    "goal.first_time": (True,),
    "goal.new_domain": (True,),
    "goal.priority": ("memory", "speed"),
    "goal.task": ("align", "instruct", "continue-pretrain", "pretrain"),
    "hardware.cpu_cores": (12,),
    "hardware.host_memory_gib": (777,),
    "hardware.gpu": ("h200", "rtx-4090"),
    "hardware.gpus_per_node": (2, 4),
    "hardware.nodes": (2, 4),
    "model.licenses": (["Qwen licence"],),
    "model.name": ("Qwen/Qwen2.5-1.5B-Instruct", "Qwen/Qwen3-8B"),
    "alignment.teacher": ("Qwen/Qwen2.5-3B-Instruct",),
    "budget.price_per_gpu_hour": (2.5,),
    "recipe.seed": (7,),
    "track.run": ("second",),
    "track.to": ("wandb",),
    "train.activation_checkpointing": (True, False),
    "train.activation_offload": (True, False),
    "train.recompute_every": (2, 3),
    "train.sampling": ("random",),
    "train.adaptation": ("full", "lora"),
    "train.attention": ("eager",),
    "train.compile": (True,),
    "train.epochs": (2, 5),
    "train.eval_every": (0.25,),
    "train.global_batch_size": (64, 128),
    "train.keep_checkpoints": (5,),
    "train.learning_rate": (3e-4,),
    "train.lora.alpha": (48,),
    "train.lora.dropout": (0.2,),
    "train.lora.rank": (4,),
    "train.lora.targets": (["q_proj", "v_proj"],),
    "train.lora.variant": ("rslora",),
    "train.max_grad_norm": (0.5,),
    "train.max_steps": (321,),
    "train.micro_batch_size": (2, 4),
    "train.offload": ("cpu", "none"),
    "train.optimizer": ("adamw-8bit", "lion"),
    "train.packing": (True, False),
    "train.precision": ("fp16", "fp32", "bf16"),
    "train.bottleneck.after": ("attention-and-mlp",),
    "train.bottleneck.reduction_factor": (8,),
    "train.prompt.encoder_hidden_size": (64,),
    "train.prompt.virtual_tokens": (7,),
    "train.prefix.encoder_hidden_size": (64,),
    "train.prefix.virtual_tokens": (7,),
    "train.curriculum.by": ("length",),
    "train.quantization": ("nf4", "none"),
    "train.save_every": (0.4,),
    "train.early_stopping_patience": (9,),
    "train.logging_steps": (7,),
    "train.schedule": ("warmup-stable-decay", "linear"),
    "train.strategy": ("zero2", "fsdp", "ddp", "zero3"),
    "train.warmup": (0.2,),
    "train.weight_decay": (0.05,),
}  # fmt: skip

# Plans with another value are not built: tests/planner/test_several_nodes.py
NOT_BUILT = {"train.tensor_parallel", "train.context_parallel", "train.expert_parallel"}
OF_MIXTURES = {"train.lora.expert_rank"}  # no base is one: tests/compiler/test_every_key_counts.py
OTHER_SCRIPT = {"train.loop"}  # another train.py altogether: tests/execution/test_own_loops.py
OTHER_SCRIPT |= {"alignment.kl_control"}  # other stages: tests/compiler/test_every_key_counts.py
OF_ROWS = {"data.format"}  # the bases' rows are of their formats: tests/dataset/test_formats.py
OF_ROWS |= {
    "data.opening_answers",  # no base has such rows: tests/execution/test_talks.py
    "data.incomplete",  # the same: tests/execution/test_incomplete_rows.py
    "train.curriculum.column",
    "train.curriculum.parts",
}  # no base orders rows: tests/execution/test_curriculum.py
OF_GENERAL_ROWS = {"train.ewc.strength", "train.ewc.rows"}  # no base has any: tests/execution/test_elastic_weights.py
OF_GENERAL_ROWS |= {"data.replay"}  # tests/execution/test_replay.py
OF_EIGHT_BITS = {"train.fp8"}  # of full fine-tuning on few GPUs alone: tests/compiler/test_every_key_counts.py
OF_CAPACITIES = {  # no base pretrains a mixture with DeepSpeed: tests/compiler/test_every_key_counts.py
    f"train.experts.{name}" for name in ("capacity_factor", "eval_capacity_factor", "min_capacity", "balance_loss")
}
OF_TRACKERS = {"track.project"}  # no base has a tracker with projects: tests/backends/test_arguments.py

# Lines that no single decision is behind, and why.
EXCEPTIONS = {
    "PLAN = ": "the digest of the whole plan: everything is behind it",
    '"plan_digest": ': "the same digest, in the registry entry",
}
# Chosen by the planner at once, so that each may change because another did.
JOINT = (
    *("adaptation", "quantization", "strategy", "offload", "world_size"),
    *("checkpointing", "activation_offload", "micro_batch_size", "gradient_accumulation", "precomputed_reference"),
    "engine_tensor_parallel",
)
# Decisions that some stages do not have, and what decides that.
CONDITIONAL = {
    **dict.fromkeys(
        ("lora_rank", "lora_alpha", "lora_dropout", "lora_targets", "lora_experts", "lora_variant"), "adaptation"
    ),
    "lora_expert_rank": "lora_experts",
    "server_gpus": "generator",
    "engine_tensor_parallel": "generator",
    "router_loss": "model",
    **dict.fromkeys(("virtual_tokens", "encoder_hidden_size", "prefix_tokens", "prefix_encoder_size"), "adaptation"),
    **dict.fromkeys(("reduction_factor", "adapters_after"), "adaptation"),
    "curriculum_parts": "curriculum_by",
    "decay_share": "schedule",
    **dict.fromkeys(("beta", "dpo_loss", "reference", "starts_from_adapter", "precomputed_reference"), "stage"),
}

HELD_BY_KL = dict.fromkeys(("reference", "starts_from_adapter"), ("kl_beta",))  # where a method may do without one

Found = dict[str, Decision]  # "sft.learning_rate" -> the decision


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recipes")


def test_every_overridable_key_is_flipped(folder: Path) -> None:
    settled = [decision for name in BASES for decision in _found(_base(folder, name)).values()]
    known = (
        FLIPS.keys() | NOT_BUILT | OF_MIXTURES | OF_ROWS | OF_GENERAL_ROWS | OF_EIGHT_BITS | OF_TRACKERS | OTHER_SCRIPT
    ) | OF_CAPACITIES
    assert {_general(thing.key) for thing in (*RULES.values(), *settled)} - {""} == known


def _general(key: str) -> str:
    """The key that holds for every stage: of several stages each decision has its own, `train.dpo.epochs`."""
    return ".".join(part for part in key.split(".") if part not in METHODS)


@pytest.mark.parametrize("key", one_in(2, FLIPS))
def test_changed_lines_name_decisions_that_changed_and_these_lead_back_to_the_key(folder: Path, key: str) -> None:
    """On a few of the bases where the key may be flipped, others for every key."""
    first = list(FLIPS).index(key) % len(BASES)
    bases = [*BASES][first:] + [*BASES][:first]
    _assert_provenance(key, islice(_flips(folder, key, bases), 2))


@pytest.mark.matrix
@pytest.mark.parametrize("key", FLIPS)
def test_the_changed_lines_of_every_base_lead_back_to_the_key(folder: Path, key: str) -> None:
    _assert_provenance(key, _flips(folder, key, BASES))


def _assert_provenance(key: str, flips: Iterator[tuple[str, Compilation, Compilation]]) -> None:
    """Both steps at once: compiling the bases with the key takes most of the time."""
    unnamed, astray, tried = [], [], []
    for name, old, new in flips:
        tried.append(name)
        changed = _changed(_found(old), _found(new))
        unnamed += [f"{name} {where}: {ids}" for where, ids in _changed_lines(old, new) if changed.isdisjoint(ids)]
        lost = changed - _reached(changed, [_found(old), _found(new)], key)
        astray += [f"{name}: {id}" for id in sorted(lost)]
    assert tried, f"{key} changes nothing anywhere"
    assert not unnamed, "\n".join(unnamed)
    assert not astray, "\n".join(astray)


@pytest.mark.parametrize("name", ["lora-single", "full-fsdp", "sft-kto"])
def test_each_line_that_new_tokens_bring_leads_to_them(folder: Path, name: str) -> None:
    """No other plan has the decision: lines that are not there then have nothing to name."""
    old, new = _base(folder, name), compiled(folder, with_key(BASES[name], "model.new_tokens", ["<|a|>"]))
    changed, before = _changed(_found(old), _found(new)), texts(old)
    added = [
        (line, ids)
        for line, ids in _changed_lines(old, new)
        if not any(line == f"{path} {text!r}" for path in before for text in before[path].splitlines())
    ]
    assert len(added) > 50
    assert not [line for line, ids in added if changed.isdisjoint(ids)]


@cache
def _base(folder: Path, name: str) -> Compilation:
    return good(folder, BASES[name])


def _flips(folder: Path, key: str, bases: Iterable[str]) -> Iterator[tuple[str, Compilation, Compilation]]:
    """Every base in which a value of the key is legal and changes something, as it was and as it is then."""
    tried = ((name, _base(folder, name), _flipped(folder, name, key)) for name in bases)
    return ((name, old, new) for name, old, new in tried if new is not None)


def _flipped(folder: Path, name: str, key: str) -> Compilation | None:
    for value in FLIPS[key]:
        found = compiled(folder, with_key(BASES[name], key, value))
        if found.files and texts(found) != texts(_base(folder, name)):
            return found
    return None


def _found(compilation: Compilation) -> Found:
    assert compilation.plan
    stages = compilation.plan.stages
    return {f"{part.stage.label}.{id}": decision for part in stages for id, decision in part.decisions.items()}


def _changed(old: Found, new: Found) -> set[str]:
    """The decisions with another value, reason or range, or that only one side has."""
    return {id for id in old.keys() | new.keys() if _told(old.get(id)) != _told(new.get(id))}


def _told(decision: Decision | None) -> tuple[Any, ...] | None:
    return decision and (decision.value, decision.because, decision.accepts)


def _reached(changed: set[str], sides: list[Found], key: str) -> set[str]:
    """The changed decisions to which a chain of changed decisions leads from those that `key` overrides."""
    decisions = [(id, side[id]) for side in sides for id in changed & side.keys()]
    stages = [{id.split(".")[0] for id in side} for side in sides]
    parents: dict[str, set[str]] = {}
    for id, decision in decisions:
        parents.setdefault(id, set()).update(_parents(id, decision, stages))
    table = f"the table `{key.split('.')[-2]}` in "  # that the recipe has [train.lora] is the reason of the adaptation
    reached = {id for id, decision in decisions if _general(decision.key) == key or table in decision.because}
    if not any(_general(decision.key) == key for side in sides for decision in side.values()):
        reached = {id for id in changed if id.endswith(".alternatives")}  # only they decide it, such as a LoRA rank
    while more := {id for id in changed - reached if parents[id] & reached}:
        reached |= more
    return reached


def _parents(id: str, decision: Decision, stages: list[set[str]]) -> set[str]:
    stage, _, name = id.partition(".")
    inputs = {*decision.inputs, CONDITIONAL.get(name, name), *HELD_BY_KL.get(name, ()), *JOINT * (name in JOINT)}
    alone = () if all(stage in side for side in stages) else ("stage",)  # the whole stage came or went
    return {f"{stage}.{parent}" for parent in (*inputs, *alone)}


def _changed_lines(old: Compilation, new: Compilation) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every line that only one side has, with the decisions that its own compilation names for it."""
    before, after = ({file.path: file for file in side.files} for side in (old, new))
    for path in sorted(before.keys() | after.keys()):
        for text, ids in _difference(before.get(path), after.get(path)):
            # a blank line or a closing bracket belongs to either neighbour: diffs differ
            if any(map(str.isalnum, text)) and not text.lstrip().startswith(tuple(EXCEPTIONS)):
                yield f"{path} {text!r}", ids


def _difference(*files: Rendered | None) -> Iterator[tuple[str, tuple[str, ...]]]:
    sides = [file.text.splitlines() if file else [] for file in files]
    for tag, *bounds in SequenceMatcher(None, *sides, autojunk=False).get_opcodes():
        for file, lines, start, end in zip(files, sides, bounds[::2], bounds[1::2], strict=True):
            if tag != "equal" and file:
                yield from ((lines[at], file.lines.get(at + 1, ())) for at in range(start, end))
