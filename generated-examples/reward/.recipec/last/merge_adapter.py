"""Merge the adapter of stage reward into its base: one model that loads without PEFT.

    python merge_adapter.py

The merge is done in bfloat16.
"""

import os
from pathlib import Path

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

import torch
from peft import AutoPeftModelForSequenceClassification
from transformers import AutoTokenizer

OUTPUT = Path(__file__).resolve().parent / "outputs" / "reward"

model = AutoPeftModelForSequenceClassification.from_pretrained(
    OUTPUT,
    dtype=torch.bfloat16,
    num_labels=1,  # one score
)
tokenizer = AutoTokenizer.from_pretrained(OUTPUT)
model.config.pad_token_id = tokenizer.pad_token_id  # the score is read at the last token that is no padding
model.merge_and_unload().save_pretrained(OUTPUT / "merged")
tokenizer.save_pretrained(OUTPUT / "merged")
print(f"merged into {OUTPUT / 'merged'}")
