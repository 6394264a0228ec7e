"""A 4-bit base that ranks share: quantize.py makes a folder of it once, packed_weights.py lets FSDP shard it.

From the original weights, every rank would quantize all of them on its own GPU, whose memory they do not fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from recipec.axes import BASES
from recipec.backends.adaptations.quantized import adapter_in_fp32
from recipec.backends.job import StageJob
from recipec.backends.models import (
    RECORD,
    bundle_root,
    code,
    from_hub,
    made_folder,
    model_expression,
    start_checks,
    starts_below_root,
    taken_from,
    weights_dtype,
)
from recipec.backends.parts import Import, Part, import_blocks, lines
from recipec.render.artifact import Artifact
from recipec.render.call import Arg, Call
from recipec.render.literals import py
from recipec.render.traced import Raw, fragment

MODULE, SCRIPT = "packed_weights", "quantize.py"
LOADED = "packed_base(config)"  # what the trainer is given in place of a name
PACKED = "base-4bit"  # of the bundle, with the recipe's model; the result of a stage has one beside it
_LOADING = '''\
def packed_base(config: {config}) -> PreTrainedModel:
    """The 4-bit base, mapped from its files: the trainer itself would put all of it onto every GPU."""
    options, config.model_init_kwargs = config.model_init_kwargs, None  # TRL takes them beside a name alone
    return {auto_class}.from_pretrained(PACKED, device_map={{"": "cpu"}}, **options)'''
_SHARDED = "shard_packed_weights(trainer.model, trainer.accelerator.device)"
_NAMED = (
    'trainer.model.peft_config["default"].base_model_name_or_path = MODEL  # the adapter fits it without PACKED, too'
)
_CHECK = """\
record, origin = PACKED / {record}, {origin}
if not record.is_file() or record.read_text(encoding="utf-8") != origin:
    raise SystemExit(f"{{PACKED}} does not have {{MODEL}} in {bits} bits: run {script} first.")"""


def packed_part(stage: StageJob) -> Part:
    """What train.py needs to train on a base whose packed weights are shared."""
    ids, method = stage.ids("quantization", "strategy"), stage.method
    loading = fragment(_LOADING.format(config=method.config, auto_class=method.auto_class), ids)
    bits, script = BASES[stage.adapts.base].bits, f"{stage.folder}{SCRIPT}"
    check = _CHECK.format(record=py(RECORD), origin=_origin(stage), bits=bits, script=script)
    return Part(
        imports=(Import("transformers", method.auto_class, ids), Import("transformers", "PreTrainedModel", ids)),
        own_imports=(Import(MODULE, "shard_packed_weights", ids),),
        constants=(code(stage, f"PACKED = {_packed(stage)}", "quantization", "strategy"),),
        functions=(loading,),
        before_trainer=lines(ids, *check.splitlines()),
        after_trainer=(*adapter_in_fp32(stage), *lines(ids, _NAMED, _SHARDED)),
    )


def packed_artifacts(stage: StageJob) -> Iterator[Artifact]:
    """The script that makes the folder, and what lets FSDP shard its weights; nothing where no rank shares them."""
    if not stage.plan.layout.shares_packed:
        return
    ids = stage.ids("quantization", "strategy")
    yield Artifact(f"{stage.folder}{MODULE}.py", ids, f"trl/{MODULE}.py.j2", {})
    yield Artifact(f"{stage.folder}{SCRIPT}", stage.ids("quantization", "strategy"), "quantize.py.j2", _names(stage))


def quantizing(stage: StageJob) -> Raw:
    """The script that packs the base of a stage, below the bundle; "" where none does."""
    if not stage.plan.layout.shares_packed:
        return Raw("")
    return code(stage, f"{stage.folder}{SCRIPT}", "quantization", "strategy")


def _names(stage: StageJob) -> dict[str, Any]:
    from recipec.backends.adaptations import quantized_base  # which knows this file

    base = quantized_base(stage)
    assert base is not None
    auto, ids = stage.method.auto_class, stage.ids("quantization", "strategy")
    below_root = starts_below_root(stage)
    imports = [Import("os"), Import("shutil"), Import("pathlib", "Path"), Import("torch"), *base.imports(stage)]
    imports += [Import("transformers", auto), Import("transformers", "AutoTokenizer")]
    standard, installed = import_blocks(imports)
    source, *options = from_hub(stage, auto, Raw("MODEL")).args
    how = [
        Arg("dtype", Raw(f"torch.{weights_dtype(stage)}"), stage.ids("precision")),
        Arg("quantization_config", Raw(f"{base.LOADING}()"), ids),
        Arg("device_map", "auto", ids, "all GPUs of this node: one need not hold the whole model"),
    ]
    return {
        "script": f"{stage.folder}train.py",
        "folder": _folder(stage),
        "bits": stage.because(BASES[stage.adapts.base].bits, "quantization"),
        "several_nodes": stage.because(stage.nodes > 1, "world_size"),
        "standard_imports": standard,
        "installed_imports": installed,
        "bundle_root": bundle_root(stage),
        "reads_data_root": below_root,
        "model": model_expression(stage),
        "packed": _packed(stage),
        "record": RECORD,
        "loading": base.loading(stage),
        "folder_checks": start_checks(stage, "MODEL"),
        "origin": _origin(stage),
        "load": Call(f"{auto}.from_pretrained", [source, *how, *options]),
        "tokenizer": from_hub(stage, "AutoTokenizer", Raw("MODEL")),
    }


def _folder(stage: StageJob) -> str:
    """Below the bundle: stages that begin with the recipe's model share it."""
    return f"{stage.start.result}-4bit" if stage.start else PACKED


def _packed(stage: StageJob) -> Raw:
    path = " / ".join(["BUNDLE", *(py(part) for part in _folder(stage).split("/"))])
    return code(stage, path, "quantization", "strategy", "stage")


def _origin(stage: StageJob) -> Raw:
    """What a folder is told from others by, as code: the model and its revision, or which result it is made from."""
    if stage.start:
        return code(stage, 'Path(MODEL, "finished.json").read_text(encoding="utf-8")', "stage")
    if made_folder(stage):
        return code(stage, f'Path(MODEL, {py(RECORD)}).read_text(encoding="utf-8")', "model")
    revised = taken_from(stage) != stage.job.facts.model.name
    return code(stage, py(taken_from(stage)) if revised else "MODEL", "model")
