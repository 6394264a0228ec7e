"""evaluate.py beside each train.py: the same evaluation before and after the stage."""

from __future__ import annotations

from typing import Any

from recipec.backends.adaptations import quantized_base
from recipec.backends.engines.engine import torch_dtype
from recipec.backends.job import StageJob
from recipec.backends.methods import BACKENDS
from recipec.backends.models import (
    MARKED_TEMPLATE,
    bundle_root,
    code,
    ending,
    folder_checks,
    from_hub,
    has_template_file,
    head_options,
    model_expression,
    other_models,
    random_model,
    reads_data_root,
)
from recipec.backends.parts import Import, import_blocks
from recipec.backends.rows import COLUMNS
from recipec.facts.model import is_path
from recipec.render.artifact import Artifact
from recipec.render.call import Arg, Call
from recipec.render.environment import snippet
from recipec.render.traced import Raw

SAMPLES, NEW_TOKENS = 5, 128  # enough to see whether answers changed, few enough to wait for
TOKENS_AT_ONCE = 4_096  # of a batch: with a vocabulary of 150k its logits, twice in 16 bits, take 2.3 GiB
ON_CPU = 1_024  # larger batches leave the processor's cache: 1.2 times slower at 4,096 (9M parameters, 2026-11)

_ALWAYS = (
    *(Import(module) for module in ("argparse", "hashlib", "json", "os", "torch")),
    Import("pathlib", "Path"),
    Import("collections.abc", "Iterator"),
    Import("torch.nn.utils.rnn", "pad_sequence"),
    *(Import("datasets", name) for name in ("Dataset", "load_dataset")),
    *(Import("transformers", name) for name in ("AutoTokenizer", "PreTrainedModel", "PreTrainedTokenizerBase")),
)
_RANDOM = (
    ("transformers", "AutoConfig"),
    ("transformers", "set_seed"),
    ("accelerate", "dispatch_model"),
    ("accelerate", "infer_auto_device_map"),
)


def evaluation_artifact(stage: StageJob) -> Artifact:
    """evaluate.py of one stage: what it began with and its result, by its own held-out rows."""
    return Artifact(_path(stage), stage.ids("data_format", "stage"), "evaluate.py.j2", _names(stage))


def _path(stage: StageJob) -> str:
    return f"{stage.folder}evaluate.py"


def _names(stage: StageJob) -> dict[str, Any]:
    asked = stage.job.loaded.recipe.evaluate
    measure = BACKENDS[stage.name].measure
    standard, installed = import_blocks(_imports(stage))
    return {
        "what": f"stage {stage.name} of {stage.job.name}" if stage.folder else stage.job.name,
        "path": _path(stage),
        "bundle_root": bundle_root(stage),
        "standard_imports": standard,
        "installed_imports": installed,
        "rows_functions": code(stage, ", ".join([*[COLUMNS] * stage.mixes_fields, *measure.reads]), "stage"),
        "typed_rows": stage.because(stage.mixes_fields, "data_format", "reasoning"),
        "reads_data_root": reads_data_root(stage),
        "model_folders": _model_folders(stage),
        "base": model_expression(stage),
        "folder_checks": folder_checks(stage, "BASE"),
        "other_models": other_models(stage),
        "stage": stage.traced("stage"),
        "rows_file": stage.because(f"{_split(stage)}.jsonl", "test_fraction", "has_test_file"),
        "asked_with": _asked_with(stage),
        "adapter": stage.because(not stage.adapts.trains_all, "adaptation"),
        "auto_class": Raw(stage.method.auto_class),
        "adapter_class": Raw(stage.method.adapter_class),
        "random_weights": stage.because(stage.method.random_weights, "stage"),
        "new_head": stage.because(bool(stage.method.new_head), "stage"),
        "writes": stage.because(stage.method.writes, "stage"),
        "seed": stage.traced("seed"),
        "load_shape": from_hub(stage, "AutoConfig", Raw("BASE")),
        "random_model": random_model(stage, _dtype(stage)),
        "max_rows": stage.traced("eval_samples"),
        "max_length": stage.traced("max_length"),
        "samples": asked.samples or SAMPLES,
        "tokens_at_once": stage.because(ON_CPU if stage.on_cpu else TOKENS_AT_ONCE, "gpu"),
        "max_new_tokens": asked.max_new_tokens or NEW_TOKENS,
        "chat_template_file": stage.because(has_template_file(stage), "template"),
        "load_model": _load_model(stage),
        "tokenizer": ending(from_hub(stage, "AutoTokenizer", Raw("source")), stage),
        "routes": stage.because(stage.job.facts.model.architecture.moe is not None, "model"),
        "by_row": stage.because(measure.by_row, "stage"),
        "measure": snippet(measure.template, measure.names(stage), stage.ids("stage")),
    }


def _model_folders(stage: StageJob) -> list[Raw]:
    """The constants that name folders of models, whose files may change under the same name."""
    models = {role.upper(): stage.value(role) for role in stage.method.named_models}
    found = [Raw(constant) for constant, name in models.items() if is_path(name)]
    own = is_path(stage.job.facts.model.name) or stage.plan.stage.starts_from is not None
    return [code(stage, "BASE", "model", "stage")] * own + found


def _imports(stage: StageJob) -> list[Import]:
    method, base = stage.method, quantized_base(stage)
    found = [
        *_ALWAYS,
        *BACKENDS[stage.name].measure.imports,
        Import("transformers", method.auto_class, stage.ids("quantization", "stage")),
    ]
    if not stage.adapts.trains_all:
        found.append(Import("peft", method.adapter_class, stage.ids("adaptation")))
    if base is not None:
        found += base.imports(stage)
    if method.new_head:
        found.append(Import("transformers", "set_seed", stage.ids("stage")))
    if method.random_weights:
        found += [Import(*source, stage.ids("stage")) for source in _RANDOM]
    return found


def _asked_with(stage: StageJob) -> Raw:
    """The files that say what is asked."""
    files = ["ROWS", "Path(__file__)", 'Path(__file__).with_name("rows.py")']
    files += ['BUNDLE / "chat_template.jinja"'] * has_template_file(stage)
    files += [f'BUNDLE / "{MARKED_TEMPLATE}"'] * stage.marks_turns
    return code(stage, f"({', '.join(files)}, *more)", "stage", "template")


def _split(stage: StageJob) -> str:
    """The rows that no decision saw; where there are none, those that chose the checkpoint."""
    return "test" if stage.value("test_fraction") or stage.value("has_test_file") else "eval"


def _load_model(stage: StageJob) -> Call:
    model, base = stage.job.loaded.recipe.model, quantized_base(stage)
    args = [
        Arg("", Raw("source")),
        Arg("dtype", _dtype(stage), stage.ids("precision")),
        Arg("device_map", "auto"),
        Arg("attn_implementation", stage.value("attention"), stage.ids("attention")),
    ]
    args += head_options(stage)
    if base is not None:
        args.append(Arg("quantization_config", base.config(stage), stage.ids("quantization")))
    if model.revision and stage.plan.stage.starts_from is None:
        args.append(Arg("revision", model.revision, stage.ids("model"), "of the base; the trained model is a folder"))
    if model.trust_remote_code:
        args.append(Arg("trust_remote_code", True, stage.ids("model")))
    loader = stage.method.auto_class if stage.adapts.trains_all else "loader"
    return Call(f"{code(stage, loader, 'adaptation')}.from_pretrained", args)


def _dtype(stage: StageJob) -> Raw:
    return Raw(f"torch.{torch_dtype(stage.value('precision'))}")
