"""The device that is measured: a CUDA device, or this CPU."""

from __future__ import annotations

from collections.abc import Callable

import torch


def name_of_device(cpu: bool) -> str:
    """`cuda` where torch sees a GPU and none is refused, else `cpu`."""
    return "cuda" if torch.cuda.is_available() and not cpu else "cpu"


def waiting(device: str) -> Callable[[], object] | None:
    """What returns when the device has finished; a CPU has when the call returns."""
    return torch.cuda.synchronize if device == "cuda" else None


def dtypes(device: str) -> dict[str, torch.dtype]:
    """The types that training computes in on the device, the planner's words for them; the usual one last.

    A CPU computes in fp32, as recipec's rules have it.
    """
    if device == "cpu":
        return {"fp32": torch.float32}
    bf16 = {"bf16": torch.bfloat16} if torch.cuda.is_bf16_supported(including_emulation=False) else {}
    return {"fp32": torch.float32, "fp16": torch.float16, **bf16}
