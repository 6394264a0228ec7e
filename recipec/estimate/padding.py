"""How long the rows of a batch get by padding, where they are drawn at random."""

from __future__ import annotations

from functools import lru_cache
from math import exp, log, sqrt
from statistics import NormalDist, mean

_NORMAL = NormalDist()
_Z99 = _NORMAL.inv_cdf(0.99)
_DRAWS = [(index + 0.5) / 32 for index in range(32)]  # evenly spread shares of batches, over which the mean is taken


@lru_cache(maxsize=1024)
def padded_tokens(usual: float, p99: float | None, rows: int) -> float:
    """The mean longest of `rows` lengths, log-normal with this mean and 99th percentile; that percentile at most.

    Where it is not known, or not above the mean, nothing is known of their spread: the mean.
    """
    if p99 is None or p99 <= usual or rows < 2:
        return usual
    deviation = _Z99 - sqrt(max(0.0, _Z99**2 - 2 * log(p99 / usual)))
    scale = usual * exp(-(deviation**2) / 2)
    return mean(min(p99, scale * exp(deviation * _NORMAL.inv_cdf(share ** (1 / rows)))) for share in _DRAWS)
