"""One file per training method, found by its name: its own trainer arguments, and what only it needs of a bundle."""

from recipec.axes import METHODS
from recipec.backends.files import file_of
from recipec.backends.methods.backend import Measure, MethodBackend, OwnTrainer

# A row without its file is missing here, and refused by name before anything is compiled: recipec.backends.missing.
BACKENDS: dict[str, MethodBackend] = {name: file.BACKEND for name in METHODS if (file := file_of(__name__, name))}

__all__ = ["BACKENDS", "Measure", "MethodBackend", "OwnTrainer"]
