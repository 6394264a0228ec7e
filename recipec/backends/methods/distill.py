"""Supervised distillation: SFTTrainer with a teacher, in a file of the bundle.

Why not TRL's own: DistillationTrainer is on-policy only. GKDTrainer, with lmbda = 0, is experimental; it takes raw
`messages` and learns the last answer alone, so that rows, masks and packing are not those of supervised fine-tuning; it
leaves `temperature` out of its loss; and it holds the logits of both models at every position, prompts included, with
their log-softmaxes in fp32. ChunkedDivergenceFunction, which DistillationTrainer computes its loss with, makes them by
tiles. A step of Qwen3-1.7B under Qwen3-8B on 4 x 2,048 tokens has its peak at 46 GiB so, and at 71 GiB with GKDTrainer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from recipec.axes.models import TEACHER
from recipec.backends.engines.engine import torch_dtype
from recipec.backends.job import StageJob
from recipec.backends.methods import sft
from recipec.backends.methods.backend import Measure, MethodBackend, OwnTrainer, no_files
from recipec.backends.models import from_hub, other_from_hub, placed
from recipec.backends.parts import Import, Part
from recipec.render.call import Arg, Call, render_call
from recipec.render.traced import Raw, fragment

_CHECK = "check_tokenizers"


def _part(stage: StageJob) -> Part:
    """The teacher, and the check that it knows the student's tokens."""
    own, named = stage.own_args(of_trainer=True), stage.ids(TEACHER)
    student = from_hub(stage, "AutoTokenizer", Raw("MODEL"))
    check = Call(_CHECK, [Arg("", student), Arg("", other_from_hub(stage, TEACHER, "AutoTokenizer"))])
    return Part(
        imports=(Import("transformers", "AutoTokenizer", named),),
        own_imports=(Import("rows", _CHECK, named),),
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


def _sides(stage: StageJob) -> Mapping[str, Any]:
    """What the trainer has to know of the sides of its stage."""
    sharded = stage.strategy.shards_weights and stage.engine.shards_what_it_loads
    return {
        "adapter": stage.because(not stage.adapts.trains_all, "adaptation"),
        "dtensors": stage.because(stage.engine.dtensors, "strategy"),
        "shards_teacher": stage.because(sharded, "strategy"),
    }


def _names(stage: StageJob) -> Mapping[str, Any]:
    """What evaluate.py's measure reads."""
    load = other_from_hub(stage, TEACHER, "AutoModelForCausalLM")
    dtype = Raw(f"torch.{torch_dtype(stage.value('precision'))}")
    options = [
        Arg("dtype", dtype, stage.ids("precision")),
        *placed(stage),
        Arg("attn_implementation", stage.value("attention"), stage.ids("attention")),
    ]
    return {
        "load_teacher": replace(load, args=[*load.args, *options]),
        "teacher_tokenizer": other_from_hub(stage, TEACHER, "AutoTokenizer"),
        "beta": stage.traced(stage.own("beta")),
        "temperature": stage.traced(stage.own("temperature")),
    }


BACKEND = MethodBackend(
    trainer=OwnTrainer(
        module="distillation",
        template="trl/distillation.py.j2",
        names=_sides,
        name="SupervisedDistillationTrainer",
    ),
    arguments=sft.BACKEND.arguments,
    takes_template=True,
    part=_part,
    files=no_files,
    taught="rows/taught/distilled.py.j2",
    measure=Measure(
        template="measures/teacher.py.j2",
        names=_names,
        by_row=False,
        metrics=("divergence", "answer_loss", "perplexity"),
        loss="answer_loss",
        imports=(Import("math"),),
        reads=(_CHECK, "encode", "opening"),
    ),
)
