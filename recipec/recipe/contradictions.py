"""Keys that are right each by itself and cannot hold together. Every finding names both places."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from recipec.diagnostics.model import Diagnostic, Report
from recipec.recipe.check_arguments import decided_arguments, unusable_arguments
from recipec.recipe.check_batch import indivisible_batches
from recipec.recipe.check_data import (
    bad_columns,
    bad_sources,
    fractions_too_large,
    missing_data,
    nothing_to_run,
    pointless_split,
)
from recipec.recipe.check_launch import reserved_variables, secrets
from recipec.recipe.check_model import idle_model_keys
from recipec.recipe.check_policy import broken_policy, misplaced_policy, unknown_codes
from recipec.recipe.check_schedule import no_room_to_decay
from recipec.recipe.exclusive import ADAPTED, EXCLUSIVE
from recipec.recipe.locate import KeyPath, dotted
from recipec.recipe.written import Written

ANY: tuple[Any, ...] = ()
PAGED = ("paged-adamw", "paged-adamw-8bit")
NF4_ON_CPU = "on a CPU no gradient passes a 4-bit layer after an evaluation"
SHARDED = ("fsdp", "hsdp", "zero1", "zero2", "zero3")


@dataclass(frozen=True, slots=True)
class Clash:
    """Two keys, the values of each that cannot hold together (ANY: whatever it is), and why."""

    one: tuple[str, ...]
    one_values: tuple[Any, ...]
    other: tuple[str, ...]
    other_values: tuple[Any, ...]
    why: str
    help: str
    code: str = "E0401"


ADAPTATION, QUANTIZATION = ("train", "adaptation"), ("train", "quantization")
STRATEGY, OFFLOAD, PRECISION = ("train", "strategy"), ("train", "offload"), ("train", "precision")
RECOMPUTE, EVERY = ("train", "activation_checkpointing"), ("train", "recompute_every")
ACTIVATIONS = ("train", "activation_offload")
ATTENTION, OPTIMIZER = ("train", "attention"), ("train", "optimizer")
GPU, GPUS, TASK = ("hardware", "gpu"), ("hardware", "gpus_per_node"), ("goal", "task")
NODES = ("hardware", "nodes")
METHOD = ("alignment", "method")
WITHOUT_PAIRS = ("instruct", "continue-pretrain", "pretrain")
PAIRED_FORMATS = ("instruction", "chat", "prompt-completion", "preference")

CLASHES: tuple[Clash, ...] = (
    Clash(ADAPTATION, ("full",), QUANTIZATION, ("nf4",), "4-bit weights cannot be trained", "use lora"),
    *(
        Clash(
            ADAPTATION, ("full",), (*table, "lora"), ANY, "full fine-tuning has no adapters", "remove lora, or use lora"
        )
        for table in (("train",), *(("train", stage) for stage in ADAPTED))
    ),
    *(
        Clash(key, values, TASK, ("pretrain",), "random weights must all be trained", "remove it")
        for key, values in ((ADAPTATION, ("lora", "qlora")), (QUANTIZATION, ("nf4",)), (("train", "lora"), ANY))
    ),
    Clash(ADAPTATION, ("qlora",), QUANTIZATION, ("none",), "qlora is lora on an nf4 base", "use lora"),
    Clash(STRATEGY, SHARDED, GPU, ("cpu",), "sharding is between GPUs", 'use strategy = "single" or "ddp" on a CPU'),
    Clash(OFFLOAD, ("cpu",), STRATEGY, ("single", "ddp"), "only sharded strategies offload", "use zero2 or zero3"),
    Clash(ADAPTATION, ("qlora",), GPU, ("cpu",), NF4_ON_CPU, 'use adaptation = "lora" on a CPU'),
    Clash(QUANTIZATION, ("nf4",), GPU, ("cpu",), NF4_ON_CPU, "remove it: LoRA then trains on the base as it is"),
    Clash(OPTIMIZER, PAGED, GPU, ("cpu",), "a CPU has nowhere to page to", 'use optimizer = "adamw" on a CPU'),
    Clash(OFFLOAD, ("cpu",), GPU, ("cpu",), "there is no GPU to offload from", "remove offload"),
    Clash(ACTIVATIONS, (True,), GPU, ("cpu",), "there is no GPU to offload from", "remove activation_offload"),
    Clash(EVERY, ANY, RECOMPUTE, (False,), "it says which layers are recomputed", "remove one of them"),
    Clash(ACTIVATIONS, (True,), RECOMPUTE, (False,), "it is recomputed layers whose inputs wait", "remove one of them"),
    Clash(PRECISION, ("fp16",), GPU, ("cpu",), "a CPU trains in fp32 or bf16", 'use precision = "fp32"'),
    Clash(
        ATTENTION,
        ("flash_attention_2",),
        GPU,
        ("cpu",),
        "flash-attn needs a GPU",
        'use attention = "sdpa"',
        code="E0405",
    ),
    Clash(
        ATTENTION,
        ("flash_attention_2",),
        PRECISION,
        ("fp32",),
        "flash-attn computes in fp16 and bf16 only",
        'use attention = "sdpa"',
        code="E0405",
    ),
    Clash(
        ("data", "preferences"),
        ANY,
        TASK,
        WITHOUT_PAIRS,
        "this task learns no preferences",
        'use task = "align", or remove preferences',
    ),
    Clash(
        ("alignment",),
        ANY,
        TASK,
        WITHOUT_PAIRS,
        "this task has no preference stage",
        'use task = "align", or remove [alignment]',
    ),
    *(
        Clash(("train", stage), ANY, TASK, tasks, "this task has no such stage", "remove it")
        for stage, tasks in (
            ("dpo", WITHOUT_PAIRS),
            ("sft", ("continue-pretrain", "pretrain")),
            ("continue-pretrain", ("instruct", "align", "pretrain")),
            ("pretrain", ("instruct", "align", "continue-pretrain")),
        )
    ),
    Clash(("alignment", "beta"), ANY, METHOD, ("none",), "beta belongs to a preference method", 'use method = "dpo"'),
    Clash(("alignment", "loss"), ANY, METHOD, ("none",), "a loss belongs to a preference method", 'use method = "dpo"'),
    Clash(
        ("data", "overflow"),
        ("split",),
        ("data", "format"),
        PAIRED_FORMATS,
        "only raw text can be split into several examples",
        'use overflow = "drop" or "truncate"',
    ),
)


def contradictions(written: Written, report: Report) -> None:
    """Report every contradiction that the recipe's own keys show (E0201, E0204, E04xx)."""
    for check in CHECKS:
        for diagnostic in check(written):
            report.add(diagnostic)


def _clashes(written: Written) -> Iterator[Diagnostic]:
    for clash in CLASHES:
        if _holds(written, clash.one, clash.one_values) and _holds(written, clash.other, clash.other_values):
            labels = (written.label(clash.one, clash.why), written.label(clash.other, "contradicts this"))
            title = f"{_named(written, clash.one)} and {_named(written, clash.other)} contradict each other"
            yield Diagnostic(clash.code, title, labels, (clash.help,))


def _holds(written: Written, path: KeyPath, values: tuple[Any, ...]) -> bool:
    return written.get(*path) in values if values else written.has(*path)


def _named(written: Written, path: KeyPath) -> str:
    value = written.get(*path)
    return f"`{dotted(path)} = {value}`" if isinstance(value, str) else f"`{dotted(path)}`"


def _both_of_exclusive(written: Written) -> Iterator[Diagnostic]:
    for group in EXCLUSIVE:
        first, *more = [path for path in group if written.has(*path)] or [None]
        for other in more:
            title = f"`{dotted(first)}` and `{dotted(other)}` exclude each other"
            labels = (written.label(other, "either this"), written.label(first, "or this"))
            yield Diagnostic("E0401", title, labels, ("keep one of them",))


def _no_hardware(written: Written) -> Iterator[Diagnostic]:
    if not written.has("hardware", "gpu") and not written.has("hardware", "vram_gib"):
        label = written.label(("hardware",), "needs `gpu` or `vram_gib`")
        yield Diagnostic("E0201", "missing key `gpu` in [hardware]", (label,), ('for example gpu = "rtx-4090"',))


def _gpus_for_strategy(written: Written) -> Iterator[Diagnostic]:
    """One GPU takes one process; several take a strategy that uses them."""
    strategy, gpus, nodes = (written.get(*path) for path in (STRATEGY, GPUS, NODES))
    if strategy == "single" and gpus and gpus > 1:
        why, help = f"{gpus} GPUs are stated here", 'use strategy = "ddp", or gpus_per_node = 1'
    elif nodes is not None and nodes > 1:
        return
    elif strategy in ("ddp", *SHARDED) and gpus in (None, 1) and not (gpus is None and written.has(*GPUS)):
        why, help = "one GPU is stated here", 'use strategy = "single", or state gpus_per_node'
    else:
        return
    place = GPUS if gpus else (GPU if written.has(*GPU) else ("hardware", "vram_gib"))
    labels = (written.label(STRATEGY, _processes(strategy)), written.label(place, why))
    yield Diagnostic("E0401", f"`train.strategy = {strategy}` does not suit the number of GPUs", labels, (help,))


def _processes(strategy: str) -> str:
    return "runs on one GPU" if strategy == "single" else "needs two GPUs or more"


Check = Callable[[Written], Iterator[Diagnostic]]
CHECKS: tuple[Check, ...] = (
    _no_hardware,
    missing_data,
    nothing_to_run,
    _both_of_exclusive,
    _clashes,
    idle_model_keys,
    _gpus_for_strategy,
    bad_sources,
    pointless_split,
    fractions_too_large,
    bad_columns,
    indivisible_batches,
    no_room_to_decay,
    decided_arguments,
    unusable_arguments,
    secrets,
    reserved_variables,
    unknown_codes,
    misplaced_policy,
    broken_policy,
)
