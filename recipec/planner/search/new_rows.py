"""What new tokens add to the decisions of a stage that trains adapters."""

from __future__ import annotations

from recipec.rules.core import Decision


def trained_rows(new_tokens: Decision) -> Decision:
    """The rows of the embedding, and of the head where that is another matrix, that train beside the adapters."""
    because = "the rows of the new tokens train beside the adapters; the rows of all others are frozen"
    source = "PEFT 0.21.2 tuners/lora/config.py (trainable_token_indices)"
    return Decision("trained_rows", new_tokens.value, because, inputs=(new_tokens.id,), origin="planner", source=source)
