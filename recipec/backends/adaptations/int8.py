"""A frozen base in 8 bits: bitsandbytes' LLM.int8()."""

from __future__ import annotations

from recipec.backends.adaptations.quantized import CONFIG, base_part, loading_function
from recipec.backends.job import StageJob
from recipec.backends.parts import Import, Part
from recipec.render.call import Arg
from recipec.render.traced import Raw

LOADING = "int8_config"  # the function of train.py, evaluate.py and merge_adapter.py that says how
# transformers 5.23: the default; LLM.int8() (arXiv 2208.07339, section 3.2). Inputs are cast to fp16; those beyond its
# range are outliers and multiplied in the compute type (run: one of 2e5 in bf16, the result is 0.2% off).
OUTLIERS = 6.0
# bitsandbytes 0.50.2: `logger.warning` in each product whose input is not fp16, some hundred times a step.
_QUIET = 'logging.getLogger("bitsandbytes.autograd._functions").setLevel(logging.ERROR)  # it warns in every product'


def part(stage: StageJob) -> Part:
    """The base that the trainer loads in 8 bits."""
    logging = Import("logging", "", stage.ids("quantization"))
    return base_part(stage, loading(stage), LOADING, logging)


def imports(stage: StageJob) -> tuple[Import, ...]:
    """What `loading` needs."""
    ids = stage.ids("quantization")
    return Import("transformers", CONFIG, ids), Import("logging", "", ids)


def loading(stage: StageJob) -> Raw:
    """The function that says how transformers loads the base."""
    threshold = Arg(
        "llm_int8_threshold", OUTLIERS, stage.ids("quantization"), "larger inputs are multiplied in 16 bits"
    )
    bits = stage.arg("load_in_8bit", "quantization", True)
    return loading_function(stage, LOADING, bits, threshold, first=_QUIET)
