"""What a bundle asks of its device and its disk."""

from __future__ import annotations

import sys
from typing import NamedTuple


class Usage(NamedTuple):
    """Of a disk, in bytes; named and unpacked like shutil's own."""

    total: int
    used: int
    free: int


def memory_statistics(module, value):
    """No accelerator keeps memory statistics here: the peak reads as zero instead of raising."""
    module.max_memory_allocated = lambda *args, **kwargs: 0
    module.reset_peak_memory_stats = lambda *args, **kwargs: None
    if module.current_accelerator(check_available=True) is None:
        torch = sys.modules["torch"]
        module.current_accelerator = lambda *args, **kwargs: torch.device("cpu")
        module.set_device_index = lambda index: None
        module.device_count = lambda: 0  # of what is named above it would count one


def disk_space(module, value):
    """Every disk has room."""
    module.disk_usage = lambda path: Usage(total=2**60, used=0, free=2**60)


def no_streams(module, value):
    """torch.compile asks an accelerator for its stream: what stands in for one has none."""
    make = module.SymbolicStreamState.__init__

    def __init__(self):
        accelerator = sys.modules["torch"].accelerator
        known, accelerator.is_available = accelerator.is_available, lambda: False
        try:
            make(self)
        finally:
            accelerator.is_available = known

    module.SymbolicStreamState.__init__ = __init__


PATCHES = {
    "memory-statistics": ("torch.accelerator", memory_statistics),
    "disk-space": ("shutil", disk_space),
    "no-streams": ("torch._dynamo.variables.streams", no_streams),
}
