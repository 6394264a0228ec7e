"""Names of models whose weights are quantized: training starts from the original."""

from __future__ import annotations

import re

from recipec.catalog.models import model
from recipec.diagnostics.model import Diagnostic, Label
from recipec.recipe import LoadedRecipe

# Formats of weights that makers of copies write into names on the Hub (huggingface.co/models, looked at 2026-11-27).
_FORMATS = r"gguf|awq|gptq|exl2|mlx|bnb|fp8|nf4|int[48]|[48][-_]?bits?|w[48]a(?:8|16)|q[2-8](?:_[a-z0-9]+)*"
_QUANTIZED = re.compile(rf"[-_.](?:unsloth-)?({_FORMATS})(?=[-_.]|$)", re.IGNORECASE)


def quantized(loaded: LoadedRecipe, path: tuple[str, ...], name: str) -> Diagnostic | None:
    """E0301 where the name is that of a quantized copy; None where it is not."""
    short = name.rpartition("/")[2]
    found = _QUANTIZED.search(short)
    if found is None:
        return None
    original = short[: found.start()]
    known = model(original)
    wanted = f'`name = "{known.name}"`' if known else f"the model that `{original}` was made from"
    label = Label(loaded.place(*path, part="value"), f"`{found[1]}` stands for quantized weights")
    help = (
        f"name the original, which is not quantized: {wanted}",
        'to load its weights in 4 bits for training: `adaptation = "qlora"` under [train]',
    )
    return Diagnostic(
        "E0301", f"`{name}` holds quantized weights, and training starts from the original", (label,), help
    )
