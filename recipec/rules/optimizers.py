"""What the optimizers need other than AdamW: each changes a choice that was made for AdamW.

| optimizer | rate and decay beside AdamW's | from |
|---|---|---|
| Lion | a rate 3 to 10 times lower, a decay as much higher | arXiv 2302.06675, section 5 (2023) |
| Adafactor | AdamW's own, recipec's choice: its steps are clipped to the rate in the mean, but not averaged | \
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
            adamw.value,
            f"{adamw.because}; no source gives a rate for Adafactor, so recipec uses AdamW's",
            adamw.accepts,
            source=adamw.source,
        )
    if optimizer not in LION:
        return adamw
    value, (low, high) = scaled(adamw.value, 1 / _LION_FACTOR), adamw.accepts or (adamw.value, adamw.value)
    accepts = scaled(low, 1 / _LION_FACTOR), scaled(high, 1 / _LION_LEAST)
    adamw_rate = number(adamw.value)
    because = (
        f"every step of Lion has the full size of the rate, so it is 3 to 10 times lower than AdamW's {adamw_rate}"
    )
    return Choice(value, because, accepts)


def _sgd_rate() -> Choice:
    because = (
        "published with LOMO for full fine-tuning of a 7B model; rates of SGD do not carry over from AdamW or to other "
        "methods, so try several"
    )
    return Choice(_SGD_RATE, because, accepts=_SGD_RANGE)


def decay_for(optimizer: str, adamw: Choice) -> Choice:
    """The weight decay of `optimizer`, where AdamW's would be `adamw`."""
    low, high = adamw.accepts or (adamw.value, adamw.value)
    if optimizer == "sgd":
        return Choice(
            0.0, "PyTorch's SGD would copy all gradients to apply a decay, so none is used, as in LOMO", (0.0, high)
        )
    if optimizer not in LION:
        return adamw
    value = scaled(adamw.value, _LION_FACTOR)
    because = f"10 times AdamW's {adamw.value:g}, because the decay is multiplied by Lion's lower learning rate"
    return Choice(value, because, (scaled(low, _LION_LEAST), scaled(high, _LION_FACTOR)))


def scaled(value: float, factor: float) -> float:
    """To two digits, as rates are written."""
    return float(f"{value * factor:.2g}")
