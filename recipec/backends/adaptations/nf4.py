"""A frozen base in 4-bit NormalFloat: bitsandbytes."""

from __future__ import annotations

from recipec.backends.engines.engine import torch_dtype
from recipec.backends.job import StageJob
from recipec.backends.parts import Import, Part, lines, returning
from recipec.render.call import Arg, Call
from recipec.render.traced import Raw

_CONFIG = "BitsAndBytesConfig"
LOADING = "nf4_config"  # the function of train.py and evaluate.py that says how
# TRL 1.16 casts it to bf16. Of its weights 97.8 % never moved in 12 steps at a rate of 1e-5; in fp32 all did.
_FP32_ADAPTER = """\
for parameter in trainer.model.parameters():  # TRL makes the adapter bf16, where small steps round to nothing
    if parameter.requires_grad:
        parameter.data = parameter.data.float()"""


def part(stage: StageJob) -> Part:
    """The base that the trainer loads in 4 bits."""
    ids = stage.ids("quantization")
    return Part(
        imports=(*imports(stage), Import("torch", "", ids)),
        functions=(loading(stage),),
        arguments=(Arg("quantization_config", Raw(f"{LOADING}()"), ids),),
        after_trainer=_adapter_in_fp32(stage),
    )


def _adapter_in_fp32(stage: StageJob) -> tuple[Raw, ...]:
    """Where no engine keeps an fp32 master of the adapter, the adapter is one itself."""
    if stage.strategy.keeps_master:
        return ()
    return lines(stage.ids("quantization", "strategy"), *_FP32_ADAPTER.splitlines())


def imports(stage: StageJob) -> tuple[Import, ...]:
    """What `config` needs."""
    return (Import("transformers", _CONFIG, stage.ids("quantization")),)


def loading(stage: StageJob) -> Raw:
    """The function that says how transformers loads the base, to train it and to evaluate it."""
    return returning(LOADING, _CONFIG, _config(stage), stage.ids("quantization"))


def _config(stage: StageJob) -> Call:
    compute = Raw(f"torch.{torch_dtype(stage.value('precision'))}")
    return Call(
        _CONFIG,
        [
            stage.arg("load_in_4bit", "quantization", True),
            stage.arg("bnb_4bit_quant_type", "quantization", stage.adapts.base),
            stage.arg("bnb_4bit_use_double_quant", "double_quantization"),
            Arg("bnb_4bit_compute_dtype", compute, stage.ids("precision")),
        ],
    )
