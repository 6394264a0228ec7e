"""reload.py JSON: load saved weights with plain transformers or peft and write their logits on fixed tokens."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path

import torch
from peft import AutoPeftModelForCausalLM
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

PROBE_TOKENS = 24  # as in the shim's learning.py


def logits(folder: str, adapter: bool, autocast: str, dtype: str, nf4: dict | None) -> list[float]:
    """The last position's logits of the model saved in `folder`, for one fixed input."""
    loader = AutoPeftModelForCausalLM if adapter else AutoModelForCausalLM
    options = {"dtype": getattr(torch, dtype)}
    if nf4:
        options["quantization_config"] = BitsAndBytesConfig(**nf4, bnb_4bit_compute_dtype=torch.bfloat16)
    model = loader.from_pretrained(folder, **options).eval()
    tokens = torch.arange(10, 10 + PROBE_TOKENS)[None]
    formats = {"bf16": torch.bfloat16, "fp16": torch.float16}
    numbers = torch.autocast("cpu", formats[autocast]) if autocast in formats else nullcontext()
    with torch.no_grad(), numbers:
        return model(input_ids=tokens).logits[0, -1].float().tolist()


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    Path(given["folder"], "reloaded.json").write_text(json.dumps({"logits": logits(**given)}))
