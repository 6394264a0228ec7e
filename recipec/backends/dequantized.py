"""A model whose experts the Hub has in MXFP4, 4 bits each: every script loads it dequantized, as only so it trains.

transformers 5.23 keeps the 4 bits by itself where the package `kernels` is installed (quantizers/quantizer_mxfp4.py):
no trainer takes these weights, and no adapter fits them.
"""

from __future__ import annotations

from recipec.backends.job import StageJob
from recipec.backends.models import code, in_mxfp4, made_folder
from recipec.backends.parts import Import, Part, lines
from recipec.render.call import Arg
from recipec.render.traced import Raw

_KEY, CONFIG = "quantization_config", "Mxfp4Config"
_LOADED = f"{CONFIG}(dequantize=True)"
_WHY = "beside the package kernels, the experts would stay in 4 bits, which cannot be trained"
_SAVED = """\
# transformers 5.23 would save the experts, which it has dequantized, under the names of their 4-bit values
{}._weight_conversions = None"""


def dequantized(stage: StageJob) -> bool:
    """Whether the stage itself reads files with experts in 4 bits."""
    reads = stage.plan.stage.starts_from is None and not made_folder(stage)
    return reads and not stage.method.random_weights and in_mxfp4(stage)


def loaded_before(stage: StageJob) -> list[Arg]:
    """The argument of `from_pretrained` that dequantizes what a stage begins with; none where nothing is in 4 bits."""
    return _argument(stage) if dequantized(stage) else []


def loaded_whole(stage: StageJob) -> list[Arg]:
    """The same for vocabulary.py, which reads the Hub's model for all stages."""
    return _argument(stage) if in_mxfp4(stage) else []


def _argument(stage: StageJob) -> list[Arg]:
    return [Arg(_KEY, code(stage, _LOADED, "model"), (), _WHY)]


def loaded_when(stage: StageJob) -> list[Arg]:
    """The same for evaluate.py, which also loads results: these are not in 4 bits."""
    if not dequantized(stage):
        return []
    when = ' if when == "before" else None' if stage.adapts.trains_all else ' if when != "merged" else None'
    else_none = when * (stage.adapts.trains_all or stage.adapts.merges)
    return [Arg(_KEY, Raw(f"{_LOADED}{else_none}"), stage.ids("model", "adaptation"))]


def config_import(stage: StageJob) -> list[Import]:
    """What a script needs for either."""
    return [Import("transformers", CONFIG, stage.ids("model"))] if dequantized(stage) else []


def own_names(stage: StageJob, model: str) -> tuple[Raw, ...]:
    """The lines that have the recipe's model, called so in a script, saved by the names that its class loads."""
    return lines(stage.ids("model"), *_SAVED.format(model).splitlines()) if in_mxfp4(stage) else ()


def dequantized_part(stage: StageJob) -> Part:
    """What train.py needs to load the weights, and to save all of them; an adapter has names of its own."""
    saves = stage.adapts.trains_all and dequantized(stage)
    return Part(imports=tuple(config_import(stage)), before_training=own_names(stage, "trainer.model") if saves else ())
