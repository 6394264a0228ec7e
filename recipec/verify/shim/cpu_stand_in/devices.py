"""torch.accelerator: what a bundle asks of its device."""

from __future__ import annotations


def memory_statistics(module, value):
    """No accelerator keeps memory statistics here: the peak reads as zero instead of raising."""
    module.max_memory_allocated = lambda *args, **kwargs: 0
    module.reset_peak_memory_stats = lambda *args, **kwargs: None


PATCHES = {"memory-statistics": ("torch.accelerator", memory_statistics)}
