"""One file per engine of recipec.axes.strategies, found by its name: the whole footprint of a strategy in a bundle."""

from importlib import import_module

from recipec.axes import STRATEGIES
from recipec.backends.engines.engine import Engine, Placement


def engine_of(name: str) -> Engine:
    """What the file of that engine defines; raises where there is none."""
    engine: Engine = import_module(f"{__name__}.{name}").ENGINE
    return engine


ENGINES = {row.engine: engine_of(row.engine) for row in STRATEGIES.values()}

__all__ = ["ENGINES", "Engine", "Placement", "engine_of"]
