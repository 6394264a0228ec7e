"""The head that gives one score: how a model is loaded with it, and in which type scripts run it."""

from __future__ import annotations

from recipec.backends.job import StageJob
from recipec.backends.parts import lines
from recipec.render.call import Arg
from recipec.render.traced import Raw

_FP32_HEAD = """\
# rounded to 16 bits, the scores of answers that are nearly as good would tie
model.score.float().register_forward_pre_hook(lambda head, states: (states[0].float(),))"""


def head_options(stage: StageJob) -> list[Arg]:
    """What a model is loaded with so that it gives one score; nothing for one that writes."""
    return [] if stage.method.writes else [Arg("num_labels", 1, stage.ids("stage"), "one score")]


def head_in_fp32(stage: StageJob) -> tuple[Raw, ...]:
    """The lines that have `model`, which gives scores, read them with an fp32 head; none where all of it is fp32."""
    rounded = stage.value("precision") != "fp32"
    return lines(stage.ids("precision"), *_FP32_HEAD.splitlines()) if rounded else ()
