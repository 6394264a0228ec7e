"""Putting a model where a bundle's loaders look for the recipe's own."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from recipec.catalog.models import Model
from recipec.facts.model import is_path
from recipec.verify.bundle import Bundle
from recipec.verify.stand_in import WEIGHTS, hub_folder, known_model, write_stand_in
from recipec.verify.stand_in_config import EXPRESSIVE_RANGE, USUAL_RANGE
from recipec.verify.stand_in_tokenizer import template_text
from recipec.verify.substitutions import AS_IT_IS

_TINY_BYTES = 64 * 2**20  # a real model folder up to this size is used as it is


def place_model(bundle: Bundle, root: Path, texts: list[str]) -> str:
    """Put a model into the private hub or data root below `root`, and say what it is; raises NoStandIn."""
    name = bundle.stages[0].decisions["model"]
    if is_path(name):
        return _place_folder(bundle, Path(os.environ.get("DATA_ROOT") or ".") / name, root / "data" / name, texts)
    known = known_model(bundle, None)
    folder = hub_folder(root / "hub", name, _revision(bundle))
    return _stand_in(bundle, known, texts, folder, template_text(known.template_family, known.kind))


def _stand_in(bundle: Bundle, known: Model, texts: list[str], folder: Path, template: str | None) -> str:
    """A stand-in; without weights where the bundle makes its own, so that loading them would fail."""
    spread = USUAL_RANGE if bundle.stages[0].random_weights else EXPRESSIVE_RANGE
    said = write_stand_in(known, texts, folder, template, spread)
    if not bundle.stages[0].random_weights:
        return said
    (folder / WEIGHTS).unlink()
    return f"the configuration and tokenizer of {said}; no weights"


def _place_folder(bundle: Bundle, real: Path, folder: Path, texts: list[str]) -> str:
    """A copy of the real folder where it is whole and tiny, else a stand-in for what its config.json says."""
    known = known_model(bundle, real)
    whole = any(real.glob("*.safetensors")) and (real / "tokenizer.json").is_file()
    if whole and sum(path.stat().st_size for path in real.rglob("*") if path.is_file()) <= _TINY_BYTES:
        shutil.copytree(real, folder)
        return AS_IT_IS
    return _stand_in(bundle, known, texts, folder, _own_template(real))


def _own_template(folder: Path) -> str | None:
    """The chat template in a model folder, from its own file or from tokenizer_config.json."""
    file, config = folder / "chat_template.jinja", folder / "tokenizer_config.json"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    found = json.loads(config.read_text(encoding="utf-8")) if config.is_file() else {}
    return found.get("chat_template") if isinstance(found.get("chat_template"), str) else None


def _revision(bundle: Bundle) -> str | None:
    return bundle.stages[0].model_options.get("revision")
