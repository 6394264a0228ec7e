"""Merge the adapter of stage orpo into its base: one model that loads without PEFT.

    python merge_adapter.py

The sum of base and adapter is rounded to bfloat16; `evaluate.py merged` tells what that changes.
"""

import json
import os
from copy import deepcopy
from pathlib import Path

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

import torch
from peft import PeftModel
from peft.tuners.tuners_utils import BaseTunerLayer
from transformers import AutoModelForCausalLM, AutoTokenizer

BUNDLE = Path(__file__).resolve().parent
BASE = "mistralai/Mistral-7B-v0.3"
OUTPUT = BUNDLE / "outputs" / "orpo"
MERGED = OUTPUT / "merged"
MERGED_INTO = "the base, in bfloat16"
PROBE = "What is merged must answer as base and adapter do together."
MOST_APART = 0.1  # of the logits' mean size, which rounding moves by some hundredths
LEAST_LEFT = 0.5  # of the update, once the weights are rounded


def main() -> None:
    result, marker = OUTPUT / "finished.json", MERGED / "finished.json"  # of the result, and of what was merged
    if not result.is_file():
        raise SystemExit(f"{OUTPUT} holds no finished result. Run train.py first.")
    merge = json.dumps(json.loads(result.read_text(encoding="utf-8")) | {"merged_into": MERGED_INTO}, indent=2) + "\n"
    if marker.is_file() and marker.read_text(encoding="utf-8") == merge:
        print(f"{MERGED} is up to date and not merged again.")
        return
    marker.unlink(missing_ok=True)
    base = AutoModelForCausalLM.from_pretrained(
        BASE,
        dtype=torch.bfloat16,
    )
    model = PeftModel.from_pretrained(base, OUTPUT)
    tokenizer = AutoTokenizer.from_pretrained(OUTPUT)
    tokens = tokenizer(PROBE, return_tensors="pt").input_ids
    before = outputs(model, tokens)
    with model.disable_adapter():
        plain = outputs(model, tokens)
    left = left_of_update(model)
    merged = model.merge_and_unload()
    now = outputs(merged, tokens)
    apart, moved = (((now - then).abs().mean() / before.abs().mean()).item() for then in (before, plain))
    off = f"{apart:.2%} off those of base and adapter, and {moved:.2%} off those of the base alone"
    if not apart <= MOST_APART:
        raise SystemExit(f"The adapter is not merged: the outputs would be {off}.")
    if moved < apart / 2:  # much nearer to the base, however little the adapter changes
        raise SystemExit(
            f"The merged model has lost the adapter: its outputs would be {off}. In bfloat16 what is small "
            "beside a weight is rounded away. Serve the adapter on its base, or train it with a higher learning rate."
        )
    merged.save_pretrained(MERGED)
    _, found = AutoModelForCausalLM.from_pretrained(
        MERGED,
        device_map="meta",  # without values
        output_loading_info=True,
    )
    if found["missing_keys"]:
        raise SystemExit(f"{MERGED} was saved under names that do not load: it lacks {sorted(found['missing_keys'])}.")
    tokenizer.save_pretrained(MERGED)
    marker.write_text(merge, encoding="utf-8")  # last
    print(f"The adapter is merged into {MERGED}. The outputs are {off}.")
    if left < LEAST_LEFT:
        print(
            f"NOTE: bfloat16 rounds away {1 - left:.0%} of what the adapter adds to the weights. "
            "Serve the adapter on its base, or train it with a higher learning rate."
        )


def outputs(model: torch.nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model(input_ids=tokens).logits.float()


def left_of_update(model: PeftModel) -> float:
    """The share of what is added to linear layers that bfloat16 keeps, which outputs do not show."""
    kept = whole = 0.0
    for layer in model.modules():
        if isinstance(layer, BaseTunerLayer) and isinstance(layer.get_base_layer(), torch.nn.Linear):
            exact = deepcopy(layer).float()
            exact.merge()
            before, after = (each.get_base_layer().weight.detach().float() for each in (layer, exact))
            kept += ((after.to(torch.bfloat16).float() - before) * (after - before)).sum().item()
            whole += (after - before).square().sum().item()
    return kept / whole if whole else 1.0


if __name__ == "__main__":
    main()
