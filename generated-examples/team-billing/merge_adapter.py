"""Merge the adapter of stage sft into its base: one model that loads without PEFT.

    python merge_adapter.py

The merge is done in bfloat16.
"""

import os
from pathlib import Path

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

import torch
from peft import AutoPeftModelForCausalLM
from transformers import AutoTokenizer

OUTPUT = Path(__file__).resolve().parent / "outputs" / "sft"

model = AutoPeftModelForCausalLM.from_pretrained(
    OUTPUT,
    dtype=torch.bfloat16,
)
tokenizer = AutoTokenizer.from_pretrained(OUTPUT)
model.merge_and_unload().save_pretrained(OUTPUT / "merged")
tokenizer.save_pretrained(OUTPUT / "merged")
print(f"merged into {OUTPUT / 'merged'}")
