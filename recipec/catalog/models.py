"""Models by name: what a catalog file says about one of the names it holds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from recipec.catalog.architecture import Architecture
from recipec.catalog.configs import architecture_from_config
from recipec.catalog.lookup import entries_with, names_in

_FOLDER = Path(__file__).parent / "models"


@dataclass(frozen=True, slots=True)
class Model:
    """One published model; what is not known is None or empty."""

    name: str
    kind: str  # base | chat
    architecture: Architecture
    family: str = ""
    aliases: tuple[str, ...] = ()
    template_family: str | None = None  # TRL's chat template of this name
    stop_tokens: tuple[str, ...] = ()
    gated: bool | None = None  # the hub asks for an accepted licence
    licence: str | None = None
    params_billion: float | None = None  # as published
    source: str = ""
    checked: date | None = None
    unverified: tuple[str, ...] = ()  # keys of the file that `source` does not cover: widely published, not looked up


def model(name: str) -> Model | None:
    """The model called `name` on the hub, or by its last path component, whatever the case; None if unknown."""
    wanted = name.lower()
    for entry in entries_with(_FOLDER, wanted):
        for twin in entry["names"]:
            if wanted in (twin["name"].lower(), *_aliases(twin)):
                return _model(entry, twin)
    return None


def model_names() -> tuple[str, ...]:
    """All model names of the catalog, sorted."""
    return names_in(_FOLDER)


def _aliases(twin: dict[str, Any]) -> tuple[str, ...]:
    return (twin["name"].lower().rpartition("/")[2], *twin.get("aliases", ()))


def _model(entry: dict[str, Any], twin: dict[str, Any]) -> Model:
    return Model(
        name=twin["name"],
        kind=twin["kind"],
        architecture=architecture_from_config(entry["architecture"] | twin.get("architecture", {})),
        family=entry["family"],
        aliases=_aliases(twin),
        template_family=twin.get("template"),
        stop_tokens=tuple(twin.get("stop_tokens", ())),
        gated=twin.get("gated"),
        licence=entry.get("licence"),
        params_billion=entry["params_billion"],
        source=entry["source"],
        checked=entry["checked"],
        unverified=tuple(entry.get("unverified", ())),
    )
