"""The table of substitutions: what this machine cannot do as planned, and what a run here therefore does not show.

One row each. A row that a bundle does not need returns None; a row that it needs says how it is applied: through the
launch (the model, the data, the number of processes), or by patches of the shim. What has no row is run as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

from msgspec import Struct

from recipec.axes import BASES
from recipec.axes.attention import ATTENTIONS, SDPA
from recipec.axes.strategies import DEEPSPEED, TORCH_FSDP
from recipec.catalog.architecture import Architecture
from recipec.estimate.sizes import trainable_params
from recipec.estimate.workload import adapter_shape
from recipec.verify.answers import DRAWN, answers, calls, generator, rewards
from recipec.verify.bundle import BundleStage
from recipec.verify.report import Substituted
from recipec.verify.situation import Applied, Situation
from recipec.verify.sizes import (
    batch_of,
    learning_values,
)
from recipec.verify.stand_in import AS_IT_IS, models_of, template_stands_in

PACKED_ROWS = 19  # fewer may not fill a sequence
SMALL_BATCH = 4  # below it, two batches' rows are learned: so few may all be of one kind
OWN_TEMPLATE = "model"  # the decision `template` of a stage that uses the chat template of its model
MAX_PACKED_TOKENS = 256


class Row(Struct, frozen=True):
    """One substitution."""

    what: str
    claim_lost: str
    needed: Callable[[Situation], Applied | None]


def _model(given: Situation) -> Applied | None:
    facts = given.bundle.last.decisions
    if given.model == AS_IT_IS:
        return None
    beside = [f"{model.role} {model.name}" for model in models_of(given.bundle)[1:]]
    said = "; ".join([f"{facts['model']} with {facts['params']:,} parameters", *beside])
    return Applied(said, given.model, {"planned-shape": True})


def _adapters(given: Situation) -> Applied | None:
    """The run is still refused where it trains other parameters, counted in the stand-in."""
    stages = [stage for stage in given.bundle.stages if not stage.adapts.trains_all]
    if given.shape is None or not stages:
        return None
    counts = {f"{stage.folder}train.py": adapter_params(stage, given.shape) for stage in stages}
    planned, used = (
        ", ".join(f"{count:,}" for count in each)
        for each in ([stage.decisions["trainable_params"] for stage in stages], counts.values())
    )
    return Applied(f"{planned} trained parameters", used, {"planned-parameters": counts})


def _start(given: Situation) -> Applied | None:
    """The adapter that training goes on from belongs to the real model."""
    path = given.bundle.stages[0].decisions.get("init_from")
    return Applied(f"the adapter in {path}", "a random one of its shape, on the stand-in") if path else None


def adapter_params(stage: BundleStage, shape: Architecture) -> int:
    """How many parameters a stage trains on a model of this shape."""
    return trainable_params(shape, adapter_shape(shape, stage.decisions), stage.method)


def _chat_template(given: Situation) -> Applied | None:
    """Only where a stage uses the model's own template: a recipe's is in the bundle."""
    policy, used = models_of(given.bundle)[0], {stage.decisions["template"] for stage in given.bundle.stages}
    if given.model == AS_IT_IS or OWN_TEMPLATE not in used or not template_stands_in(policy):
        return None
    return Applied(f"that of {policy.name}", "a template that writes each turn behind its role: its own is not here")


def _data(given: Situation) -> Applied:
    return Applied(f"{given.bundle.last.decisions['examples']:,} rows", given.data)


def _hub_data(given: Situation) -> Applied | None:
    if not given.hub_data:
        return None
    return Applied(", ".join(given.hub_data), "a local file with the same columns", {"hub-data": dict(given.hub_data)})


def _data_paths(given: Situation) -> Applied | None:
    return Applied(", ".join(given.outside), ", ".join(given.outside.values())) if given.outside else None


def _world_size(given: Situation) -> Applied | None:
    planned = max(given.chosen("world_size"))
    return Applied(f"{planned} processes", str(given.ranks)) if planned != given.ranks else None


def _expert_ranks(given: Situation) -> Applied | None:
    """Of DeepSpeed-MoE; no more ranks can share experts than there are."""
    dispatching = [stage.decisions for stage in given.bundle.stages if "capacity_factor" in stage.decisions]
    planned = max((decided["expert_parallel"] for decided in dispatching), default=1)
    if planned <= given.ranks:
        return None
    return Applied(f"{planned} ranks that share experts", str(given.ranks), {"expert-ranks": given.ranks})


def _steps(given: Situation) -> Applied:
    every = {"arguments": {"logging_steps": 1}}
    return Applied("the whole training", f"--max-steps {given.steps}, each of them logged", every)


def _hyperparameters(given: Situation) -> Applied | None:
    if not given.learns:
        return None
    values = {f"{stage.folder}train.py": learning_values(stage) for stage in given.bundle.stages}
    used = dict.fromkeys(", ".join(f"{name} {value}" for name, value in own.items()) for own in values.values())
    return Applied("the plan's", "; ".join(used), {"script-arguments": values})


def _rows(given: Situation) -> Applied | None:
    """Every stage learns the rows of one batch of its own; packed sequences hold several of them."""
    if not given.learns:
        return None
    own = {f"{stage.folder}train.py": _learned_rows(given, stage) for stage in given.bundle.stages}
    used = ", ".join(f"the first {most} in {script}" for script, most in own.items())
    return Applied("all rows", used, {"first-rows": own})


def _learned_rows(given: Situation, stage: BundleStage) -> int:
    batch = batch_of(given.bundle, stage, given.ranks)
    if stage.choice["packing"]:
        return max(PACKED_ROWS, batch)
    return batch if batch >= SMALL_BATCH else 2 * batch


def _device(given: Situation) -> Applied | None:
    gpu = given.bundle.last.decisions["gpu"]
    return None if given.on_cpu else Applied(gpu, "this CPU", {"arguments": {"use_cpu": True}})


def _number_formats(given: Situation) -> Applied | None:
    on_a_cpu = {"bf16": "bf16 of the CPU", "fp16": "fp16 without loss scaling", "tf32": "no TF32"}
    formats = {name: used for name, used in on_a_cpu.items() if any(given.given(name))}
    if given.on_cpu or not formats:
        return None
    return Applied(" and ".join(formats), ", ".join(formats.values()), {"number-formats": True})


_ENGINES = {  # of those that shard: the name, and its patch
    TORCH_FSDP: ("FSDP2", "fsdp-state"),
    DEEPSPEED: ("DeepSpeed", "plain-collectives"),  # its own all-reduce for CPUs takes minutes to compile
}


def _sharding(given: Situation) -> Applied | None:
    used = {stage.spreads.engine for stage in given.bundle.stages}
    engines = [_ENGINES[engine] for engine in _ENGINES if engine in used]
    if not engines:
        return None
    names = " and ".join(name for name, _ in engines)
    return Applied(f"{names} over NCCL", f"{names} over Gloo", {patch: True for _, patch in engines})


def _activation_offload(given: Situation) -> Applied | None:
    if not any(given.chosen("activation_offload")):
        return None
    return Applied("activations in pinned host memory", "plain memory", {"unpinned-activations": True})


def _memory_statistics(given: Situation) -> Applied | None:
    return None if given.on_cpu else Applied("peak memory read from the device", "0", {"memory-statistics": True})


def _disk(given: Situation) -> Applied | None:
    """The stand-in's checkpoints are small, the space is asked for the real ones."""
    if given.model == AS_IT_IS:
        return None
    return Applied("free space for the planned checkpoints", "whatever is free here", {"disk-space": True})


def _attention(given: Situation) -> Applied | None:
    kernels = [kernel for kernel in given.chosen("attention") if ATTENTIONS[kernel].gpu_only]
    if not kernels:
        return None
    if ATTENTIONS[kernels[0]].brought:
        return Applied(kernels[0], "its operator in plain PyTorch, each example by itself", {"varlen-kernel": True})
    return Applied(kernels[0], SDPA, {"attention": SDPA})


def _quantized(given: Situation) -> Applied | None:
    """The base of all stages is one; on a CPU bitsandbytes trains otherwise in 4 bits and in 8."""
    bases = [BASES[stage.adapts.base] for stage in given.bundle.stages if stage.adapts.quantized]
    if not bases:
        return None
    patches = {("rounded-products" if base.rounds_inputs else "four-bit-kernel"): True for base in bases}
    bits = " and ".join(dict.fromkeys(f"{base.bits}-bit" for base in bases))
    return Applied(f"{bits} products of the GPU", "bitsandbytes' plain ones", patches)


def _optimizer(given: Situation) -> Applied | None:
    """bitsandbytes computes its optimizers on a CPU too, in 8 bits as well; it pages nothing there, and says so."""
    paged = sorted({name for name in given.given("optim") if "paged" in name})
    return Applied(", ".join(paged), "the same in plain memory") if paged else None


def _compiler(given: Situation) -> Applied | None:
    if not any(given.given("torch_compile")):
        return None
    patches = {"arguments": {"torch_compile_backend": "aot_eager"}, "no-streams": True}
    return Applied("torch.compile with inductor", "aot_eager", patches)


def _fp8(given: Situation) -> Applied | None:
    """torchao multiplies in fp32 what it has rounded, or what rounds in its place where it is not installed."""
    if not any(stage.decisions.get("fp8") for stage in given.bundle.stages):
        return None
    used = "torchao's products of rounded numbers" if find_spec("torchao") else "linear layers that round to e4m3"
    return Applied("products in FP8", used, {"fp8": True})


def _loader(given: Situation) -> Applied | None:
    workers = max(given.given("dataloader_num_workers"), default=0)
    if not workers:
        return None
    inside = {"dataloader_num_workers": 0, "dataloader_prefetch_factor": None, "dataloader_persistent_workers": False}
    inside |= {"dataloader_pin_memory": False, "dataset_num_proc": None}
    return Applied(f"{workers} loader processes", "loading in the training process", {"arguments": inside})


def _accumulation(given: Situation) -> Applied | None:
    if not given.most_accumulated:
        return None
    limit = {"gradient_accumulation_steps": given.most_accumulated}
    planned = f"accumulation {max(given.chosen('gradient_accumulation'))}"
    return Applied(planned, str(given.most_accumulated), {"limits": limit, "deepspeed-limits": limit})


def _packed_length(given: Situation) -> Applied | None:
    longest = max(given.given("max_length"), default=0)
    if not any(given.chosen("packing")) or longest <= MAX_PACKED_TOKENS:
        return None
    return Applied(f"{longest} tokens", str(MAX_PACKED_TOKENS), {"limits": {"max_length": MAX_PACKED_TOKENS}})


def _tracker(given: Situation) -> Applied | None:
    missing = sorted({name for name in _names(given.given("report_to")) if name != "none" and not find_spec(name)})
    if not missing:
        return None
    return Applied(", ".join(missing), "none, it is not installed here", {"arguments": {"report_to": "none"}})


def _names(values: list[Any]) -> list[str]:
    return [name for value in values for name in ([value] if isinstance(value, str) else value)]


TABLE = (
    Row("model", "what the real weights do, how well they learn, and that they have the planned shape", _model),
    Row("chat template", "what the model's own template writes of a row, or leaves out of it", _chat_template),
    Row("adapters", "that the real model has as many", _adapters),
    Row("first adapter", "that the adapter is there and fits the model", _start),
    Row("data", "how long and how varied the real rows are", _data),
    Row("hub data", "that the data set exists and has these columns", _hub_data),
    Row("data paths", "that the files are found outside of the data root", _data_paths),
    Row("steps", "where the training ends up", _steps),
    Row("hyperparameters", "that the plan's own values learn", _hyperparameters),
    Row("rows", "that more than those of one batch are learned", _rows),
    Row("world size", "behavior at the planned size", _world_size),
    Row("experts", "that the planned number of ranks shares the experts", _expert_ranks),
    Row("device", "speed, GPU kernels, placement on the GPU", _device),
    Row("number formats", "the GPU's rounding; loss scaling of fp16", _number_formats),
    Row("sharding", "NCCL and overlap of communication", _sharding),
    Row("activation offload", "speed of the transfers, and that the GPU keeps no copy", _activation_offload),
    Row("memory", "that it fits: see the estimate in the plan", _memory_statistics),
    Row("disk", "that the planned checkpoints fit on the disk", _disk),
    Row("attention", "what the GPU's kernel computes, its limits and its speed", _attention),
    Row("quantized layers", "the GPU's kernels and their rounding", _quantized),
    Row("optimizer", "paging of the optimizer states", _optimizer),
    Row("compiler", "inductor's kernels", _compiler),
    Row("FP8", "the GPU's products, their speed and how they compile", _fp8),
    Row("data loading", "loader processes and pinned memory", _loader),
    Row("accumulation", "the planned global batch", _accumulation),
    Row("answers", "how long answers get, and how many are compared", answers),
    Row("generation", f"that vLLM runs beside the training, how fast, in what memory; {DRAWN}", generator),
    Row("tool calls", "that the model calls tools itself, and what real rows begin", calls),
    Row("rewards", "that the model earns the rewards of the recipe", rewards),
    Row("packed length", "memory and speed at the planned length", _packed_length),
    Row("tracker", "that the tracker receives the run", _tracker),
)


def substitutions(given: Situation) -> tuple[list[Substituted], dict[str, Any]]:
    """The rows that apply, and the patches that the shim must make for them."""
    applied = [(row, change) for row in TABLE if (change := row.needed(given)) is not None]
    listed = [Substituted(row.what, change.planned, change.used, row.claim_lost) for row, change in applied]
    return listed, merged(change.patches for _, change in applied)


def merged(patches: Any) -> dict[str, Any]:
    """One set of patches from several; values that are mappings are united, and those in them."""
    united: dict[str, Any] = {}
    for part in patches:
        united = _united(united, part)
    return united


def _united(one: Any, other: Any) -> Any:
    if not (isinstance(one, Mapping) and isinstance(other, Mapping)):
        return other
    return {**one, **{name: _united(one[name], value) if name in one else value for name, value in other.items()}}
