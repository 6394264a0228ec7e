"""One file per engine of recipec.axes.strategies, found by its name: the whole footprint of a strategy in a bundle."""

from recipec.axes.strategies import ENGINES
from recipec.backends.engines.engine import EngineBackend, Placement
from recipec.backends.files import file_of

# A row without its file is missing here, and refused by name before anything is compiled: recipec.backends.missing.
BACKENDS: dict[str, EngineBackend] = {name: file.BACKEND for name in ENGINES if (file := file_of(__name__, name))}

__all__ = ["BACKENDS", "EngineBackend", "Placement"]
