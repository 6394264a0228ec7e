"""Checkpoints that hold a vision tower beside the language model, and how the latter is taken out of them.

TRL 1.16 loads the class that a checkpoint's config.json names (trainer/utils.py `create_model_from_path`): the whole of
it, whose vision tower text gives no gradient. transformers 5.23 loads the text part alone from its own configuration
and with these names. Tried 2026-11-23 on tiny checkpoints, weight by weight.
"""

from __future__ import annotations

from msgspec import Struct

# model_type of the checkpoint -> how its language model's parameters begin, and how they do in the text part alone;
# nothing where transformers renames them itself.
TEXT_PARTS = {
    "gemma3": ("language_model.", ""),
    "gemma4": ("model.language_model.", "model."),
    "gemma4_unified": ("model.language_model.", "model."),
    "llama4": (),
    "mistral3": ("language_model.", ""),
    "qwen3_5": (),
}


class Stored(Struct, frozen=True):
    """What the Hub has of a model whose checkpoint holds more than its language model."""

    model_type: str  # of TEXT_PARTS
    params_billion: float  # all of them, vision included

    @property
    def renamed(self) -> tuple[str, ...]:
        """How the names of the language model's parameters begin, and how in the text part alone; or nothing."""
        return TEXT_PARTS[self.model_type]
