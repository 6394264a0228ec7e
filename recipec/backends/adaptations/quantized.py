"""A frozen base that bitsandbytes stores in fewer bits: what does not depend on how many."""

from __future__ import annotations

from msgspec.structs import replace

from recipec.backends.job import StageJob
from recipec.backends.parts import Import, Part, lines, returning
from recipec.render.call import Arg, Call
from recipec.render.traced import Raw

CONFIG = "BitsAndBytesConfig"
IN_TRAINING = ("quantization", "strategy")  # decide whether train.py packs the base, or finds it packed
# TRL 1.16 casts it to bf16. Of its weights 97.8 % never moved in 12 steps at a rate of 1e-5; in fp32 all did.
_FP32_ADAPTER = """\
for parameter in trainer.model.parameters():  # TRL makes the adapter bf16, where small steps round to nothing
    if parameter.requires_grad:
        parameter.data = parameter.data.float()"""


def base_part(stage: StageJob, loading: Raw, function: str, *imports: Import) -> Part:
    """The base that is loaded as `loading` says: the text of a `function` of train.py without arguments."""
    how = Arg("quantization_config", Raw(f"{function}()"), stage.ids(*IN_TRAINING))
    return Part(
        imports=(Import("transformers", CONFIG, stage.ids(*IN_TRAINING)), *imports),
        functions=(loading,),
        arguments=() if stage.init_from else (how,),  # the trainer loads no model that goes on
        after_trainer=adapter_in_fp32(stage),
    )


def loading_function(stage: StageJob, function: str, *args: Arg, first: str = "", also: tuple[str, ...] = ()) -> Raw:
    """The function that says how transformers loads the base: to train it, to evaluate it and to merge into it.

    `also`: decisions that bring the function, beside those behind its lines.
    """
    credited = [replace(arg, decisions=(*arg.decisions, *stage.ids(*also))) for arg in args]
    return returning(function, CONFIG, Call(CONFIG, credited), stage.ids("quantization", *also), first)


def adapter_in_fp32(stage: StageJob) -> tuple[Raw, ...]:
    """Where no engine keeps an fp32 master of the adapter, the adapter is one itself."""
    if stage.strategy.keeps_master:
        return ()
    return lines(stage.ids("quantization", "strategy"), *_FP32_ADAPTER.splitlines())
