"""The pinned stack that bundles are compiled for."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from recipec.catalog.gpus import Gpu

_FILE = Path(__file__).parent / "stack.toml"


@cache
def stack() -> dict[str, str]:
    """Package name to exact version, in the file's order."""
    return _read()["pins"]


@cache
def modules() -> frozenset[str]:
    """The names by which Python imports the pinned packages and what they install themselves."""
    return frozenset((*stack(), *_read()["modules"]["brought"]))


def torch_index(gpu: Gpu) -> str | None:
    """Where pip finds PyTorch for such a GPU; None where PyPI's build is for it, or none is known."""
    return None if gpu.pypi_kernels else _read()["torch_index"].get(gpu.vendor)


@cache
def _read() -> dict[str, Any]:
    return tomllib.loads(_FILE.read_text(encoding="utf-8"))


def requirements(packages: Iterable[str]) -> tuple[str, ...]:
    """Exact pins of `packages` in the stack's order: "torch==2.13.0"; a package outside the stack is a KeyError."""
    wanted, pins = set(packages), stack()
    if unknown := wanted - pins.keys():
        raise KeyError(f"not in the stack: {', '.join(sorted(unknown))}")
    return tuple(f"{name}=={version}" for name, version in pins.items() if name in wanted)
