"""What the optimizers need other than AdamW: each changes a choice that was made for AdamW.

| optimizer | rate and decay beside AdamW's | from |
|---|---|---|
| Lion | a rate 3 to 10 times lower, a decay as much higher | arXiv 2302.06675, section 5 (2023) |
| Adafactor | AdamW's own, our decision: its steps are clipped to the rate in the mean, but not averaged over time | \
arXiv 1804.04235, section 6 (2018) |
| SGD | 0.03 and no decay, for full fine-tuning of 7B | arXiv 2306.09782 (LOMO, 2023) and its configuration |

Read 2026-11, with transformers 5.23 trainer_optimizer.py, which switches Adafactor's own rates off.
"""

from __future__ import annotations

from recipec.rules.core import Choice
from recipec.units import number

BITSANDBYTES = frozenset(("adamw-8bit", "paged-adamw", "paged-adamw-8bit", "lion", "lion-8bit"))
LION = frozenset(("lion", "lion-8bit"))
WITHOUT_BETAS = frozenset(("adafactor", "sgd"))
_LION_FACTOR = 10.0  # the cautious end of 3 to 10: the same for the rate and the decay, whose product is what decays
_LION_LEAST = 3.0
_SGD_RATE, _SGD_RANGE = 0.03, (1e-3, 0.1)


def rate_for(optimizer: str, adamw: Choice) -> Choice:
    """The learning rate of `optimizer`, where AdamW's would be `adamw`."""
    if optimizer == "sgd":
        return _sgd_rate()
    if optimizer == "adafactor":
        return Choice(
            adamw.value, f"{adamw.because}; no source has a rate for Adafactor, so AdamW's is taken", adamw.accepts
        )
    if optimizer not in LION:
        return adamw
    value, (low, high) = _scaled(adamw.value, 1 / _LION_FACTOR), adamw.accepts or (adamw.value, adamw.value)
    accepts = _scaled(low, 1 / _LION_FACTOR), _scaled(high, 1 / _LION_LEAST)
    because = "a step of Lion is the whole rate "
    return Choice(
        value, f"{because}for every parameter, so it is 3 to 10 times lower than AdamW's {number(adamw.value)}", accepts
    )


def _sgd_rate() -> Choice:
    because = (
        "steps of SGD are as long as the gradient, so AdamW's rates say nothing; LOMO trained all weights of a 7B with "
        "this rate, and no source has one for anything else: sweep it"
    )
    return Choice(_SGD_RATE, because, accepts=_SGD_RANGE)


def decay_for(optimizer: str, adamw: Choice) -> Choice:
    """The weight decay of `optimizer`, where AdamW's would be `adamw`."""
    low, high = adamw.accepts or (adamw.value, adamw.value)
    if optimizer == "sgd":
        return Choice(0.0, "PyTorch's SGD adds a decay to a copy of all gradients, so LOMO has none", (0.0, high))
    if optimizer not in LION:
        return adamw
    value = _scaled(adamw.value, _LION_FACTOR)
    because = f"10 times AdamW's {adamw.value:g}, for Lion's rate, which the decay is multiplied by, is lower"
    return Choice(value, because, (_scaled(low, _LION_LEAST), _scaled(high, _LION_FACTOR)))


def _scaled(value: float, factor: float) -> float:
    """To two digits, as rates are written."""
    return float(f"{value * factor:.2g}")
