"""One file per training method, found by its name: its own trainer arguments, and what only it needs of a bundle."""

from importlib import import_module

from recipec.axes import METHODS
from recipec.backends.methods.backend import Measure, MethodBackend, OwnTrainer


def backend_of(name: str) -> MethodBackend:
    """What the file of that method defines; raises where there is none."""
    backend: MethodBackend = import_module(f"{__name__}.{name.replace('-', '_')}").BACKEND
    return backend


BACKENDS = {name: backend_of(name) for name in METHODS}

__all__ = ["BACKENDS", "Measure", "MethodBackend", "OwnTrainer", "backend_of"]
