"""train.py with the steps of the training in it, and the files beside it: for a team that wants no Trainer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from recipec.backends.adaptations import adaptation_parts
from recipec.backends.arguments import has_tf32, loop_settings
from recipec.backends.card import card_path
from recipec.backends.dequantized import config_import, loaded_before
from recipec.backends.dispatch import MODULE, USED, draws_tokens, experts_artifact, has_experts_file
from recipec.backends.intervals import saves
from recipec.backends.job import StageJob, compiled
from recipec.backends.launchers import start_text
from recipec.backends.loops import CODES, LoopCode
from recipec.backends.machine import peak_part
from recipec.backends.models import (
    bundle_root,
    ending,
    from_hub,
    pinned_revision,
    random_model,
    saved_in_bf16,
    sets_template,
    source_part,
    weights_dtype,
    with_template,
)
from recipec.backends.parts import Import, Part, import_blocks, import_lines, joined, lines
from recipec.backends.preflight import preflight_names, step_seconds
from recipec.backends.rows import PREPARED
from recipec.backends.trackers import trackers
from recipec.backends.training import check_rows_of, deciding_rows, devices_import, plan_names, summary
from recipec.render.artifact import Artifact
from recipec.render.call import WIDTH, Arg, Call, render_call
from recipec.render.traced import Raw, columns, fragment

_PREFLIGHT = (
    *("check_disk", "check_rows", "check_tokenizer", "checkpoint_to_resume", "compare_with_plan", "forget_result"),
    *("is_finished", "lock_folder", "model_facts", "result_files", "sizes", "this_run", "try_save", "write_whole"),
)
_BATCHES = (*("UNTRAINED", "evaluation_batches", "global_batch_size", "steps", "steps_per_epoch", "trained_tokens"),)
_CHECKPOINTS = ("Progress", "delete_old", "load_checkpoint", "save_checkpoint", "save_result")
_STANDARD = ("argparse", "json", "math", "os", "secrets", "shutil", "sys", "time")
_SERVED = "self.plain_model.to(torch.bfloat16)  # as it computed and is served; checkpoints keep the fp32 weights"
_TRACKED = '''\
def as_trackers_name(entry: dict[str, float]) -> dict[str, float]:
    """The names of the Trainer: eval/loss, train/loss."""
    return {f"eval/{name[5:]}" if name.startswith("eval_") else f"train/{name}": entry[name] for name in entry}'''
_TYPES = {"bool": "bool", "int": "int", "float": "float", "str": "str", "list": "list[str]", "dict": "dict[str, int]"}


def loop_artifacts(stage: StageJob) -> Iterator[Artifact]:
    """The Python files of a stage that a loop of its own trains."""
    ids, folder, settings = stage.ids("stage", "loop"), stage.folder, loop_settings(stage)
    yield Artifact(f"{folder}train.py", ids, "loops/train.py.j2", _train_names(stage, settings))
    yield Artifact(f"{folder}settings.py", ids, "loops/settings.py.j2", {"fields": list(map(_field, settings.args))})
    yield Artifact(f"{folder}batches.py", ids, "loops/batches.py.j2", _batch_names(stage))
    yield Artifact(f"{folder}checkpoints.py", ids, *_checkpoints(stage))
    if stage.dispatches:
        yield experts_artifact(stage)
    yield Artifact(f"{folder}preflight.py", ids, "loops/preflight.py.j2", _preflight_names(stage))


def _field(arg: Arg) -> dict[str, Raw]:
    """A value of the settings and its type; what an expression gives is known here."""
    types = {"output_dir": "str", "max_steps": "int", "eval_steps": "float", "save_steps": "float"}
    kind = types.get(arg.name) or _TYPES[type(visible_value(arg.value)).__name__]
    wider = "float" if arg.name in ("num_train_epochs", "warmup_steps", "max_grad_norm", "weight_decay") else kind
    return {"name": Raw(arg.name), "type": fragment(wider, arg.decisions)}


def visible_value(value: Any) -> Any:
    """A value without the decisions behind it."""
    return getattr(value, "value", value)


def _batch_names(stage: StageJob) -> dict[str, Any]:
    return {
        "groups": stage.because(stage.groups_by_length, "sampling"),
        "dispatches": has_experts_file(stage),
        "prefetches": stage.because(bool(stage.value("dataloader_workers")), "dataloader_workers"),
    }


def _checkpoints(stage: StageJob) -> tuple[str, dict[str, Any]]:
    """The template of checkpoints.py and its names: what is saved, by whom."""
    if CODES[stage.loop.name].keeps_states:
        return "loops/engine_checkpoints.py.j2", {
            "stops_early": _stops_early(stage),
            "gathers": _gathers(stage),
            "dispatches": has_experts_file(stage),
            "adapter": stage.because(_has_adapter(stage), "adaptation"),
            "gathered": stage.because("The trained weights" if _has_adapter(stage) else "The weights", "adaptation"),
        }
    name = "model.safetensors" if stage.adapts.trains_all else "adapter_model.safetensors"
    return "loops/checkpoints.py.j2", {
        "weights": stage.because(name, "adaptation"),
        "scales": stage.because(stage.value("precision") == "fp16", "precision"),
        "stops_early": _stops_early(stage),
    }


def _shards(stage: StageJob) -> Any:
    """Whether no rank has whole weights."""
    return stage.because(stage.strategy.shards_weights, "strategy")


def _gathers(stage: StageJob) -> Any:
    """Whether all ranks bring their part of the weights that are saved."""
    asked = ("strategy", *["capacity_factor"] * stage.dispatches)
    return stage.because(stage.strategy.shards_weights or stage.dispatches, *asked)


def _stops_early(stage: StageJob) -> Any:
    return stage.because(bool(stage.value("early_stopping_patience")), "early_stopping_patience")


_SHARED = (
    *("planned", "starts_from", "drops", "cuts", "lost_rows", "speaks", "template_sha256"),
    *(
        "ends_turns",
        "max_dropped",
        "disk_gib",
        "continues",
        "judged",
        "mixes",
        "scripts_before",
        "start_result",
        "judge_result",
        "takes_results",
        "takes_merges",
        "on_gpu",
        "node_gpus",
        "gpu",
        "several_nodes",
    ),
    *("shape", "shape_from", "wraps", "alone", "start_command", "unended", "replays", "replay", "most_off"),
)


def _preflight_names(stage: StageJob) -> dict[str, Any]:
    """Of those of every preflight.py; the loop itself counts evaluations without progress."""
    names = preflight_names(stage)
    return {name: names[name] for name in _SHARED} | {"shards": _shards(stage), "gathers": _gathers(stage)}


def _train_names(stage: StageJob, settings: Call) -> dict[str, Any]:
    code, brought = CODES[stage.loop.name], _brought(stage)
    standard, installed = import_blocks(brought.imports)
    ids = stage.ids("loop", "strategy", "precision")
    own = (Import("rows", "encode"), Import("rows", PREPARED), Import("settings", "Settings"))
    checkpoints = (*_CHECKPOINTS, *["load_weights"] * (not code.keeps_states))
    files = {"preflight": _PREFLIGHT, "batches": _BATCHES, "checkpoints": checkpoints}
    own += tuple(Import(module, name) for module, names in files.items() for name in names)
    own += devices_import(stage)
    own += tuple(Import(MODULE, name, stage.ids("capacity_factor")) for name in USED if stage.dispatches)
    names = plan_names(stage) | {
        "summary": summary(stage),
        "start": start_text(stage.job, f"{stage.folder}train.py"),
        "compiled": compiled(stage.job),
        "path": f"{stage.folder}train.py",
        "standard_imports": standard,
        "installed_imports": installed,
        "own_imports": import_lines((*own, *brought.own_imports)),
        "bundle_root": bundle_root(stage),
        "constants": brought.constants,
        "training_config": settings,
        "functions": brought.functions,
        "before_model": brought.before_trainer,
        "after_saving": brought.after_saving,
        "packs": stage.because(bool(stage.value("packing")), "packing"),
        "in_processes": fragment(_in_processes(settings), stage.ids("examples")),
        "cuts_rows": stage.because(_cuts_rows(stage), "overflow", "packing"),
        "tokenizer": _tokenizer(stage),
        "optimizer": _optimizer(stage),
        "ends_itself": stage.because(bool(stage.eos_token), "eos_token"),
        "decays_late": stage.because(stage.value("schedule") == "warmup-stable-decay", "schedule"),
        "check_rows_of": _check_rows_of(stage),
        "stops_early": _stops_early(stage),
        "drops_out": stage.because(bool(stage.value("lora_dropout")) if _has_adapter(stage) else False, "adaptation"),
        "multiplies_tf32": stage.because(has_tf32(stage), "gpu"),
        "gathers": _gathers(stage),
        "dispatches": has_experts_file(stage),
        "draws_tokens": draws_tokens(stage),
        "loads_shards": stage.because(stage.strategy.shards_weights and not _has_adapter(stage), "strategy"),
        "step_seconds": step_seconds(stage),
        "card": card_path(stage),
        "before_saving": lines(ids, _SERVED) if saved_in_bf16(stage) else (),
        "peak_gib": stage.because(_peak(stage), "gpu").value,
    }
    return names | _code_names(stage, code, ids)


def _code_names(stage: StageJob, code: LoopCode, ids: tuple[str, ...]) -> dict[str, Any]:
    """What the loop has written for it by its own file."""
    scales = stage.value("precision") == "fp16"
    saved = "self.plain_model, self.optimizer, self.schedule" + f", {code.scaler}" * scales
    saved = "self.model" if code.keeps_states else saved
    best = 'self.output_dir / f"checkpoint-{best}"'
    best = f"load_checkpoint({best}, self.model)" if code.keeps_states else f"load_weights({best}, self.plain_model)"
    parts = ("start_ranks", "tokenize", "wrap", "restore", "micro_steps", "backward", "update", "track", "wait")
    parts += ("end", "sum_ranks")
    return {name: lines(ids, *getattr(code, name)(stage)) for name in parts} | {
        "own_scaler": stage.because(scales and code.own_scaler, "precision"),
        "load_states": fragment(_load_states(f"Path(checkpoint), {saved}"), ids),
        "saved_of": fragment(f"{saved}, progress", ids),
        "distributed": fragment(code.distributed(stage), ids),
        "best_of": fragment(best, ids),
        "grad_norm": fragment(code.grad_norm, ids),
        "keeps_log": stage.because(not saves(stage), "save_every", "eval_every"),
        "keeps_states": code.keeps_states,
        "drops_empty": stage.because(code.keeps_states and _has_adapter(stage), "adaptation"),
        "moves": not code.keeps_states,
        "sums": bool(code.sum_ranks(stage)),
        "autocasts": stage.because(code.autocasts and stage.value("precision") != "fp32", "precision"),
        "compute_dtype": fragment(f"torch.{_compute_dtype(stage)}", ids),
    }


def _load_states(given: str) -> str:
    """The call that goes back to a checkpoint, 12 columns in; where that is long, what it is given has its own line."""
    call = f"self.progress = load_checkpoint({given})"
    return call if 12 + columns(call) <= WIDTH else call.replace(given, f"\n{' ' * 16}{given}\n{' ' * 12}")


def _compute_dtype(stage: StageJob) -> str:
    return {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}[stage.value("precision")]


def _has_adapter(stage: StageJob) -> bool:
    return not stage.adapts.trains_all


def _cuts_rows(stage: StageJob) -> bool:
    """Whether rows may be longer than max_length when they come here."""
    return bool(stage.value("overflow") == "truncate" and not stage.value("packing"))


def _in_processes(settings: Call) -> str:
    """What the passes over the rows are told, where several processes share them."""
    named = any(arg.name == "dataset_num_proc" for arg in settings.args)
    return ", num_proc=settings.dataset_num_proc" if named else ""


def _check_rows_of(stage: StageJob) -> Raw:
    given = ["rows", "self.tokenizer", "self.rank == 0", *check_rows_of(stage, 'len(read_rows("train"))')]
    return fragment(", ".join(given), stage.ids(*deciding_rows(stage)))


def _peak(stage: StageJob) -> Raw:
    if stage.on_cpu:
        return Raw("resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20")
    return Raw("torch.accelerator.max_memory_allocated() / 2**30")


def _brought(stage: StageJob) -> Part:
    """What the sides of the stage bring. Of an adapter that is its configuration: the loop puts it into the model."""
    adapters = joined(adaptation_parts(stage))
    return joined(
        (
            _loop_part(stage),
            source_part(stage),
            Part(imports=adapters.imports, functions=adapters.functions),
            _model_part(stage),
            _tracked_part(stage),
            _last_words(stage),
        )
    )


def _last_words(stage: StageJob) -> Part:
    part = peak_part(stage)
    said = [replace_rank(line) for line in part.after_saving]
    return replace(part, after_saving=tuple(said))


def replace_rank(line: Raw) -> Raw:
    """A line that names the rank as a Trainer knows it, as the loop knows it."""
    return Raw(line.replace("trainer.args.process_index", "training.rank"))


def _loop_part(stage: StageJob) -> Part:
    code = CODES[stage.loop.name]
    imports = [Import(name) for name in _STANDARD if name != "os" or _reads_environment(stage)]
    imports += [Import("itertools", "islice"), Import("pathlib", "Path"), Import("torch")]
    waits = stage.strategy.distributed and not code.keeps_states
    imports += [Import("contextlib", "nullcontext", stage.ids("strategy"))] * waits
    imports += [Import("itertools", "chain", stage.ids("packing"))] * bool(stage.value("packing"))
    imports += [Import("resource")] * stage.on_cpu
    imports += [Import("datasets", "Dataset")]
    imports += [Import("transformers", name) for name in ("AutoTokenizer", "PreTrainedModel", "get_scheduler")]
    imports += [Import("transformers", "PreTrainedTokenizerBase")]
    constants = lines(stage.ids("strategy"), *code.constants(stage))
    return Part(imports=(*imports, *code.imports(stage)), constants=constants)


def _reads_environment(stage: StageJob) -> bool:
    return any("os.environ" in line for line in source_part(stage).constants)


def _tracked_part(stage: StageJob) -> Part:
    return Part(functions=(fragment(_TRACKED, stage.ids("tracker")),)) if trackers(stage) else Part()


def _model_part(stage: StageJob) -> Part:
    """`load_model`: the weights, what is trained of them, and which layers are recomputed."""
    ids, auto = stage.ids("model", "adaptation", "precision", "checkpointing"), stage.method.auto_class
    imports = [Import("transformers", auto, ids), *config_import(stage)]
    body = []
    if stage.method.random_weights:
        imports.append(Import("transformers", "AutoConfig", ids))
        body.append(f"shape = {render_call(from_hub(stage, 'AutoConfig', Raw('MODEL')), indent=4)}")
        body.append(
            f"model = {render_call(random_model(stage, weights_dtype(stage), stage.value('attention')), indent=4)}"
        )
        body += ["model = spread_experts(model)"] * stage.dispatches
    else:
        body.append(f"model = {render_call(_loaded(stage), indent=4)}")
    if _has_adapter(stage):
        imports.append(Import("peft", "get_peft_model", ids))
        body.append(_adapted(stage))
    if stage.value("checkpointing"):
        body += _recomputed(stage)
    text = "def load_model() -> PreTrainedModel:\n    " + "\n    ".join([*body, "return model"])
    return Part(imports=tuple(imports), functions=(fragment(text, ids),))


def _adapted(stage: StageJob) -> str:
    """The model with its adapter, in fp32 where nothing keeps fp32 masters of what is trained."""
    if not stage.strategy.keeps_master:
        return "model = get_peft_model(model, lora_config())  # its weights are fp32, whatever the base is"
    same = "autocast_adapter_dtype=False"
    return f"model = get_peft_model(model, lora_config(), {same})  # the engine updates fp32 masters"


def _recomputed(stage: StageJob) -> tuple[str, ...]:
    if not stage.strategy.reenters(stage.adapts):
        return ('model.gradient_checkpointing_enable({"use_reentrant": False})',)
    return (
        'model.gradient_checkpointing_enable({"use_reentrant": True})  # the other kind meets shards of other shapes',
        "model.enable_input_require_grads()  # without it this one passes no gradients on to adapters",
    )


def _loaded(stage: StageJob) -> Call:
    model = stage.job.loaded.recipe.model
    args = [
        Arg("", Raw("MODEL"), stage.ids("model")),
        Arg("dtype", weights_dtype(stage), stage.ids("adaptation", "precision", "strategy")),
        Arg("attn_implementation", stage.value("attention"), stage.ids("attention")),
    ]
    args += loaded_before(stage)
    if revision := pinned_revision(stage):
        args.append(Arg("revision", revision, stage.ids("model")))
    if model.trust_remote_code:
        args.append(Arg("trust_remote_code", True, stage.ids("model")))
    return Call(f"{stage.method.auto_class}.from_pretrained", args)


def _tokenizer(stage: StageJob) -> Call:
    call = from_hub(stage, "AutoTokenizer", Raw("MODEL"))
    call = ending(call, stage) if stage.eos_token else call
    return with_template(call, stage) if sets_template(stage) else call


def _optimizer(stage: StageJob) -> Call:
    ids, sgd = stage.ids("optimizer"), stage.value("optimizer") == "sgd"
    groups = "decayed(self.plain_model, settings)"
    groups = f"expert_groups({groups})" if stage.dispatches else groups
    args = [Arg("", Raw(groups), ids), Arg("lr", Raw("settings.learning_rate"))]
    if not sgd:
        args.append(Arg("betas", Raw("(settings.adam_beta1, settings.adam_beta2)")))
        args.append(Arg("eps", Raw("settings.adam_epsilon")))
        args.append(Arg("fused", True, ids))
    return Call("torch.optim.SGD" if sgd else "torch.optim.AdamW", args)
