"""A private folder in which a bundle runs: an untouched copy, a stand-in model, sample data, a clean environment."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from recipec.catalog.architecture import Architecture
from recipec.verify.bundle import PRODUCED, RECORDS, Bundle, read_bundle
from recipec.verify.data import FEWEST_OWN_ROWS, place_data
from recipec.verify.outside import bring_inside
from recipec.verify.process import Outcome, clean_environment, run_command
from recipec.verify.stand_in import AS_IT_IS, models_of, place_models, stand_in_shape
from recipec.verify.stand_in_adapter import place_adapter

SHIM = Path(__file__).parent / "shim"
PROGRAMS = Path(__file__).parent / "programs"  # that stand in for those of the GPU's packages
PROBES = Path(__file__).parent / "probes"


class Sandbox(Struct, frozen=True):
    """Where everything of one verification is."""

    root: Path
    bundle: Bundle  # the copy: what it reads is all below `root`
    model: str  # what the stand-in is
    data: str  # what the rows are
    hub_data: Mapping[str, str] = field(default_factory=dict)
    outside: Mapping[str, str] = field(default_factory=dict)  # path of a source -> where the copy reads it

    @property
    def outputs(self) -> Path:
        """Where the copy writes its results."""
        return self.bundle.root / "outputs"

    @property
    def evaluated(self) -> Path:
        """Where the shim notes what evaluate.py does."""
        return self.root / "evaluated"

    @property
    def shape(self) -> Architecture | None:
        """The stand-in's; None where the model is used as it is."""
        if self.model == AS_IT_IS:
            return None
        return stand_in_shape(models_of(self.bundle)[0])

    def environment(self, patches: Mapping[str, Any]) -> dict[str, str]:
        """The environment of a launch: offline, private caches, the shim and nothing else of this process."""
        clean = clean_environment(self.root / "home")
        return clean | {
            "PATH": os.pathsep.join([str(PROGRAMS), clean["PATH"]]),
            "PYTHONPATH": str(SHIM),
            "CPU_STAND_IN": json.dumps(patches),
            "DATA_ROOT": str(self.root / "data"),
            "HF_HOME": str(self.root / "hf"),
            "HF_HUB_CACHE": str(self.root / "hub"),
            "HF_HUB_OFFLINE": "1",
            "WANDB_MODE": "offline",
            "MASTER_PORT": str(free_port()),
            "OMP_NUM_THREADS": "1",
            "DS_ACCELERATOR": "cpu",
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            "TORCH_EXTENSIONS_DIR": str(extensions_folder()),
        }

    def run(self, name: str, command: list[str], environment: Mapping[str, str], limit_seconds: float) -> Outcome:
        """Run a command in the copy; its output is kept as NAME.log."""
        log = self.root / f"{name}.log"
        return run_command(
            command, folder=self.bundle.root, environment=environment, log=log, limit_seconds=limit_seconds
        )


def free_port() -> int:
    """A port of this machine that nobody listens on, so that runs beside each other do not meet."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def make_sandbox(bundle: Bundle, root: Path, rows: int, fewest_own: int = FEWEST_OWN_ROWS) -> Sandbox:
    """Fill `root` for one verification on `rows` rows of a source.

    Raises NoStandIn or NoSample where model or data cannot be stood in for.
    """
    copy = copy_bundle(bundle, root)
    outside = bring_inside(copy.root / "prepare_data.py")
    data = place_data(bundle, root / "data", root / "hub_data", rows, fewest_own)
    model = place_models(bundle, root, data.texts)
    place_adapter(bundle, root)
    return Sandbox(root, copy, model, data.description, data.hub, outside)


def copy_bundle(bundle: Bundle, root: Path) -> Bundle:
    """An untouched copy below `root`, without what runs of the original produced; `root` gets a home folder, too."""
    copy = root / "bundle"
    shutil.copytree(bundle.root, copy, ignore=_not_emitted(bundle.root))
    shutil.copytree(bundle.root / RECORDS, copy / RECORDS)
    (root / "home").mkdir()
    return read_bundle(copy)


def _not_emitted(top: Path):
    """Ignore, at the top of the bundle only, what a run produced and the records."""
    return lambda folder, names: [name for name in names if Path(folder) == top and name in PRODUCED]


def extensions_folder() -> Path:
    """Where DeepSpeed keeps the operators that it compiles on first use: kept between verifications."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "recipec" / f"torch_extensions_py{sys.version_info.major}{sys.version_info.minor}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
