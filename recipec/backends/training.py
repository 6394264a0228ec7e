"""train.py of one stage, put together from the parts of its sides, and its companions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from recipec.axes.lora_variants import STANDARD
from recipec.backends.adaptations import adaptation_parts, continued
from recipec.backends.adaptations.packed import LOADED
from recipec.backends.arguments import training_config
from recipec.backends.companions import attention_part, companion_artifacts, fp8_part, order_part
from recipec.backends.dequantized import dequantized_part
from recipec.backends.elastic import elastic_part, splits, trainer_of
from recipec.backends.first_reads import DECIDE, LOADS, first_reads_part
from recipec.backends.intervals import best_part
from recipec.backends.job import StageJob, compiled
from recipec.backends.launchers import start_text
from recipec.backends.machine import peak_part
from recipec.backends.methods import BACKENDS
from recipec.backends.models import (
    bundle_root,
    code,
    ending,
    from_hub,
    has_template_file,
    names_part,
    random_weights_part,
    result_part,
    sets_template,
    source_part,
    with_template,
)
from recipec.backends.parts import Import, Part, import_blocks, import_lines, joined, lines
from recipec.backends.preflight import cuts, drops, preflight_names, starts_from
from recipec.backends.routing import router_part
from recipec.backends.rows import PREPARED
from recipec.backends.trackers import trackers
from recipec.backends.vocabulary import new_tokens_part
from recipec.planner.document import stage_digest
from recipec.recipe.schema import PROJECT_VARIABLES
from recipec.recipe.trainer_arguments import arguments_of
from recipec.render.artifact import Artifact
from recipec.render.call import Arg, Call, render_call
from recipec.render.traced import Raw, Traced
from recipec.rules.evaluation import own_rows
from recipec.units import GIB

_ALSO_DECIDE = ("quantization", "template", "model")  # what else that statement imports, or does not
_PREFLIGHT = (
    *("RunGuard", "check_disk", "check_rows", "check_tokenizer", "checkpoint_to_resume"),
    *("is_finished", "lock_folder", "this_run"),
)
CHECK_DEVICES = "check_devices"  # of preflight.py, where the run has GPUs
_MARKING = ("own_template = tokenizer.chat_template", "tokenizer.chat_template = marked(tokenizer)")
_LOSING = ("overflow", "packing")  # what decides whether rows can be lost
_OWN_AGAIN = "tokenizer.chat_template = own_template  # the result keeps the model's"
_ALWAYS = (
    Import("argparse"),
    Import("os"),
    Import("pathlib", "Path"),
)


def trainer_artifacts(stage: StageJob) -> list[Artifact]:
    """The Python files of one stage that a Trainer runs."""
    ids = stage.ids("stage")
    return [
        Artifact(f"{stage.folder}train.py", ids, "trl/train.py.j2", _train_names(stage)),
        Artifact(f"{stage.folder}preflight.py", ids, "trl/preflight.py.j2", preflight_names(stage)),
        *companion_artifacts(stage),
    ]


def summary(stage: StageJob) -> Traced:
    """One sentence: what is trained, how, on how many rows."""
    before, model, row = stage.plan.stage.starts_from, stage.job.facts.model.name, stage.method
    start = f"the result of {before}" if before else model
    start = f"{model} from random weights" if row.random_weights else start
    start += f" with the adapter in {stage.init_from}" * bool(stage.init_from)
    how = row.full_name if stage.adapts.trains_all else stage.adapts.summary
    how += "" if stage.variant is STANDARD else f" ({stage.variant.title})"
    beside = "".join(f", {role} {stage.value(role)}" for role in row.named_models)
    sentence = f"{row.title[:1].upper()}{row.title[1:]} of {start} for {stage.job.name}: {how}, {_rows(stage)}{beside}."
    ids = ("adaptation", "quantization", "examples", "source_rows", "eval_fraction", "test_fraction", "model", "stage")
    replayed = ("replay_rows",) if stage.replays else ()
    variant = ("lora_variant",) if "lora_variant" in stage.plan.decisions else ()
    return stage.because(sentence, *ids, *variant, *replayed, *row.named_models)


def _rows(stage: StageJob) -> str:
    """How many rows are trained on: not those that are held out of them."""
    given = stage.value("examples")
    trained = own_rows(stage.values)
    told = f"{trained:,} of {given:,} rows" if trained < given else f"{given:,} rows"
    return f"{told} and {stage.value('replay_rows'):,} general rows" if stage.replays else told


def _train_names(stage: StageJob) -> dict[str, Any]:
    job, brought, own = stage.job, _brought(stage), trainer_of(stage)
    standard, installed = import_blocks(brought.imports)
    return {
        "summary": summary(stage),
        "start": start_text(job, f"{stage.folder}train.py"),
        "compiled": compiled(job),
        "path": f"{stage.folder}train.py",
        "standard_imports": standard,
        "project_variables": _project_variables(stage),
        "project": stage.traced("track_project"),
        "installed_imports": installed,
        "own_imports": import_lines((*_own_imports(stage), *brought.own_imports)),
        "bundle_root": bundle_root(stage),
        "constants": brought.constants,
        **plan_names(stage),
        "judged": stage.because(stage.judge is not None, "stage"),
        "continues": stage.because(bool(stage.init_from), "model"),
        "mixes": stage.because(bool(stage.mixed), "stage"),
        # Where answers are written in training, the trainer is told of the mode, and rows hold what rewards are given.
        "thinks_not": stage.because(stage.thinks_not and not stage.method.generates, "reasoning"),
        "splits": splits(stage),
        "config_class": Raw(stage.method.config),
        "training_config": training_config(stage),
        "functions": brought.functions,
        "before_trainer": brought.before_trainer,
        "trainer": Call(own.name if own else stage.method.trainer, brought.arguments),
        "check_rows_of": _check_rows_of(stage),
        "after_trainer": brought.after_trainer,
        "before_training": brought.before_training,
        "before_saving": brought.before_saving,
        "after_model": brought.after_model,
        "after_saving": brought.after_saving,
    }


def plan_names(stage: StageJob) -> dict[str, Any]:
    """The constants of every train.py, from its plan."""
    job = stage.job
    return {
        "stage": stage.named,
        "plan_digest": f"{stage_digest(job.loaded, job.facts, stage.plan)}-{stage.name}",
        "predicted_peak_gib": stage.because(round(_predicted_peak(stage) / GIB, 1), "prediction", "gpu"),
        "starts_from": starts_from(stage),
        "eval_rows": stage.traced("eval_samples"),
        "max_steps": stage.traced("max_steps"),
        "on_gpu": stage.because(not stage.on_cpu, "gpu"),
    }


def _predicted_peak(stage: StageJob) -> int:
    """What the peak is measured beside: tensors on a GPU, the whole process on a CPU."""
    memory = stage.plan.memory
    return memory.peak_device_bytes if stage.on_cpu else memory.peak_allocated_bytes


def _project_variables(stage: StageJob) -> list[Traced]:
    """What tells the trackers of the run their project: the Trainer hands it to none of them."""
    if stage.value("track_project") is None:
        return []
    return [stage.traced("tracker", PROJECT_VARIABLES[name]) for name in trackers(stage) if name in PROJECT_VARIABLES]


def _brought(stage: StageJob) -> Part:
    """What all sides of the stage bring; their order is that of the trainer's arguments."""
    return joined(
        (
            _trainer_part(stage),
            source_part(stage),
            continued.source_part(stage),
            _tokenizer_part(stage),
            random_weights_part(stage),
            first_reads_part(stage),
            new_tokens_part(stage),
            names_part(stage),
            dequantized_part(stage),
            attention_part(stage),
            result_part(stage),
            *adaptation_parts(stage),
            BACKENDS[stage.method.name].part(stage),
            elastic_part(stage),
            fp8_part(stage),
            order_part(stage),
            best_part(stage),
            router_part(stage),
            peak_part(stage),
            stage.engine.part(stage.run),  # behind all others: it ends the process group
            _stopping_part(stage),
        )
    )


def _own_imports(stage: StageJob) -> Iterator[Import]:
    """What every train.py takes from the files beside it."""
    yield from (Import("preflight", name) for name in _PREFLIGHT)
    yield from devices_import(stage)
    if own := trainer_of(stage):
        yield Import(own.module, own.name, stage.ids("stage"))
        if own.config:
            yield Import(own.module, own.config, stage.ids("stage"))
    yield Import("rows", PREPARED)


def devices_import(stage: StageJob) -> tuple[Import, ...]:
    """What looks for the planned GPUs."""
    return () if stage.on_cpu else (Import("preflight", CHECK_DEVICES, stage.ids("gpu")),)


def _trainer_part(stage: StageJob) -> Part:
    """The trainer and what every trainer is given."""
    row, own = stage.method, trainer_of(stage)
    made = "random_model(config)" if row.random_weights else "continued(config)" if stage.init_from else "MODEL"
    made = LOADED if stage.plan.layout.shares_packed else LOADS if stage.plan.needs.first_reads else made
    theirs = () if own else (Import(row.module, row.trainer),)
    theirs = theirs if own and own.config else (Import(row.module, row.config), *theirs)
    return Part(
        imports=(*_ALWAYS, *theirs),
        arguments=(
            Arg("model", Raw(made), stage.ids("model", *_sharing(stage))),
            Arg("args", Raw("config")),
            Arg("train_dataset", Raw('rows["train"]')),
            Arg("eval_dataset", Raw('rows["eval"].select(range(min(EVAL_ROWS, len(rows["eval"]))))')),
        ),
    )


def _sharing(stage: StageJob) -> tuple[str, ...]:
    """What decides whether train.py loads the model itself, because ranks share a base that is packed, or one reads."""
    alone = ("adaptation", "quantization", "strategy") if stage.plan.layout.fsdp or stage.adapts.quantized else ()
    return (*alone, *DECIDE)


def _tokenizer_part(stage: StageJob) -> Part:
    """The tokenizer, where the trainer must not take the model's as it is."""
    ids = stage.ids("template", "template_marks", "model")
    if not _loads_tokenizer(stage):
        return Part(own_imports=(Import("rows", "marked", ids, left_out=True),))
    if stage.marks_turns:
        return Part(
            imports=(Import("transformers", "AutoTokenizer", ids),),
            own_imports=(Import("rows", "marked", ids),),
            before_trainer=lines(ids, f"tokenizer = {render_call(_tokenizer(stage), indent=4)}", *_MARKING),
            arguments=(Arg("processing_class", Raw("tokenizer"), ids),),
            after_trainer=lines(ids, _OWN_AGAIN),
        )
    return Part(
        imports=(Import("transformers", "AutoTokenizer", ids),),
        own_imports=(Import("rows", "marked", ids, left_out=True),),
        arguments=(Arg("processing_class", _tokenizer(stage), ids),),
    )


def _loads_tokenizer(stage: StageJob) -> bool:
    if stage.marks_turns or _ends_itself(stage):
        return True
    if stage.start is not None:
        return sets_template(stage) and _carries_template(stage)
    model = stage.job.loaded.recipe.model
    pinned = bool(model.revision) or bool(model.trust_remote_code)
    return stage.method.random_weights or _carries_template(stage) or pinned


def _tokenizer(stage: StageJob) -> Call:
    call = from_hub(stage, "AutoTokenizer", Raw("MODEL"))
    call = ending(call, stage) if _ends_itself(stage) else call
    return with_template(call, stage) if _carries_template(stage) else call


def _ends_itself(stage: StageJob) -> bool:
    """Whether the tokenizer is given the end token, because the trainer's configuration takes none."""
    return bool(stage.eos_token) and "eos_token" not in arguments_of(stage.method.config)


def _carries_template(stage: StageJob) -> bool:
    """Whether the tokenizer carries the bundle's chat template, because the trainer's configuration takes none."""
    return has_template_file(stage) and not BACKENDS[stage.method.name].takes_template


def _stopping_part(stage: StageJob) -> Part:
    ids, patience = stage.ids("early_stopping_patience"), stage.value("early_stopping_patience")
    imported = Import("preflight", "StopWithoutProgress", ids, left_out=not patience)
    others = Import("transformers", "BitsAndBytesConfig", stage.ids(*_ALSO_DECIDE), left_out=True)
    stop = Call("StopWithoutProgress", [Arg("patience", patience)])
    return Part(
        imports=(others,), own_imports=(imported,), arguments=(Arg("callbacks", [stop], ids),) if patience else ()
    )


def _check_rows_of(stage: StageJob) -> Raw:
    given = ["trainer", *check_rows_of(stage, 'len(rows["train"])')]
    return code(stage, ", ".join(given), *deciding_rows(stage))


def deciding_rows(stage: StageJob) -> tuple[str, ...]:
    """The decisions behind which rows there are."""
    return (*_LOSING, *["replay"] * stage.replays)


def check_rows_of(stage: StageJob, given: str) -> list[str]:
    """What preflight.check_rows is told: the report where rows are lost or replayed, and how many were `given`."""
    told = ['DATA / "report.json"'] if drops(stage).value or cuts(stage).value or stage.replays else []
    return [*told, given] if cuts(stage).value else told
