"""How a rank leaves its process group."""

from __future__ import annotations

import atexit
import os
import time

SETTLING_SECONDS = 0.5  # threads that only let go of tensors need microseconds, a full machine makes them wait


def leave_slowly() -> None:
    """Let Gloo's threads let go of their tensors before Python ends: one that does so later aborts the process.

    A device mesh keeps the group alive behind destroy_process_group, so nothing joins them (PyTorch's pull request
    179291, closed in April 2026 without a mend); NCCL, for which Gloo stands in, has no such threads.
    """
    if "RANK" in os.environ:
        atexit.register(time.sleep, SETTLING_SECONDS)
