"""How long a text a configuration is made for: its positions, or the more that YaRN makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recipec.catalog.config_values import positive

_BEFORE = "original_max_position_embeddings"


def context_of(config: Mapping[str, Any], positions: int) -> int:
    """The longest context in tokens: `factor` times the positions before YaRN, where that is more than `positions`.

    Files that follow a model card of Qwen keep max_position_embeddings as it was before; most others raise it. Other
    kinds of scaling are written into models that were trained with it, whose positions are those after it.
    """
    scaling = config.get("rope_scaling") or config.get("rope_parameters")  # transformers prefers the older name
    if not isinstance(scaling, Mapping) or scaling.get("rope_type", scaling.get("type")) != "yarn":
        return positions
    factor, before = scaling.get("factor"), scaling.get(_BEFORE, positions)
    if not all(type(number) in (int, float) for number in (factor, before)):
        return positions
    if positions < before:  # those of the class, which GptOssConfig adds to a file without a scaling
        return positions
    return max(positions, int(positive({"the context after YaRN": factor * before}, "the context after YaRN")))
