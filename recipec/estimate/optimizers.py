"""The optimizers by bytes: what each keeps, and what it moves."""

from __future__ import annotations

FP32_BYTES = 4
ONE_BYTE = 1 + 4 / 256  # an 8-bit state, with an fp32 absmax per block of 256 (bitsandbytes 0.50)
STATES = {  # as large as the parameter; Adafactor's factors are counted apart
    **dict.fromkeys(("adamw", "adamw-8bit", "paged-adamw", "paged-adamw-8bit"), 2),
    **dict.fromkeys(("lion", "lion-8bit"), 1),
    **dict.fromkeys(("adafactor", "sgd"), 0),
}


def state_bytes(optimizer: str, trained_bytes: int) -> float:
    """Per parameter. PyTorch's AdamW keeps states in the type that it trains, bitsandbytes in fp32 or 8 bits."""
    if "8bit" in optimizer:
        return STATES[optimizer] * ONE_BYTE
    return STATES[optimizer] * float(trained_bytes if optimizer == "adamw" else FP32_BYTES)
