"""merge_adapter.py of a stage: one model of an adapter and its base."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from recipec.axes import BASES
from recipec.backends.adaptations import quantized_base
from recipec.backends.dequantized import config_import, dequantized, loaded_before, own_names
from recipec.backends.engines.engine import torch_dtype
from recipec.backends.job import StageJob
from recipec.backends.models import (
    bundle_root,
    code,
    from_hub,
    model_expression,
    start_checks,
    starts_below_root,
    weights_dtype,
)
from recipec.backends.parts import Import, import_blocks
from recipec.backends.score_head import head_options
from recipec.render.artifact import Artifact
from recipec.render.call import Arg, Call
from recipec.render.traced import Raw, Traced

_OTHERWISE = {  # what helps where a merge is rounded away, by whether another stage loads it
    False: "Serve the adapter on its base, or train it with a higher learning rate.",
    True: "The next stage loads what is left: train this stage longer, or with a higher learning rate.",
}


def merge_artifact(stage: StageJob) -> Artifact:
    """merge_adapter.py: the next stage needs it, and whoever wants one model that loads without PEFT."""
    path = f"{stage.folder}merge_adapter.py"
    dtype = code(stage, weights_dtype(stage), "precision")
    folder = [Arg("", Raw("OUTPUT"))]
    if stage.job.loaded.recipe.model.trust_remote_code:
        folder.append(Arg("trust_remote_code", True, stage.ids("model")))
    standard, installed = import_blocks(_imports(stage))
    base = _stored_base(stage)
    names = {
        "stage": stage.named,
        "merged_into": merged_into(stage),
        "as_stored": stage.because(base is not None, "quantization"),
        "stored_again": stage.because(stage.stored_again, "quantization", "stage"),
        "standard_imports": standard,
        "installed_imports": installed,
        "functions": [base.loading(stage)] if base else [],
        "bits": stage.because(BASES[stage.adapts.base].bits, "quantization"),
        "rounds": stage.because(weights_dtype(stage) != torch_dtype("fp32"), "precision"),
        "otherwise": stage.because(_OTHERWISE[stage.merges], "stage"),
        "is_last": stage.because(not stage.merges, "stage"),
        "judges": stage.because(stage.judges, "stage"),
        "path": path,
        "dtype": dtype,
        "reads_data_root": starts_below_root(stage),
        "base": model_expression(stage),
        "folder_checks": start_checks(stage, "BASE"),
        "load_names": _load_names(stage, folder[1:]),
        "load_base": _load_base(stage, dtype),
        "own_names": own_names(stage, "merged") if dequantized(stage) else (),
        "load_tokenizer": Call("AutoTokenizer.from_pretrained", folder),
        "writes": stage.because(stage.method.writes, "stage"),
        "ends_elsewhere": stage.because(bool(stage.eos_token), "eos_token"),
        "bundle_root": bundle_root(stage),
    }
    return Artifact(path, stage.ids("adaptation", "stage"), "trl/merge_adapter.py.j2", names)


def merged_into(stage: StageJob) -> Traced:
    """The weights that an adapter is added to, as the merged model's record has them: others need another merge."""
    bits, dtype = BASES[stage.adapts.base].bits, weights_dtype(stage)
    stored, again = f"the base dequantized from {bits} bits", "the unquantized base"
    base = "the base" if not stage.adapts.quantized else again if stage.stored_again else stored
    return stage.because(f"{base}, in {dtype}", "quantization", "precision", "stage")


def _load_base(stage: StageJob, dtype: Raw) -> Call:
    """The base as evaluate.py loads it, not from where adapter_config.json says that it was in training."""
    source, *options = from_hub(stage, stage.method.auto_class, Raw("BASE")).args
    how = [Arg("dtype", Raw(f"torch.{dtype}")), *head_options(stage), *_as_stored(stage), *loaded_before(stage)]
    return Call(f"{stage.method.auto_class}.from_pretrained", [source, *how, *options])


def _load_names(stage: StageJob, trusted: list[Arg]) -> Call:
    """The merged model without values: what of it was found under the names that load."""
    found = [Arg("device_map", "meta", (), "without values"), Arg("output_loading_info", True)]
    return Call(f"{stage.method.auto_class}.from_pretrained", [Arg("", Raw("MERGED")), *found, *trusted])


def _stored_base(stage: StageJob) -> ModuleType | None:
    """The file of a quantized base: the adapter is merged into the weights that it was trained on.

    None where the base is as it is, or the next stage would round the merged weights back to those of the base.
    """
    return None if stage.stored_again else quantized_base(stage)


def _as_stored(stage: StageJob) -> list[Arg]:
    """How such a base is loaded, in host memory as any other."""
    base = _stored_base(stage)
    if base is None:
        return []
    ids = stage.ids("quantization")
    how = Arg("quantization_config", Raw(f"{base.LOADING}()"), ids)
    return [how, Arg("device_map", {"": "cpu"}, ids, "16 bits of it may find no room on the GPU")]


def _imports(stage: StageJob) -> Iterator[Import]:
    base = _stored_base(stage)
    yield from (Import("json"), Import("os"), Import("pathlib", "Path"), Import("torch"))
    if weights_dtype(stage) != torch_dtype("fp32"):
        yield from (Import("copy", "deepcopy"), Import("peft.tuners.tuners_utils", "BaseTunerLayer"))
    yield Import("peft", "PeftModel", stage.ids("adaptation"))
    yield Import("transformers", stage.method.auto_class, stage.ids("stage"))
    yield Import("transformers", "AutoTokenizer")
    yield from base.imports(stage) if base else ()
    yield from config_import(stage)
    if stage.eos_token:
        yield Import("transformers.trainer_utils", "align_special_tokens", stage.ids("eos_token"))
