"""A frozen base in 4-bit NormalFloat: bitsandbytes."""

from __future__ import annotations

from recipec.backends.adaptations.packed import packed_part
from recipec.backends.adaptations.quantized import CONFIG, IN_TRAINING, base_part, loading_function
from recipec.backends.engines.engine import torch_dtype
from recipec.backends.job import StageJob
from recipec.backends.parts import Import, Part
from recipec.render.call import Arg
from recipec.render.traced import Raw

LOADING = "nf4_config"  # the function of train.py and evaluate.py that says how


def part(stage: StageJob) -> Part:
    """The base that the trainer loads in 4 bits."""
    if stage.plan.layout.shares_packed:
        return packed_part(stage)
    return base_part(stage, loading(stage, *IN_TRAINING), LOADING, Import("torch", "", stage.ids(*IN_TRAINING)))


def imports(stage: StageJob) -> tuple[Import, ...]:
    """What `loading` needs, beside torch."""
    return (Import("transformers", CONFIG, stage.ids("quantization")),)


def loading(stage: StageJob, *also: str) -> Raw:
    """The function that says how transformers loads the base; `also`: decisions that bring it."""
    compute = Raw(f"torch.{torch_dtype(stage.value('precision'))}")
    return loading_function(
        stage,
        LOADING,
        stage.arg("load_in_4bit", "quantization", True),
        stage.arg("bnb_4bit_quant_type", "quantization", stage.adapts.base),
        stage.arg("bnb_4bit_use_double_quant", "double_quantization"),
        Arg("bnb_4bit_compute_dtype", compute, stage.ids("precision")),
        also=also,
    )
