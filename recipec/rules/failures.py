"""How often GPUs fail, and what that costs a run: how far checkpoints may be apart, and how much is done twice."""

from __future__ import annotations

from math import sqrt

# One failure in 50,700 GPU hours: 419 in 54 days on 16,384 H100 (Llama 3, arXiv 2407.21783, section 3.3.4; read
# 2026-11). A smaller cluster that is looked after less fails more often for each GPU.
GPU_SECONDS_BETWEEN_FAILURES = 54 * 24 * 3600 * 16_384 / 419


def expected_failures(training_seconds: float, gpus: int) -> float:
    """Of all GPUs of a run together."""
    return training_seconds * gpus / GPU_SECONDS_BETWEEN_FAILURES


def best_interval_seconds(checkpoint_seconds: float, gpus: int) -> float:
    """Between checkpoints, so that writing them and what failures repeat take least together (Young 1974)."""
    return sqrt(2 * checkpoint_seconds * GPU_SECONDS_BETWEEN_FAILURES / gpus)
