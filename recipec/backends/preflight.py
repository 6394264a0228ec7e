"""What preflight.py of a stage reads: what is planned, what stops a run, and what tells it from another one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from recipec.axes.models import POLICY
from recipec.backends.card import card_path, has_card_of_trl
from recipec.backends.intervals import saves_apart
from recipec.backends.job import StageJob
from recipec.backends.launchers import launcher_of, start_of
from recipec.backends.machine import gpu_names, output_gib
from recipec.backends.merging import merged_into
from recipec.backends.methods import BACKENDS
from recipec.backends.mixing import MOST_OFF
from recipec.backends.models import bundle_root
from recipec.backends.routing import compares_losses
from recipec.catalog.architecture import Architecture
from recipec.facts.model import is_path
from recipec.render.literals import py
from recipec.render.traced import Raw, Traced, mark


def drops(stage: StageJob) -> Traced:
    """Whether rows over max_length are lost; otherwise they are cut."""
    return stage.because(stage.value("overflow") == "drop", "overflow")


def cuts(stage: StageJob) -> Traced:
    """Whether the trainer cuts rows, and leaves out those that have no trained token in front of the cut."""
    answers = not stage.method.of_text and not stage.value("packing")
    return stage.because(stage.value("overflow") == "truncate" and answers, "overflow", "packing", "stage")


def _lost_rows(stage: StageJob) -> Raw:
    """What is the matter with rows that are lost."""
    cut, whole = "answer only after max_length", "are longer than max_length"
    return mark(",".join(stage.ids("overflow")), cut if cuts(stage).value else whole)


def starts_from(stage: StageJob) -> Traced:
    """Whether the stage begins with the result of another."""
    return stage.because(stage.plan.stage.starts_from is not None, "stage")


def _scripts_before(stage: StageJob) -> Raw:
    """What makes the results that the stage needs; empty for a stage that needs none."""
    needed = [before for before in (stage.start, stage.judge, *stage.mixed) if before]
    ids = [id for before in needed for id in before.ids("stage", "adaptation")]
    if len(needed) > 1:
        *others, last = (before.name for before in needed)
        return mark(",".join(ids), f"the scripts of stages {', '.join(others)} and {last}")
    texts = ("train.py" + " and merge_adapter.py" * before.merges + f" of stage {before.name}" for before in needed)
    return mark(",".join(ids), "".join(texts)) if needed else Raw("")


def _results_before(stage: StageJob) -> dict[str, Any]:
    """How preflight.py reads which results the stage starts from and is judged by."""
    earlier = [before for before in (stage.start, stage.judge) if before]
    taken = [before.merges for before in earlier] + [False] * bool(stage.mixed)
    ids = [id for before in earlier for id in before.ids("adaptation", *["quantization"] * before.merges)]
    because = ",".join((*ids, *stage.ids("stage")))
    return {
        "start_result": _result(stage.start, "model"),
        "judge_result": _result(stage.judge, "judge"),
        "takes_results": Traced(not all(taken), because),
        "takes_merges": Traced(any(taken), because),
    }


def _result(before: StageJob | None, folder: str) -> Raw:
    """The call that reads which result lies in a folder; empty where no stage is before."""
    if before is None:
        return Raw("")
    into = merged_into(before).value if before.merges else ""
    call = f"merged_in({folder}, {py(into)})" if before.merges else f"result_in({folder})"
    return mark(",".join(before.ids("stage", "adaptation", *["quantization"] * before.merges)), call)


def _planned(stage: StageJob) -> dict[str, Any]:
    """What the plan says of the run, and what it is held to before its first step."""
    planned = {
        "distributed": stage.traced("strategy", stage.strategy.engine),
        "world_size": stage.traced("world_size"),
        "global_batch_size": stage.because(
            stage.plan.layout.global_batch, "global_batch_size", "gradient_accumulation"
        ),
        "shards_parameters": stage.traced("strategy", stage.strategy.shards_weights),
    }
    if stage.plan.layout.shares_packed:
        planned["whole_4bit_weights"] = stage.because(0, "strategy", "quantization")
    if stage.packs_examples:
        planned["attention"] = stage.because(stage.value("attention"), "attention", "packing")
    if not stage.adapts.trains_all and stage.job.loaded.recipe.model.like is None:  # whose shape is not its own
        planned["trainable_parameters"] = stage.traced("trainable_params")
    if _may_differ(stage):
        planned["shape"] = stage.because(shape_told(stage.job.facts.model.architecture), "model", "like")
    return planned


def preflight_names(stage: StageJob) -> dict[str, Any]:
    """What preflight.py of a stage reads."""
    tries_longest = not (stage.groups_by_length or stage.value("packing") or stage.method.generates)
    planned = _planned(stage)
    return {
        "shape": stage.because("shape" in planned, "model", "like"),
        "of_transformers": _of_transformers(stage, "shape" in planned),
        "shape_from": stage.because(_shape_from(stage), "model", "like"),
        "bundle_root": bundle_root(stage),
        "card": card_path(stage),
        "card_of_trl": has_card_of_trl(stage),
        "planned": [SimpleNamespace(name=name, value=value) for name, value in planned.items()],
        "starts_from": starts_from(stage),
        "judged": stage.because(stage.judge is not None, "stage"),
        "continues": stage.because(bool(stage.init_from), "model"),
        "mixes": stage.because(bool(stage.mixed), "stage"),
        "scripts_before": _scripts_before(stage),
        **_results_before(stage),
        "stops_early": stage.because(bool(stage.value("early_stopping_patience")), "early_stopping_patience"),
        "saves_apart": stage.because(saves_apart(stage), "save_every", "eval_every"),
        "drops": drops(stage),
        "cuts": cuts(stage),
        "lost_rows": _lost_rows(stage),
        "speaks": Raw("shown" if stage.loop.own else "trainer.is_world_process_zero()"),
        "template_sha256": _planned_template(stage),
        "ends_turns": stage.because(_ends_turns(stage), "data_format", "stage"),
        "unended": stage.because(_unended(stage), "template_end", "template"),
        "max_dropped": stage.traced("dropped_rows_limit"),
        "disk_gib": stage.because(output_gib(stage), "prediction", "keep_checkpoints"),
        "step_seconds": step_seconds(stage),
        **_device_names(stage),
        "packs_examples": stage.because(stage.packs_examples, "packing", "stage"),
        "tries_longest": stage.because(tries_longest, "sampling"),
        "trained_rows": stage.traced("trained_rows") if "trained_rows" in stage.plan.decisions else 0,
        "mismatches": stage.because(
            _mismatches(stage), *(own.name for own in stage.method.own if own.changes), "stage"
        ),
        "counts_passes": stage.because(stage.engine.counts_passes, "strategy"),
        "shares_packed": stage.because(stage.plan.layout.shares_packed, "strategy", "quantization"),
        "gathers_on_save": stage.because(stage.engine.gathers_on_save, "strategy"),
        "generates": stage.because(stage.method.generates, "stage"),
        "token_columns": stage.because(BACKENDS[stage.method.name].token_columns, "stage"),
        "earns": stage.because(stage.method.earns, "stage"),
        "elastic": stage.because(stage.elastic, *["ewc_strength"] * stage.elastic),
        "replays": stage.because(stage.replays, *["replay"] * stage.replays),
        "replay": stage.traced("replay") if stage.replays else 0,
        "most_off": MOST_OFF,
        "routes": stage.because(compares_losses(stage), "model", "stage"),
        "redraws_orders": stage.because(stage.method.generates and BACKENDS[stage.method.name].library_order, "stage"),
        "perplexity": stage.because("perplexity" in stage.method.metrics, "stage"),
    }


def _of_transformers(stage: StageJob, shape: bool) -> Raw:
    """What preflight.py takes from transformers."""
    stops = bool(stage.value("early_stopping_patience"))
    used = {"PretrainedConfig": shape, "Trainer": True, "TrainerCallback": True, "TrainerControl": stops}
    used |= {"TrainerState": True, "TrainingArguments": stops}
    names = ", ".join(name for name, has in used.items() if has)
    return mark(",".join(stage.ids("early_stopping_patience", "model", "like")), names)


def _may_differ(stage: StageJob) -> bool:
    """Whether the model that is loaded may have another shape than was planned: of `like`, or of a folder."""
    model = stage.job.loaded.recipe.model
    return model.like is not None or is_path(stage.job.facts.model.name)


def _shape_from(stage: StageJob) -> str:
    """What the plan has the shape of the model from."""
    model = stage.job.loaded.recipe.model
    return f"model.like, {model.like}" if model.like else "config.json, as it was when the bundle was built"


def shape_told(shape: Architecture) -> str:
    """The sizes that decide memory and time, under the names that every configuration of transformers has."""
    sizes = {
        "num_hidden_layers": shape.num_layers,
        "hidden_size": shape.hidden_size,
        "num_attention_heads": shape.num_heads,
    }
    return ", ".join(f"{name} {size}" for name, size in sizes.items())


def _device_names(stage: StageJob) -> dict[str, Any]:
    """What preflight.py says where the GPUs are not those of the plan."""
    start = start_of(stage.job)
    own = launcher_of(stage.job) is None
    command = f"accelerate launch {stage.folder}train.py" if own else f"{start.command} {start.script}"
    decided = [name for name in ("stage", "loop") if name in stage.plan.decisions]
    return {
        **gpu_names(stage.job),
        "wraps": stage.because(not stage.loop.own, *decided),
        "alone": stage.because(not stage.strategy.distributed, "strategy"),
        "start_command": Raw(str(stage.because(command, "stage", "nodes", "gpus_per_node"))),
    }


def step_seconds(stage: StageJob) -> Traced:
    """The predicted time of a step, in two digits."""
    return stage.because(float(f"{stage.plan.time.seconds_per_step:.2g}"), "prediction", "gpu")


def _planned_template(stage: StageJob) -> Traced:
    """The digest of the chat template that the model's folder had; "" for others, and where another one is used."""
    own = stage.value("template") == "model" and stage.plan.stage.starts_from is None
    return stage.because(stage.value("template_sha256") if own else "", "template", "model")


def _ends_turns(stage: StageJob) -> bool:
    """Whether rows hold answers that must end with the end of a turn."""
    return stage.format.turns and stage.method.writes and not stage.method.generates


def _unended(stage: StageJob) -> str:
    """What is said where no answer ends as the chat template ends turns."""
    end = stage.turn_end or "an end-of-turn token"
    return f"No trained answer ends with {end}, so the model would never learn to stop."


def _mismatches(stage: StageJob) -> bool:
    """Whether the policy also scores prompts with the answers of other rows."""
    return any(part.model == POLICY and not part.gradient for part in stage.method.passes)
