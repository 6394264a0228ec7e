"""Embeddings that stand before every row: PEFT's PromptTuningConfig."""

from __future__ import annotations

from recipec.backends.adaptations.configuration import configured
from recipec.backends.job import StageJob
from recipec.backends.parts import Part
from recipec.render.call import Arg

_BEGINS = "begins as embeddings of random tokens of the vocabulary"


def part(stage: StageJob) -> Part:
    """The soft prompt that the trainer puts before the rows."""
    return configured(
        stage,
        stage.arg("num_virtual_tokens", "virtual_tokens"),
        Arg("prompt_tuning_init", "SAMPLE_VOCAB", stage.ids("adaptation"), _BEGINS),
    )
