"""A network that makes the embeddings that stand before every row: PEFT's PromptEncoderConfig."""

from __future__ import annotations

from recipec.backends.adaptations.configuration import configured
from recipec.backends.adaptations.encoder import kept_encoder
from recipec.backends.job import StageJob
from recipec.backends.parts import Part, joined


def part(stage: StageJob) -> Part:
    """The soft prompt that the trainer puts before the rows, and what keeps its network in checkpoints."""
    prompt = configured(
        stage,
        stage.arg("num_virtual_tokens", "virtual_tokens"),
        stage.arg("encoder_hidden_size", "encoder_hidden_size"),
    )
    return joined((prompt, kept_encoder(stage)))
