"""Write the chosen layout into the ledger: each of its parts is a decision with its reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from recipec.axes import NAMED_MODELS
from recipec.estimate.engine import copied_bytes, engine_bytes, engine_share, server_share
from recipec.estimate.generation import answers_at_once
from recipec.estimate.step import step_of
from recipec.estimate.whole_run import RunPart
from recipec.facts import Facts
from recipec.layout import Layout, Mesh
from recipec.planner.advice.comparison import Compared
from recipec.planner.plan import Needs, Rejected
from recipec.planner.search.candidates import Candidate
from recipec.planner.search.sequences import settled_method
from recipec.planner.search.workload import work_of
from recipec.rules import strategy as rules
from recipec.rules.core import Choice, Decision, Ledger, Rule, watch_of
from recipec.rules.evaluation import eval_batch_size
from recipec.rules.preference import precomputed_reference, splitting_rules
from recipec.rules.words import device
from recipec.units import GIB, counted

WATCH = {
    "recompute_every": "tokens_per_second, peak_memory_gib: near the plan; fewer recomputed layers need more memory",
    "activation_offload": "tokens_per_second: near the plan; every copy to and from host memory lengthens the step",
    "shards": "tokens_per_second: near the plan; larger sharding groups save memory and need more communication",
    "tensor_parallel": "tokens_per_second: near the plan; between several ranks every layer waits for all-reduces",
    "context_parallel": "tokens_per_second: near the plan; between several ranks attention waits for keys and values",
    "expert_parallel": "tokens_per_second: near the plan; between several ranks tokens travel to their experts",
    "generator_share": "tokens_per_second: near the plan; vLLM's first lines tell how many answers its cache holds",
}

SIZES = ("params", *(f"{role}_params" for role in NAMED_MODELS))  # of all models that are in memory
MEMORY_INPUTS = (
    *(*SIZES, "vram_gib", "adaptation", "quantization", "precision", "optimizer", "attention", "packing"),
    *("checkpointing", "recompute_every", "activation_offload", "offload", "world_size"),
    *("compile", "lora_rank", "lora_targets", "lora_expert_rank", "lora_dropout", "ia3_scales", "max_new_tokens"),
    *("virtual_tokens", "encoder_hidden_size", "prefix_tokens", "prefix_encoder_size", "updates"),
    *("reduction_factor", "adapters_after"),
    *("schema_tokens", "result_tokens", "tool_rounds", "engine_tensor_parallel"),
    *("max_length", "stages", "init_from", "lora_variant", "mixed_adapters", "environment", "ewc_strength", "fp8"),
)
TIME_INPUTS = (
    *("gpus", "gpu", "measured", "tokens_per_example", "global_batch_size"),
    *("network_gbps", "host_memory_gib", "host_cores"),
)
# What a reason depends on that sets another layout beside the chosen one: memory and time of both, and which of two
# times count as equal.
COMPARED_INPUTS = (*TIME_INPUTS, *MEMORY_INPUTS, "priority")
# Beside those, of the layout and of a step: what the predicted time of all steps depends on, and that of a checkpoint.
_TIMED_INPUTS = (
    *("stage", "strategy", "micro_batch_size", "gradient_accumulation", "eval_batch_size", "weight_decay", "loop"),
    *(
        "capacity_factor",
        "expert_parallel",
        "precomputed_reference",
        "per_prompt",
        "answer_passes",
        "rewards",
        "passes",
        "server_gpus",
    ),
)
KEYS = {  # recipe keys that fix a part of the layout which no rule decides
    "recompute_every": "train.recompute_every",
    "activation_offload": "train.activation_offload",
    "tensor_parallel": "train.tensor_parallel",
    "context_parallel": "train.context_parallel",
    "expert_parallel": "train.expert_parallel",
}

_RECOMPUTING = (KEYS["recompute_every"], KEYS["activation_offload"])

Row = tuple[str, Any, str, tuple[str, ...]]  # decision, value, reason, inputs
Ruled = tuple[Rule, Choice, tuple[str, ...]]  # a rule, its answer, the decisions behind it


def record_layout(ledger: Ledger, chosen: Candidate, facts: Facts, against: Compared, evaluated: int) -> None:
    """Record a copy's GPUs, strategy, offload, world size, recomputation, batch split, shared layers, in this order.

    `evaluated` are the rows that a rank evaluates at once.
    """
    memory = "memory" if facts.decisions["gpu_is_cpu"].value else "GPU memory"
    peak = f"{chosen.memory.peak_device_bytes / GIB:.1f} of {facts.gpu.memory_gib:.1f} GiB {memory}"
    target = ledger.decisions["global_batch_size"].value
    run_batch(ledger, chosen.layout)
    for ruled in _split(ledger, chosen.layout, facts):
        ledger.record(_ruled(ledger, peak, *ruled))
    placement = _placement(ledger, chosen, facts, peak, target, against)
    for ruled in [*placement, *_recomputation(ledger, chosen.layout, against)]:
        ledger.record(_ruled(ledger, peak, *ruled))
    for row in _recomputed(chosen.layout, peak):
        ledger.record(_decision(ledger, peak, *row))
    for ruled in _batch(ledger, chosen.layout, peak, against):
        ledger.record(_ruled(ledger, peak, *ruled))
    answer = eval_batch_size(evaluated, chosen.layout.micro_batch)
    ledger.record(_ruled(ledger, peak, eval_batch_size, answer, ("micro_batch_size", "strategy", *COMPARED_INPUTS)))
    for row in (*_mesh(chosen.layout.mesh), *_generator(ledger, chosen, facts)):
        ledger.record(_decision(ledger, peak, *row))
    if settled_method(ledger.decisions).precomputes:
        basis = (ledger.decisions[name] for name in precomputed_reference.inputs)
        ledger.decide(precomputed_reference, *basis)
    _compared_batch(ledger, target)


def _compared_batch(ledger: Ledger, decided: int) -> None:
    """A global batch that GPUs have a say in was compared with others by memory and time."""
    batch = ledger.decisions["global_batch_size"]
    if batch.origin == "planner" or batch.value != decided:
        inputs = dict.fromkeys((*batch.inputs, *_known(ledger, COMPARED_INPUTS)))
        ledger.decisions[batch.id] = replace(batch, inputs=tuple(id for id in inputs if id != batch.id))


def run_batch(ledger: Ledger, layout: Layout) -> None:
    """The global batch that the layout makes, where that is not the one that was decided."""
    decided, made, micro = ledger.decisions["global_batch_size"], layout.global_batch, layout.micro_batch
    if made == decided.value:
        return
    can_make = f"{counted(layout.mesh.data_parallel, 'rank')} can make{f' in micro batches of {micro}' * (micro > 1)}"
    nearer = made + micro * layout.mesh.data_parallel - decided.value < decided.value - made
    because = f"the {'largest below' if nearer else 'nearest to'} {decided.value} that {can_make}"
    if decided.accepts and made > decided.accepts[1]:
        because += f", which counts as the {decided.accepts[1]:g} that its rule accepts"
    ledger.decisions[decided.id] = replace(decided, value=made, because=f"{because}; {decided.because}")


def _placement(
    ledger: Ledger, chosen: Candidate, facts: Facts, peak: str, target: int, against: Compared
) -> Iterator[Ruled]:
    layout, world = chosen.layout, chosen.layout.mesh.world_size
    least = settled_method(ledger.decisions).least_micro_batch
    least = layout.micro_batch if rules.micro_batch_size.key in ledger.wishes else least
    hosted_gib = chosen.memory.host_bytes * min(world, facts.machines.gpus_per_node) / GIB
    noun = device(facts.decisions["gpu_is_cpu"].value)
    yield rules.strategy, rules.strategy(layout.strategy, peak, against.strategy), COMPARED_INPUTS
    answer = rules.offload(layout.offload, peak, hosted_gib, against.offload)
    yield rules.offload, answer, ("strategy", *COMPARED_INPUTS)
    example = settled_method(ledger.decisions).example
    gpus, serve = facts.machines.gpus - layout.served_by, layout.served_by
    answer = rules.world_size(world, gpus, target // least, noun, example, against.world_size, serve)
    yield rules.world_size, answer, ("strategy", *COMPARED_INPUTS, *["server_gpus"] * bool(serve))


def _recomputation(ledger: Ledger, layout: Layout, against: Compared) -> Iterator[Ruled]:
    first = ledger.decisions["priority"]
    why = "the recipe puts memory first" if first.value == "memory" else ""
    answer = rules.checkpointing(layout.recompute_interval, layout.activation_offload, why, against.checkpointing)
    yield rules.checkpointing, answer, ("checkpointing_default", "strategy", *COMPARED_INPUTS)


def _recomputed(layout: Layout, peak: str) -> list[Row]:
    """Which layers are recomputed, and where their inputs wait."""
    every, hosted = layout.recompute_interval, layout.activation_offload
    some = f"one of {every} layers" if every > 1 else "every layer" if every else "no layer"
    place = "inputs of recomputed layers wait in host memory" if hosted else "activations stay on the device"
    return [
        ("recompute_every", every, f"{some} is recomputed", ("checkpointing", "priority", "strategy")),
        ("activation_offload", hosted, f"{place}; predicted peak {peak}", ("checkpointing", "strategy", "gpu")),
    ]


def _batch(ledger: Ledger, layout: Layout, peak: str, against: Compared) -> Iterator[Ruled]:
    needs = ("strategy", *COMPARED_INPUTS)
    split = ("global_batch_size", "micro_batch_size", "world_size")
    answer = rules.micro_batch_size(layout.micro_batch, layout.accumulation, peak, against.micro_batch)
    yield rules.micro_batch_size, answer, needs
    example = settled_method(ledger.decisions).example
    parts = (layout.accumulation, layout.global_batch, layout.mesh.data_parallel, example)
    halved = layout.precision if layout.spreads.keeps_master and layout.precision != "fp32" else ""
    yield rules.gradient_accumulation, rules.gradient_accumulation(*parts, halved), (*split, "strategy", "precision")


def _mesh(mesh: Mesh) -> list[Row]:
    """The sharding groups where there are several, and how many ranks share a layer: one where none do."""
    inputs = ("world_size", "strategy", "params", "max_length", "global_batch_size")
    rows: list[Row] = []
    if mesh.replicate > 1 and mesh.shard > 1:
        rows.append(
            ("shards", mesh.shard, f"{mesh.replicate} replicas, each in a sharding group of {mesh.shard} ranks", inputs)
        )
    for name, ranks in (("tensor", mesh.tensor), ("context", mesh.context), ("expert", mesh.expert)):
        whole, shared = _SHARED[name]
        because = f"{ranks} ranks share {shared}" if ranks > 1 else f"every rank computes {whole}"
        rows.append((f"{name}_parallel", ranks, because, inputs))
    return rows


def _split(ledger: Ledger, layout: Layout, facts: Facts) -> Iterator[Ruled]:
    """How many of the GPUs that train share each copy of the weights."""
    for rule in splitting_rules(settled_method(ledger.decisions)):
        choice, gpus = rule(), layout.engine_tensor_parallel
        if gpus > 1:
            copied = copied_bytes(step_of(facts.model.architecture, layout, work_of(ledger, facts))) / GIB
            because = f"the smallest group with which this layout fits: of a copy of {copied:.1f} GiB each GPU holds"
            choice = replace(choice, value=gpus, because=f"{because} {copied / gpus:.1f} GiB")
        yield rule, choice, ("generator", *COMPARED_INPUTS)


def _generator(ledger: Ledger, chosen: Candidate, facts: Facts) -> Iterator[Row]:
    """The share of a GPU for a generator with a copy of the weights: what the plan counts for it."""
    method = settled_method(ledger.decisions)
    if method.generates and method.written_by.beside:
        share = server_share(facts.model.architecture, facts.gpu.memory_gib * GIB)
        because = "of each of its GPUs, for its weights, keys and values; the rest is for new weights on their way"
        yield "generator_share", share, because, ("vram_gib", "params", "server_gpus")
    elif method.generates and method.written_by.own_copy:
        layout, work = chosen.layout, work_of(ledger, facts)
        step = step_of(facts.model.architecture, layout, work)
        gpus = layout.engine_tensor_parallel
        held = engine_bytes(facts.model.architecture, work, step, answers_at_once(layout, work), gpus)
        part = f"its part of a copy of the weights, which {gpus} GPUs share," if gpus > 1 else "its copy of the weights"
        copied = f"takes {copied_bytes(step) / gpus / GIB:.1f}"
        because = f"{held / GIB:.1f} of {facts.gpu.memory_gib:.1f} GiB: {part} {copied}"
        share = engine_share(held, facts.gpu.memory_gib * GIB)
        yield "generator_share", share, f"{because}, the rest is for keys and values and its buffers", MEMORY_INPUTS


_SHARED = {  # what each rank has whole, and what it means to share it
    "tensor": ("whole matrix products", "each matrix product, so each rank gathers and recomputes a part of a layer"),
    "context": ("whole sequences", "each sequence, so each rank keeps a part of its activations"),
    "expert": ("whole layers", "the experts, so each rank gathers or keeps a part of them"),
}


def timed_inputs(ledger: Ledger) -> tuple[str, ...]:
    """The decisions that the predicted times of steps and checkpoints depend on."""
    own = (own.name for own in settled_method(ledger.decisions).own if own.changes)
    named = dict.fromkeys((*COMPARED_INPUTS, *_TIMED_INPUTS, *own))
    return tuple(id for id in named if id in ledger.decisions)


def record_prediction(
    ledger: Ledger,
    chosen: Candidate,
    parts: Sequence[RunPart],
    cost_usd: float | None,
    needs: Needs,
    rejected: Sequence[Rejected],
) -> None:
    """Record what the estimates say of the plan and of its alternatives; everything that they depend on is an input."""
    memory = chosen.memory
    predicted = {
        "seconds": round(sum(part.seconds for part in parts)),
        **{f"seconds of {part.name}": round(part.seconds) for part in parts},
        "usd": cost_usd,
        "host_memory_bytes": needs.host.needed_bytes,
        "disk_bytes": needs.storage.total_bytes,
        "peak_reserved_bytes": memory.peak_reserved_bytes,
        **memory.terms,
    }
    others = [f"{other.family}: {other.reason}" for other in rejected]
    inputs = tuple(ledger.decisions)
    rows: list[tuple[str, Any, str]] = [
        ("prediction", predicted, f"estimated for the hardware {ledger.decisions['gpu'].value}"),
        (
            "alternatives",
            others,
            "the best layout of each other kind, with the reason why it was not taken"
            if others
            else "no other was tried",
        ),
    ]
    for id, value, because in rows:
        watch = "peak_memory_gib, tokens_per_second: near the plan"
        source = "memory and time estimates of the planner"
        ledger.record(Decision(id, value, because, inputs=inputs, origin="planner", watch=watch, source=source))


def _ruled(ledger: Ledger, peak: str, rule: Rule, choice: Choice, inputs: tuple[str, ...]) -> Decision:
    """What the planner found, with the rule that says why; the recipe may have fixed it."""
    key = rule.key
    if rule is rules.checkpointing and key not in ledger.wishes:  # to say how layers are recomputed is to want it
        key = next((other for other in _RECOMPUTING if _wants(ledger, other)), key)
    metadata = {"rule": rule.id, "watch": watch_of(rule, choice.value, ledger.decisions), "source": rule.source}
    return _found(ledger, peak, rule.decides, choice.value, choice.because, inputs, key, metadata)


def _decision(ledger: Ledger, peak: str, id: str, value: Any, because: str, inputs: tuple[str, ...]) -> Decision:
    """A part of the layout that no rule decides."""
    metadata = {"watch": WATCH[id], "source": "memory and time estimates of the planner"}
    return _found(ledger, peak, id, value, because, inputs, KEYS.get(id, ""), metadata)


def _found(
    ledger: Ledger,
    peak: str,
    id: str,
    value: Any,
    because: str,
    inputs: tuple[str, ...],
    key: str,
    metadata: Mapping[str, str],
) -> Decision:
    """A part of the layout; of a value that the recipe sets, the reasons for choosing it are not said."""
    wish = ledger.wishes.get(key)
    return Decision(
        id,
        value,
        f"set in {wish.where}; predicted peak {peak}" if wish else because,
        inputs=_known(ledger, inputs),
        origin="recipe" if wish else "planner",
        key=key,
        where=wish.where if wish else "",
        **metadata,
    )


def _known(ledger: Ledger, inputs: tuple[str, ...]) -> tuple[str, ...]:
    """Those that are decided; where a reference may score all rows once, layouts are compared by the passes too."""
    method = settled_method(ledger.decisions)
    passes = ("passes",) if method.precomputes and "gpu" in inputs else ()
    own = tuple(own.name for own in method.own if own.changes and "gpu" in inputs)  # they change what a step computes
    return tuple(name for name in (*inputs, *passes, *own) if name in ledger.decisions)


def _wants(ledger: Ledger, key: str) -> bool:
    return key in ledger.wishes and bool(ledger.wishes[key].value)
