"""Emitted Python loaded as a module, with its neighbours within reach as when it is started as a script."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


def load(script: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A script of a bundle as a module; `monkeypatch` takes its neighbours away again."""
    neighbors = [path.stem for path in script.parent.glob("*.py")]
    for name in neighbors:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(script.parent))
    spec = importlib.util.spec_from_file_location(f"emitted_{script.stem}", script)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # a dataclass looks for its module there
    spec.loader.exec_module(module)
    for name in neighbors:
        monkeypatch.delitem(sys.modules, name, raising=False)
    return module
