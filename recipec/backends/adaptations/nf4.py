"""A frozen base in 4-bit NormalFloat: bitsandbytes."""

from __future__ import annotations

from recipec.backends.engines.engine import torch_dtype
from recipec.backends.job import StageJob
from recipec.backends.parts import Import, Part, lines, returning
from recipec.render.call import Arg, Call
from recipec.render.traced import Raw

_CONFIG = "BitsAndBytesConfig"
_KEEP_BF16 = """\
# a resumed run keeps the adapter's bf16: PEFT would load a checkpoint as fp32, beside bf16 optimizer states
trainer.model.load_adapter = partial(trainer.model.load_adapter, autocast_adapter_dtype=False)"""


def part(stage: StageJob) -> Part:
    """The base that the trainer loads in 4 bits."""
    ids = stage.ids("quantization")
    return Part(
        imports=(*imports(stage), Import("torch", "", ids), Import("functools", "partial", ids)),
        functions=(returning("nf4_config", _CONFIG, config(stage), ids),),
        arguments=(Arg("quantization_config", Raw("nf4_config()"), ids),),
        before_training=lines(ids, *_KEEP_BF16.splitlines()),
    )


def imports(stage: StageJob) -> tuple[Import, ...]:
    """What `config` needs."""
    return (Import("transformers", _CONFIG, stage.ids("quantization")),)


def config(stage: StageJob) -> Call:
    """How transformers loads the base, to train it and to evaluate it."""
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
