"""evaluate.py: the same evaluation before and after training."""

from __future__ import annotations

from typing import Any

from recipec.backends.imports import import_line
from recipec.backends.job import Job, StageJob
from recipec.backends.models import base_model, code, from_hub, random_model
from recipec.backends.preparation import is_chat, masks, uses_template_file
from recipec.backends.training import nf4_config
from recipec.facts.model import is_path
from recipec.render.artifact import Artifact
from recipec.render.call import Arg, Call
from recipec.render.traced import Raw

SAMPLES, NEW_TOKENS = 5, 128  # enough to see whether answers changed, few enough to wait for

_IMPORTS = ["AutoModelForCausalLM", "AutoTokenizer", "PreTrainedModel", "PreTrainedTokenizerBase"]


def evaluation_artifacts(job: Job) -> list[Artifact]:
    """evaluate.py."""
    return [Artifact("evaluate.py", job.last.ids("data_format", "stage"), "evaluate.py.j2", _names(job))]


def _names(job: Job) -> dict[str, Any]:
    stage, asked = job.last, job.loaded.recipe.evaluate
    pairs = stage.shape.format != "text" and not masks(stage)
    return {
        "name": job.name,
        "local_model": is_path(job.facts.model.name),
        "base": base_model(job.stages[0]),
        "stage": stage.traced("stage"),
        "rows_file": stage.because(f"{_split(stage)}.jsonl", "test_fraction", "has_test_file"),
        "lora": stage.because(stage.lora, "adaptation"),
        "transformers_imports": code(stage, import_line("transformers", _imports(stage)), "quantization", "stage"),
        "random_weights": stage.because(stage.method.random_weights, "stage"),
        "seed": stage.traced("seed"),
        "load_shape": from_hub(stage, "AutoConfig", Raw("BASE")),
        "random_model": random_model(stage, _dtype(stage)),
        "max_rows": stage.traced("eval_samples"),
        "max_length": stage.traced("max_length"),
        "samples": asked.samples or SAMPLES,
        "max_new_tokens": asked.max_new_tokens or NEW_TOKENS,
        "chat_template_file": stage.because(uses_template_file(job), "template"),
        "load_model": _load_model(job),
        "tokenizer": from_hub(stage, "AutoTokenizer", Raw("source")),
        "preference": stage.because(stage.method.preference, "stage"),
        "answer_column": "chosen" if stage.method.preference else "completion",
        "format_text": stage.because(stage.shape.format == "text", "data_format"),
        "format_chat": stage.because(masks(stage), "data_format", "loss_on"),
        "chat_pairs": stage.because(pairs and is_chat(stage), "data_format"),
        "plain_pairs": stage.because(pairs and not is_chat(stage), "data_format"),
        "adds_special_tokens": not is_chat(stage),
    }


def _imports(stage: StageJob) -> list[str]:
    names = _IMPORTS + ["BitsAndBytesConfig"] * stage.nf4
    return names + ["AutoConfig", "set_seed"] * stage.method.random_weights


def _split(stage: StageJob) -> str:
    """The rows that no decision saw; where there are none, those that chose the checkpoint."""
    return "test" if stage.value("test_fraction") or stage.value("has_test_file") else "eval"


def _load_model(job: Job) -> Call:
    stage, model = job.last, job.loaded.recipe.model
    args = [
        Arg("", Raw("source")),
        Arg("dtype", _dtype(stage), stage.ids("precision")),
        Arg("device_map", "auto"),
        Arg("attn_implementation", stage.value("attention"), stage.ids("attention")),
    ]
    if stage.nf4:
        args.append(Arg("quantization_config", nf4_config(stage), stage.ids("quantization")))
    if model.revision:
        args.append(Arg("revision", model.revision, stage.ids("model"), "of the base; the trained model is a folder"))
    if model.trust_remote_code:
        args.append(Arg("trust_remote_code", True, stage.ids("model")))
    loader = code(stage, "loader" if stage.lora else "AutoModelForCausalLM", "adaptation")
    return Call(f"{loader}.from_pretrained", args)


def _dtype(stage: StageJob) -> Raw:
    dtypes = {"bf16": "torch.bfloat16", "fp16": "torch.float16", "fp32": "torch.float32"}
    return Raw(dtypes[stage.value("precision")])
