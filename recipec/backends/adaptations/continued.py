"""An adapter that is there already and is trained on: train.py loads it with its base, and makes none."""

from __future__ import annotations

from recipec.backends.job import StageJob
from recipec.backends.models import below_root
from recipec.backends.parts import Import, Part
from recipec.render.traced import Raw, fragment

_LOADED = '''\
def continued(config: {config}) -> PeftModel:
    """The base with the adapter that training goes on with, whose file has its rank, alpha, targets and dropout."""
    options, config.model_init_kwargs = config.model_init_kwargs, None  # TRL takes them beside a name alone
    base = {auto_class}.from_pretrained(MODEL, {quantized}**options)
    return PeftModel.from_pretrained(base, ADAPTER, is_trainable=True)'''


def part(stage: StageJob, loading: str = "") -> Part:
    """What loads the adapter; the trainer is given the model. `loading` names the function that quantizes the base."""
    ids, method = stage.ids("init_from", "quantization"), stage.method
    quantized = f"quantization_config={loading}(), " * bool(loading)
    names = {"config": method.config, "auto_class": method.auto_class, "quantized": quantized}
    function = fragment(_LOADED.format(**names), ids)
    imported = (Import("peft", "PeftModel", ids), Import("transformers", method.auto_class, ids))
    return Part(imports=imported, functions=(function,))


def source_part(stage: StageJob) -> Part:
    """The constant that says where the adapter is: a digest of it tells the run from others."""
    if not stage.init_from:
        return Part()
    return Part(constants=(Raw(f"ADAPTER = {below_root(stage, 'init_from', stage.init_from)}"),))
