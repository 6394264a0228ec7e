"""reload.py JSON: load saved weights with plain transformers or peft and write their logits on fixed tokens."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path

import peft
import torch
import transformers

PROBE_TOKENS, SCORED = 32, 8  # as in the shim's learning.py


def load(
    folder: str, auto_class: str, adapter: bool, brought: str, dtype: str, quantized: dict | None
) -> torch.nn.Module:
    """The model saved in `folder`, by the class that loads such results, or PEFT's class of that kind.

    `brought` is a file that makes PEFT know the kind of adapter, "" where it does.
    """
    if brought:
        sys.path.insert(0, str(Path(brought).parent))
        import_module(Path(brought).stem)
    options = {"dtype": getattr(torch, dtype)}
    if quantized:
        compute = {"bnb_4bit_compute_dtype": torch.bfloat16}  # what 8 bits compute in is not asked
        options["quantization_config"] = transformers.BitsAndBytesConfig(**quantized, **compute)
    if auto_class.endswith("ForSequenceClassification"):
        options["num_labels"] = 1  # a reward; the base of an adapter does not say so
    if adapter:
        return getattr(peft, auto_class.replace("AutoModel", "AutoPeftModel", 1)).from_pretrained(folder, **options)
    return getattr(transformers, auto_class).from_pretrained(folder, **options)


def logits(model: torch.nn.Module) -> list[float]:
    """Of a language model those of the last token of a fixed sequence; of one that scores, its scores of several."""
    first, *others = (torch.arange(10, 10 + PROBE_TOKENS)[None] + shift for shift in range(SCORED))
    found = model(input_ids=first).logits[0]
    if found.ndim == 2:
        return found[-1].float().tolist()
    scores = [found, *(model(input_ids=more).logits[0] for more in others)]
    return torch.cat(scores).float().tolist()


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    autocast = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(given.pop("autocast"))
    gathered = given.pop("gathered", False)
    loaded = load(**given).eval()
    if autocast and gathered:  # FSDP casts what it gathers: sizes of DoRA, rounded, move logits by some percent
        loaded, autocast = loaded.to(autocast), None
    for module in loaded.modules():  # a layout for inference of bitsandbytes on some CPUs, which DoRA cannot read
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False
    with torch.no_grad(), torch.autocast("cpu", autocast) if autocast else nullcontext():
        answer = logits(loaded)
    Path(given["folder"], "reloaded.json").write_text(json.dumps({"logits": answer}))
