"""README.md, requirements.txt and settings of tools of a bundle."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from recipec import __version__
from recipec.axes import BASES, METHODS, STRATEGIES
from recipec.axes.adaptations import MATRICES, PREFIXES
from recipec.axes.lora_variants import STANDARD
from recipec.backends.adaptations.packed import PACKED
from recipec.backends.between import acts_with, before_next, judged_by
from recipec.backends.combining import told_of_tasks
from recipec.backends.completion import checked
from recipec.backends.evaluation import COUNTED, QUICK_ROWS, kept_of_gains
from recipec.backends.generators import loads_newest
from recipec.backends.hyperparameters import hyperparameters
from recipec.backends.intervals import saves
from recipec.backends.job import Job, StageJob
from recipec.backends.launchers import launcher_of, own_usage, usage
from recipec.backends.machine import merged_gib, needs
from recipec.backends.methods import BACKENDS
from recipec.backends.models import added_by, code, is_below_root, kept_in_fp32, made_folder, starting_point, unpinned
from recipec.backends.reading import sources_of
from recipec.backends.requirements import requirements_of
from recipec.backends.ruff import ruff_artifact
from recipec.backends.timing import prepared_ahead, scored_apart, timing, tokenized_ahead
from recipec.backends.told_rows import held_out_told, learned_told, rows_told
from recipec.backends.training import summary
from recipec.catalog.stack import stack, torch_index
from recipec.facts.model import is_path
from recipec.planner.advice.prepared_ahead import ONLY_WHAT_IS_READ
from recipec.planner.document import stage_document
from recipec.planner.plan import StagePlan
from recipec.render.artifact import Artifact
from recipec.render.traced import Raw, Traced, fragment
from recipec.rules.combinations_lora import goes_on, loads_adapter
from recipec.rules.core import Decision
from recipec.rules.reservations import of_memory, whole_memory
from recipec.rules.watching import LOOKS_AT
from recipec.rules.words import waiting
from recipec.units import GIB, gib, number, value_text

SHOWN = (  # decisions that a reviewer looks for, in the order of the table
    "adaptation",
    "strategy",
    "precision",
    "fp8",
    "micro_batch_size",
    "gradient_accumulation",
    "global_batch_size",
    "checkpointing",
    "learning_rate",
    "schedule",
    "decay_share",
    "warmup",
    *("epochs", "max_steps"),
    "adam_beta2",
    "weight_decay",
    "max_grad_norm",
    "optimizer",
    "trainable_params",
    *("lora_variant", "lora_rank", "lora_expert_rank", "lora_alpha", "lora_dropout", "lora_targets"),
    *("ia3_scales", "virtual_tokens", "encoder_hidden_size", "prefix_tokens", "prefix_encoder_size"),
    *("reduction_factor", "adapters_after", "identity_penalty"),
)
SHOWN_LATER = (  # behind what only the stage's method has
    "precomputed_reference",
    "max_length",
    "overflow",
    "packing",
    "sampling",
    *("curriculum_by", "curriculum_column", "curriculum_parts"),
    *("ewc_strength", "ewc_rows"),
    *("active_params", "capacity_factor", "eval_capacity_factor", "min_capacity", "balance_loss"),
    "template",
    "eos_token",  # where it is not the model's
    "loss_on",
    "eval_every",
    "save_every",
    "early_stopping_patience",
    "keep_checkpoints",  # where the learning rate falls at the end: whether the last one before that stays
    "network_gbps",  # between nodes, where there are several; often assumed
)


TITLES = {  # where the field's name is not that of the decision
    "checkpointing": "gradient checkpointing",
    "trainable_params": "trainable parameters",
    "active_params": "parameters at work for each token",
}


def document_artifacts(job: Job, others: Collection[str]) -> list[Artifact]:
    """README.md, requirements.txt, and the settings of ruff and git; `others` are the paths of all other files."""
    return [
        Artifact("README.md", job.ids("stage"), "README.md.j2", _readme_names(job, others)),
        ruff_artifact(job),
        Artifact(".gitattributes", (), "gitattributes.j2"),
        Artifact(".gitignore", (), "gitignore.j2", {"made": list(dict.fromkeys(_made(job)))}),
        Artifact("requirements.txt", (), "requirements.txt.j2", {"requirements": requirements_of(job)}),
    ]


def _made(job: Job) -> Iterator[Raw]:
    """The folders below the bundle in which its scripts make models to train on."""
    first = job.stages[0]
    if folder := made_folder(first):
        yield code(first, folder, "model", *added_by(first))
    for stage in job.stages:
        if stage.plan.layout.shares_packed and not stage.start:
            yield code(stage, PACKED, "quantization", "strategy")


def _readme_names(job: Job, others: Collection[str]) -> dict[str, Any]:
    documented = all(stage.plan.decisions[id].because for stage in job.stages for id in _shown_decisions(stage))
    recipe, checks = job.loaded.recipe, checked(job, others, documented)
    launcher = launcher_of(job)
    return {
        "name": job.name,
        "description": recipe.recipe.description,
        "recipe_file": job.loaded.path.name,
        "version": __version__,
        "torch_index": job.because(torch_index(job.facts.gpu), "gpu"),
        "torch_version": Raw(stack()["torch"]),
        "reads_files": job.because(_reads_files(job), "data_format", "model"),
        "data_root": _way_to_recipe(job),
        "usage": usage(launcher, job) if launcher else own_usage(job),
        "several_stages": job.because(len(job.stages) > 1, "stage"),
        "selection": _selection(job),
        "text_part": job.because(job.facts.model.name if job.facts.model.stored else "", "model"),
        "new_tokens": job.stages[0].traced("new_tokens") if job.facts.new_tokens else 0,
        "needs": needs(job),
        "resumes": job.because(_resumes(job), "save_every"),
        "prepared_ahead": prepared_ahead(job),
        "tokenized_ahead": tokenized_ahead(job),
        "scored_apart": scored_apart(job),
        "unpinned": list(unpinned(job)),
        "newest": [each.traced("model", each.job.facts.model.name) for each in job.stages if loads_newest(each)],
        "revision": job.because(job.loaded.recipe.model.revision or "", "model"),
        "only_what_is_read": Raw(ONLY_WHAT_IS_READ),
        "distributed": job.because(launcher and any(stage.strategy.distributed for stage in job.stages), "strategy"),
        "launch_script": Raw(launcher.script if launcher else ""),
        "several_nodes": job.because(launcher and job.nodes > 1, "world_size"),
        "groups": job.because(any(stage.strategy.groups for stage in job.stages), "strategy"),
        "shards": job.because(any(stage.strategy.shards_weights for stage in job.stages), "strategy"),
        "fewer": job.because(launcher and _fewer(job), "world_size", "strategy"),
        "combines": job.because(bool(job.tasks), "stage"),
        "first_task": job.stages[0].named,
        **told_of_tasks(job),
        "second_task": job.stages[min(1, len(job.stages) - 1)].named,
        "last": job.last.named,
        "result": job.last.because(job.last.adapts.result, "adaptation"),
        "kept_in_fp32": job.last.because(kept_in_fp32(job.last), "adaptation", "precision", "strategy"),
        "writes": job.last.because(job.last.method.writes, "stage"),
        "auto_class": Raw(job.last.method.auto_class),
        "whole": job.last.because(_whole(job.last), "adaptation", "stage"),
        "adapter": job.last.because(not job.last.adapts.trains_all, "adaptation"),
        "merges": job.last.because(job.last.adapts.merges, "adaptation"),
        "goes_on_adapter": job.last.because(_goes_on_adapter(job), "adaptation", "stage", "model"),
        **_GOING_ON,
        **_adapter_names(job.last),
        "base_moves": job.last.because(_base_is_folder(job.last), "model", "stage", *added_by(job.last)),
        "base_folder": job.last.because(_base_folder(job), "model", "stage", *added_by(job.last)),
        "adapter_base": job.last.because(starting_point(job.last), "model", "stage", *added_by(job.last)),
        "merged_gib": job.last.because(merged_gib(job.last), "model", "precision"),
        "merge_script": Raw(f"{job.last.folder}merge_adapter.py"),
        **_merged(job.last),
        "quick_rows": QUICK_ROWS,
        "stages": [_stage(stage) for stage in job.stages],
        "checks_before": [row for row in checks if not row.after],
        "checks_after": [row for row in checks if row.after],
    }


def _adapter_names(stage: StageJob) -> dict[str, Any]:
    """What the adapter of a result is, and how its base is stored."""
    return {
        "stored": stage.because(_stored(stage), "quantization"),
        "bits": stage.because(BASES[stage.adapts.base].bits, "quantization"),
        "virtual_tokens": stage.virtual_tokens,
        "adapter_module": fragment(stage.adapts.module, stage.ids("adaptation")),
        "adapter_file": stage.because(f"{stage.folder}{stage.adapts.module}.py", "adaptation"),
        "prefix": stage.because(stage.adapts.trains == PREFIXES, "adaptation"),
    }


def _goes_on_adapter(job: Job) -> bool:
    """Whether another recipe can go on training the adapter, with the same model below it."""
    return job.last.adapts.trains == MATRICES and job.last.start is None and not made_folder(job.last)


_GOING_ON = {
    "goes_on_by": " or ".join(row.title for row in METHODS.values() if goes_on(row) and not row.random_weights),
    "goes_on_with": " or ".join(f"`{row.name}`" for row in STRATEGIES.values() if loads_adapter(row)),
}


def _stored(stage: StageJob) -> str:
    """The adaptation with which another recipe stores the base as this one does; "" where it is as it is."""
    return stage.adapts.name if stage.adapts.quantized else ""


def _merged(stage: StageJob) -> dict[str, Any]:
    """How the merged model is held to the trained one."""
    base, measure = BASES[stage.adapts.base], BACKENDS[stage.method.name].measure_of(stage)
    return {
        "merged_evaluation": fragment(f"python {stage.folder}evaluate.py merged", stage.ids("adaptation")),
        "merge_costs": stage.because(base.merge_costs, "quantization"),
        "merge_because": stage.because(base.merge_because, "quantization"),
        "loss": Raw(measure.loss),
        "gain": Raw(measure.gain.metric) if measure.gain else None,
        "counted": COUNTED[stage.method.writes],
        **kept_of_gains(stage),
        "merged_needs": stage.because(_room_for_merged(stage), "prediction"),
    }


def _room_for_merged(stage: StageJob) -> str:
    """What is missing for the evaluation of the merged model; empty where nothing is."""
    merged = stage.plan.needs.evaluation.merged
    if not (merged and merged.offloaded):
        return ""
    needed = f"The merged model has {gib(merged.bytes)} of weights, more than the planned GPUs of a node can hold"
    return f"{needed}: evaluate it on larger ones, or slowly with --offload."


def _reads_files(job: Job) -> bool:
    """Whether the run reads data or models below DATA_ROOT; absolute paths need no root."""
    sources = sources_of(job)
    beside = (*job.facts.others.values(), *job.facts.rewards.models)
    models = [job.facts.model.name, *(other.model.name for other in beside)]
    files = any(not Path(source.path).is_absolute() for source in sources if source.path)
    return files or any(map(is_below_root, models))


def _base_is_folder(stage: StageJob) -> bool:
    """Whether PEFT writes the absolute path of the base into the result."""
    return stage.start is not None or bool(made_folder(stage)) or is_path(stage.job.facts.model.name)


def _base_folder(job: Job) -> str:
    """Where the base of the adapter is, seen from the bundle's folder; or its id on the Hub."""
    place = starting_point(job.last)
    below = job.last.start is None and is_below_root(place)
    return (Path(_way_to_recipe(job) or "FOLDER") / place).as_posix() if below else place


def _way_to_recipe(job: Job) -> str:
    """From the bundle's folder to that of the recipe; "" where it is not known, or they have no folder in common."""
    if job.out is None:
        return ""
    out, recipe = (Path(os.path.realpath(folder)) for folder in (job.out, job.loaded.folder))
    way = Path(os.path.relpath(recipe, out)).as_posix() if out.parts[1:2] == recipe.parts[1:2] else ""
    return way if way.isprintable() else ""


def _whole(stage: StageJob) -> str:
    """The folder whose result loads without PEFT."""
    return f"outputs/{stage.name}" + "/merged" * stage.adapts.merges


def _selection(job: Job) -> Traced | None:
    """How the model was chosen, in one paragraph; None where the recipe names it."""
    if job.plan.selection is None:
        return None
    chosen = job.plan.selection
    others = "; ".join(f"{other.model} ({other.reason})" for other in chosen.runners_up)
    text = f"recipec chose the model {chosen.model}: {chosen.because}." + (f" Next to it: {others}." if others else "")
    return job.last.because(text, "model", "model_runners_up")


def _fewer(job: Job) -> int:
    """A smaller number of processes that still runs as planned, with two or more; 0 where there is none."""
    grouped = any(stage.strategy.groups for stage in job.stages)  # the groups of shards must divide the processes
    sizes = {stage.value("world_size") for stage in job.stages}
    if grouped or len(sizes) > 1:
        return 0
    per_node = min(*sizes, job.facts.machines.gpus_per_node)
    return per_node // 2 if per_node >= 4 else 0


def _resumes(job: Job) -> str:
    """Where a run goes on that was stopped: of several stages some may have checkpoints."""
    anew = [stage.name for stage in job.stages if not saves(stage)]
    if len(anew) == len(job.stages):
        return "A run that was stopped begins anew when it is started again, as no checkpoint is written"
    begun = "or from the beginning where it had written none"
    begun += f" (as in {' and '.join(anew)}, where none is planned)" * bool(anew)
    return f"A run that was stopped continues from its newest complete checkpoint when it is started again, {begun}"


def _stage(stage: StageJob) -> Any:
    plan = stage.plan
    return SimpleNamespace(
        name=stage.named,
        folder=Raw(stage.folder),
        summary=summary(stage),
        learns=stage.because(learned_told(stage), "loss_on", "stage"),
        data=stage.because(rows_told(stage), *_OF_DATA, *["replay_rows"] * stage.replays),
        held_out=stage.because(held_out_told(stage), "eval_fraction", "test_fraction", "save_every"),
        memory=stage.because(_memory(stage), "prediction", "gpu", "vram_gib"),
        memory_reservations=stage.because(of_memory(stage_document(plan)["memory"]), "prediction"),
        peak=stage.because("the peak of the process" if stage.on_cpu else "the allocated peak", "gpu"),
        terms=stage.because(_terms(plan), "prediction"),
        **timing(stage),
        judged_by=stage.because(judged_by(stage), "rewards") if stage.method.earns else "",
        acts_with=stage.because(acts_with(stage), "tools", "tool_rounds", "result_tokens") if stage.acts else "",
        before_next=stage.because(before_next(stage), "stage"),
        waits=stage.because(_waits(plan), "prediction", "world_size"),
        decisions=[_row(stage, id) for id in _shown_decisions(stage)],
        rejected=stage.because(plan.rejected, "alternatives"),
    )


# What decides what the rows are.
_OF_DATA = (*("examples", "tokens_per_example", "data_format", "loss_on", "incomplete", "opening_answers"),)


def _memory(stage: StageJob) -> str:
    memory = stage_document(stage.plan)["memory"]
    allocated = f"{gib(memory['peak_allocated_bytes'])} allocated at the peak"
    return f"{allocated}; {whole_memory(memory, on_cpu=stage.on_cpu)}"


def _terms(plan: StagePlan) -> str:
    """The largest parts of the peak, in GiB."""
    largest = sorted(plan.memory.terms.items(), key=lambda item: -item[1])[:6]
    return ", ".join(f"{name.replace('_', ' ')} {size / GIB:.2f}" for name, size in largest)


def _waits(plan: StagePlan) -> str:
    """How long a step waits, and what would shorten it; empty for one device."""
    if plan.layout.mesh.world_size == 1:
        return ""
    return waiting(plan.needs.waiting_share, plan.shorter_waits)


def _shown_decisions(stage: StageJob) -> list[str]:
    own = (own.name for own in stage.method.keys)
    fixed = stage.value("max_steps") > 0  # how long it trains, in place of the epochs
    usual = {"eos_token": not stage.eos_token, "lora_variant": stage.variant is STANDARD}
    usual |= {"keep_checkpoints": "decay_share" not in stage.plan.decisions}
    usual |= {"max_steps": not fixed, "epochs": fixed, "quantization": True}  # which the adaptation's value names
    ids = dict.fromkeys((*SHOWN, *own, *SHOWN_LATER, *hyperparameters(stage)))
    return [id for id in ids if id in stage.plan.decisions and not usual.get(id)]


# What a row of the table rests on beside its decision: which of the two there is says how long a run is.
_HOW_LONG = ("max_steps", "epochs")
_ROW_IDS = {
    "adaptation": ("adaptation", "quantization"),
    "keep_checkpoints": ("keep_checkpoints", "schedule"),
    **dict.fromkeys(_HOW_LONG, _HOW_LONG),
}


def _row(stage: StageJob, id: str) -> Any:
    decision = stage.plan.decisions[id]
    value = stage.method.called(stage.adapts) if id == "adaptation" else value_text(decision.value)
    ids = _ROW_IDS.get(id, (id,))
    return SimpleNamespace(
        id=TITLES.get(id, id),
        value=stage.because(value, *ids),
        because=_reason(decision),
        watch=stage.because(decision.watch, id, *(at for at in LOOKS_AT.get(id, ()) if at in stage.plan.decisions)),
    )


def _reason(decision: Decision) -> str:
    """Why, and what a recipe may set instead without a warning."""
    if decision.accepts is None or decision.accepts[0] == decision.accepts[1]:
        return decision.because
    low, high = map(number, decision.accepts)
    return f"{decision.because}; accepted: {low} to {high}"
