"""What of the host this process may use: physical cores and memory, within the limits of a container (Linux)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

CPUS = Path("/sys/devices/system/cpu")
GROUPS = Path("/sys/fs/cgroup")
OWN_GROUP = Path("/proc/self/cgroup")


def cores() -> int:
    """Physical cores that the scheduler may use: of their threads one each, and no more than the container's quota."""
    threads = os.sched_getaffinity(0)
    siblings = {_siblings(CPUS / f"cpu{thread}" / "topology" / "thread_siblings_list") for thread in threads}
    return max(1, int(min(len(siblings), cpu_quota(own_groups()))))


def memory_gib() -> float:
    """Memory of the host, or less where the container has less."""
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(installed, memory_limit(own_groups())) / (1 << 30)


def _siblings(path: Path) -> str:
    """The threads of a core; a thread whose siblings are not told is a core of its own."""
    return path.read_text().strip() if path.exists() else str(path)


def own_groups(own: Path = OWN_GROUP, root: Path = GROUPS) -> list[Path]:
    """The control group of this process and those above it (version 2), each of which may have limits."""
    lines = own.read_text().splitlines() if own.exists() else []
    inner = [root / line.removeprefix("0::").strip("/") for line in lines if line.startswith("0::")]
    return [group for each in inner for group in (each, *each.parents) if group.is_relative_to(root)]


def cpu_quota(groups: list[Path]) -> float:
    """Cores' worth of time that the tightest group gives; infinite without a limit."""
    shares = [limit.split() for limit in _limits(groups, "cpu.max")]
    return min((int(quota) / int(period) for quota, period in shares), default=float("inf"))


def memory_limit(groups: list[Path]) -> float:
    """Bytes that the tightest group gives; infinite without a limit."""
    return min((int(limit) for limit in _limits(groups, "memory.max")), default=float("inf"))


def _limits(groups: list[Path], name: str) -> Iterator[str]:
    for group in groups:
        text = (group / name).read_text() if (group / name).exists() else "max"
        if not text.startswith("max"):
            yield text
