"""One process, nothing to distribute."""

from recipec.backends.engines.engine import EngineBackend, no_arguments, no_files, seeded
from recipec.backends.parts import Part

BACKEND = EngineBackend(
    config="",
    deepspeed="",
    packages=(),
    files=no_files,
    arguments=no_arguments,
    part=lambda run: Part(),
    gathers_on_save=False,
    counts_passes=False,
    dtensors=False,
    shards_what_it_loads=False,
    recomputing="",
    equal_start=seeded,
)
