"""Changes to the libraries under a bundle, applied as each module is imported. Imports nothing heavy."""

from __future__ import annotations

import json
import sys
from collections import defaultdict

from cpu_stand_in import (
    accelerate_fsdp,
    acting,
    attention,
    deepspeed_config,
    devices,
    float8,
    generator,
    judging,
    learning,
    loops,
    models,
    processes,
    training_arguments,
    witness,
)
from cpu_stand_in.imports import AfterImport, Refused

PATCHES = {
    **training_arguments.PATCHES,
    **accelerate_fsdp.PATCHES,
    **acting.PATCHES,
    **attention.PATCHES,
    **deepspeed_config.PATCHES,
    **devices.PATCHES,
    **float8.PATCHES,
    **generator.PATCHES,
    **models.PATCHES,
    **judging.PATCHES,
    **learning.PATCHES,
    **witness.PATCHES,
}  # name -> (module, function(module, value)), in the order of installing: the GPUs of a server are counted last


def install(text: str) -> None:
    """Prepare the patches that `text` names: a JSON object of patch name -> its value."""
    wanted, values = defaultdict(list), json.loads(text)
    for name in filter(values.__contains__, dict.fromkeys([*PATCHES, *loops.PATCHES])):
        for module, patch in filter(None, (PATCHES.get(name), loops.PATCHES.get(name))):
            if module in sys.modules:
                patch(sys.modules[module], values[name])
            wanted[module].append((patch, values[name]))
    processes.leave_slowly()
    sys.meta_path.insert(0, AfterImport(wanted))
    sys.meta_path.insert(0, Refused("recipec"))
