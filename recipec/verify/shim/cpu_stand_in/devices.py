"""What a bundle asks of its device and its disk."""

from __future__ import annotations

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


def disk_space(module, value):
    """Every disk has room."""
    module.disk_usage = lambda path: Usage(total=2**60, used=0, free=2**60)


PATCHES = {"memory-statistics": ("torch.accelerator", memory_statistics), "disk-space": ("shutil", disk_space)}
