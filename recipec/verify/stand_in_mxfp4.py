"""Experts of a stand-in in MXFP4, as the Hub has those of gpt-oss: a bundle then dequantizes what it loads."""

from __future__ import annotations

import json
from math import log2
from pathlib import Path

WEIGHTS = "model.safetensors"
QUANTIZED = {
    "quant_method": "mxfp4",
    "modules_to_not_convert": [
        "model.layers.*.self_attn",
        "model.layers.*.mlp.router",
        "model.embed_tokens",
        "lm_head",
    ],
}
BLOCK = 32  # weights that share a scale, a power of two (OCP Microscaling Formats 1.0, section 5.2)
_ROOT_MEAN_SQUARE = 2.93  # of the eight magnitudes of FP4 E2M1: 0, 0.5, 1, 1.5, 2, 3, 4, 6
_BIAS = 127  # of the exponents of scales


def store_in_mxfp4(folder: Path, spread: float) -> None:
    """Write random 4-bit experts of about a standard deviation of `spread` in place of the 16-bit ones of a folder."""
    import torch
    from safetensors.torch import load_file, save_file

    stored = {}
    for name, weight in load_file(folder / WEIGHTS).items():
        if name.endswith(("gate_up_proj", "down_proj")):
            experts, taken, given = weight.shape
            blocks = experts, given, taken // BLOCK
            stored[f"{name}_blocks"] = torch.randint(0, 256, (*blocks, BLOCK // 2), dtype=torch.uint8)
            scale = _BIAS + round(log2(spread / _ROOT_MEAN_SQUARE))
            stored[f"{name}_scales"] = torch.full(blocks, scale, dtype=torch.uint8)
        else:
            stored[name] = weight.bfloat16()
    save_file(stored, folder / WEIGHTS, metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    text = json.dumps(config | {"dtype": "bfloat16", "quantization_config": QUANTIZED}, indent=2)
    (folder / "config.json").write_text(text, encoding="utf-8")
