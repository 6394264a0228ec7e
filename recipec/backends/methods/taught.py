"""What methods share that learn from a teacher: how it is loaded, and the check that it knows the student's tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from recipec.axes.models import TEACHER
from recipec.backends.engines.engine import torch_dtype
from recipec.backends.job import StageJob
from recipec.backends.models import from_hub, padded_attention, placed, teacher_from_hub
from recipec.backends.parts import Import, Part
from recipec.render.call import Arg, Call, render_call
from recipec.render.traced import Raw, fragment

CHECK = "check_tokenizers"


def teacher_part(stage: StageJob) -> Part:
    """The teacher, and the check that it knows the student's tokens."""
    own, named = stage.own_args(of_trainer=True), stage.ids(TEACHER)
    student = from_hub(stage, "AutoTokenizer", Raw("MODEL"))
    check = Call(CHECK, [Arg("", student), Arg("", teacher_from_hub(stage, "AutoTokenizer"))])
    return Part(
        imports=(Import("transformers", "AutoTokenizer", named),),
        own_imports=(Import("rows", CHECK, named),),
        before_trainer=(fragment(render_call(check, indent=4), named),),
        arguments=(Arg("teacher", Raw(TEACHER.upper()), named), Arg("teacher_options", _options(stage), named), *own),
    )


def _options(stage: StageJob) -> dict[str, Any]:
    """How the teacher is loaded: in the type that is computed in, with the student's attention."""
    options = {
        "dtype": stage.traced("precision", torch_dtype(stage.value("precision"))),
        "attn_implementation": stage.traced("attention"),
    }
    revision = stage.value(f"{TEACHER}_revision")
    return options | ({"revision": stage.traced(f"{TEACHER}_revision")} if revision else {})


def sides(stage: StageJob) -> Mapping[str, Any]:
    """What the trainer has to know of the sides of its stage."""
    sharded = stage.strategy.shards_weights and stage.engine.shards_what_it_loads
    return {
        "shards_teacher": stage.because(sharded, "strategy"),
        "leaves_buffers": stage.because(stage.engine.dtensors, "strategy"),
    }


def measured(stage: StageJob) -> Mapping[str, Any]:
    """What evaluate.py's measure reads."""
    load = teacher_from_hub(stage, "AutoModelForCausalLM")
    dtype = Raw(f"torch.{torch_dtype(stage.value('precision'))}")
    options = [
        Arg("dtype", dtype, stage.ids("precision")),
        *placed(stage),
        Arg("attn_implementation", padded_attention(stage), stage.ids("attention")),
    ]
    return {
        "load_teacher": replace(load, args=[*load.args, *options]),
        "teacher_tokenizer": teacher_from_hub(stage, "AutoTokenizer"),
        "beta": stage.traced(stage.own("beta")),
        "temperature": stage.traced(stage.own("temperature")),
    }
