"""Which machine this is, as far as a plan depends on it."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from recipec.probe import host


def identity(device: str) -> dict[str, Any]:
    """The table `machine`."""
    count = torch.cuda.device_count() if device == "cuda" else 0
    return {
        "device": device,
        "gpus": [torch.cuda.get_device_name(index) for index in range(count)],
        "cpu": _cpu(),
        "cores": host.cores(),
        "host_memory_gib": host.memory_gib(),
        "torch": str(torch.__version__),
        "transformers": version("transformers"),
        "driver": _driver() if count else "",
    }


def _cpu() -> str:
    """What the processor calls itself."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def _driver() -> str:
    """The version of NVIDIA's driver; empty where its tool is not there, as on AMD."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return ""
