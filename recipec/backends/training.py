"""train.py and its companions for one stage."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from recipec import __version__
from recipec.backends.arguments import has_template_file, training_config, weights_dtype
from recipec.backends.imports import import_line
from recipec.backends.job import StageJob
from recipec.backends.machine import output_gib
from recipec.backends.models import RANDOM_MODEL_IMPORTS, code, from_hub, model_expression, random_model_names
from recipec.catalog.model_types import MODEL_TYPES
from recipec.facts.model import is_path
from recipec.render.artifact import Artifact
from recipec.render.call import Arg, Call
from recipec.render.traced import Raw

GIB = 2**30


def training_artifacts(stage: StageJob) -> list[Artifact]:
    """The Python files of one stage."""
    names = _train_names(stage)
    files = [
        Artifact(f"{stage.folder}train.py", stage.ids("stage"), "trl/train.py.j2", names),
        Artifact(f"{stage.folder}preflight.py", stage.ids("stage"), "trl/preflight.py.j2", _preflight_names(stage)),
    ]
    if stage.lora:
        files.append(_merge_artifact(stage))
    return files


def _merge_artifact(stage: StageJob) -> Artifact:
    """merge_adapter.py: the next stage needs it, and whoever wants one model that loads without PEFT."""
    names = {
        "stage": stage.traced("stage"),
        "is_last": stage.because(not stage.merges, "stage"),
        "path": f"{stage.folder}merge_adapter.py",
        "dtype": code(stage, weights_dtype(stage), "precision"),
        "remote_code": stage.because(bool(stage.job.loaded.recipe.model.trust_remote_code), "model"),
        "bundle_root": bundle_root(stage),
    }
    path = f"{stage.folder}merge_adapter.py"
    return Artifact(path, stage.ids("adaptation", "stage"), "trl/merge_adapter.py.j2", names)


def _train_names(stage: StageJob) -> dict[str, Any]:
    job, method = stage.job, stage.method
    early = stage.value("early_stopping_patience")
    return {
        "summary": stage.because(summary(stage), "adaptation", "quantization", "examples", "model", "stage"),
        "launcher": "launch/local.sh",
        "version": __version__,
        "recipe_file": job.loaded.path.name,
        "path": f"{stage.folder}train.py",
        **random_model_names(stage),
        "cpu_only": stage.because(stage.on_cpu, "gpu"),
        "distributed": stage.because(bool(stage.sharder.config), "strategy"),
        "imports_torch": stage.because(stage.nf4 or not stage.on_cpu, "quantization", "gpu"),
        "reads_environment": is_path(job.facts.model.name) and stage.plan.stage.starts_from is None,
        "lora": stage.because(stage.lora, "adaptation"),
        "nf4": stage.because(stage.nf4, "quantization"),
        "fsdp": stage.because(stage.sharder.gathers_on_save, "strategy"),
        "keeps_names": stage.because(_keeps_names(stage), "model", "adaptation", "strategy"),
        "transformers_imports": code(
            stage,
            import_line("transformers", _transformers_imports(stage)),
            *("early_stopping_patience", "quantization", "template", "model"),
        ),
        "config_class": Raw(method.config),
        "trainer_class": Raw(method.trainer),
        "bundle_root": bundle_root(stage),
        "model": model_expression(stage),
        "stage": stage.traced("stage"),
        "plan_digest": f"{job.plan_digest}-{stage.name}",
        "predicted_peak_gib": stage.because(round(stage.plan.memory.peak_allocated_bytes / GIB, 1), "prediction"),
        "eval_rows": stage.traced("eval_samples"),
        "max_steps": stage.traced("max_steps"),
        "training_config": training_config(stage),
        "lora_config": lora_config(stage) if stage.lora else None,
        "nf4_config": nf4_config(stage) if stage.nf4 else None,
        "trainer": _trainer(stage, early),
    }


def summary(stage: StageJob) -> str:
    """One sentence: what is trained, how, on how many rows."""
    how = stage.plan.layout.adapts.summary
    before, model = stage.plan.stage.starts_from, stage.job.facts.model.name
    start = f"the result of {before}" if before else model
    start = f"{model} from random weights" if stage.method.random_weights else start
    return (
        f"{stage.method.title.capitalize()} of {start} for {stage.job.name}: {how}, {stage.value('examples'):,} rows."
    )


def _keeps_names(stage: StageJob) -> bool:
    """Whether a checkpoint of transformers would have other parameter names than the trainer loads it by.

    Under DDP and on one device Trainer 5.23 loads with `strict=False` and without the renaming of `from_pretrained`.
    """
    renamed = MODEL_TYPES[stage.job.facts.model.architecture.model_type].renamed_on_save
    return renamed and not stage.lora and stage.plan.layout.strategy in ("single", "ddp")


def bundle_root(stage: StageJob) -> Raw:
    """The bundle's folder, seen from the stage's scripts."""
    return Raw("parents[2]" if stage.folder else "parent")


def _transformers_imports(stage: StageJob) -> list[str]:
    names = ["EarlyStoppingCallback"]
    if needs_tokenizer(stage):
        names.append("AutoTokenizer")
    if stage.nf4:
        names.append("BitsAndBytesConfig")
    if stage.method.random_weights:
        names += RANDOM_MODEL_IMPORTS
    return names


def needs_tokenizer(stage: StageJob) -> bool:
    """Whether train.py loads the tokenizer itself; otherwise the trainer takes the model's."""
    if stage.plan.stage.starts_from is not None:
        return False
    model = stage.job.loaded.recipe.model
    pinned = bool(model.revision) or bool(model.trust_remote_code)
    return stage.method.random_weights or _brings_template(stage) or pinned


def _trainer(stage: StageJob, patience: int) -> Call:
    random = stage.method.random_weights
    args = [
        Arg("model", Raw("random_model(config)" if random else "MODEL"), stage.ids("model")),
        Arg("args", Raw("config" if random else "training_config(args)")),
        Arg("train_dataset", Raw('rows["train"]')),
        Arg("eval_dataset", Raw('rows["eval"].select(range(min(EVAL_ROWS, len(rows["eval"]))))')),
    ]
    if needs_tokenizer(stage):
        args.append(Arg("processing_class", _tokenizer(stage), stage.ids("template", "model")))
    if stage.lora:
        args.append(Arg("peft_config", Raw("lora_config()"), stage.ids("adaptation")))
    if stage.nf4:
        args.append(Arg("quantization_config", Raw("nf4_config()"), stage.ids("quantization")))
    stop = Call("EarlyStoppingCallback", [Arg("early_stopping_patience", patience)])
    args.append(Arg("callbacks", [stop], stage.ids("early_stopping_patience")))
    return Call(stage.method.trainer, args)


def _tokenizer(stage: StageJob) -> Call:
    """The model's tokenizer; preference trainers have no argument for a chat template, so it carries the bundle's."""
    call = from_hub(stage, "AutoTokenizer", Raw("MODEL"))
    if not _brings_template(stage):
        return call
    template = Raw('(BUNDLE / "chat_template.jinja").read_text()')
    return replace(call, args=[*call.args, Arg("chat_template", template, stage.ids("template"))])


def _brings_template(stage: StageJob) -> bool:
    return has_template_file(stage) and stage.method.preference


def lora_config(stage: StageJob) -> Call:
    """The adapters of LoRA and QLoRA."""
    targets, revision = stage.value("lora_targets"), stage.job.loaded.recipe.model.revision
    pinned = [Arg("revision", revision, stage.ids("model"), "of the base: evaluate.py and merge_adapter.py load it")]
    return Call(
        "LoraConfig",
        [
            stage.arg("r", "lora_rank"),
            stage.arg("lora_alpha", "lora_alpha"),
            stage.arg("lora_dropout", "lora_dropout"),
            stage.arg("target_modules", "lora_targets", targets if isinstance(targets, str) else list(targets)),
            Arg("bias", "none", stage.ids("adaptation")),
            Arg("task_type", "CAUSAL_LM", stage.ids("adaptation")),
            *(pinned if revision and stage.plan.stage.starts_from is None else []),
        ],
    )


def nf4_config(stage: StageJob) -> Call:
    """The 4-bit base of QLoRA."""
    dtype = {"bf16": "torch.bfloat16", "fp16": "torch.float16", "fp32": "torch.float32"}[stage.value("precision")]
    return Call(
        "BitsAndBytesConfig",
        [
            stage.arg("load_in_4bit", "quantization", True),
            stage.arg("bnb_4bit_quant_type", "quantization", "nf4"),
            stage.arg("bnb_4bit_use_double_quant", "double_quantization"),
            Arg("bnb_4bit_compute_dtype", Raw(dtype), stage.ids("precision")),
        ],
    )


def _preflight_names(stage: StageJob) -> dict[str, Any]:
    tries_longest = stage.value("sampling") == "random" and not stage.value("packing")
    planned = {
        "distributed": stage.traced("strategy", stage.sharder.fact),
        "world_size": stage.traced("world_size"),
        "global_batch_size": stage.because(
            stage.plan.layout.global_batch, "global_batch_size", "gradient_accumulation"
        ),
        "shards_parameters": stage.traced("strategy", stage.sharder.shards_parameters),
    }
    return {
        "planned": planned,
        "max_dropped": stage.traced("dropped_rows_limit"),
        "disk_gib": stage.because(output_gib(stage), "prediction", "keep_checkpoints"),
        "preference": stage.because(stage.method.preference, "stage"),
        "on_gpu": stage.because(not stage.on_cpu, "gpu"),
        "imports_torch": stage.because(not stage.on_cpu, "gpu"),
        "tries_longest": stage.because(tries_longest, "sampling"),
        "deepspeed": stage.because(bool(stage.sharder.deepspeed), "strategy"),
        "checks_stop_token": stage.because(stage.shape.format != "text", "loss_on"),
        "fsdp": stage.because(stage.sharder.gathers_on_save, "strategy"),
    }
