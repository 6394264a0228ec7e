"""Models by name: what a catalog file says about one of the names it holds."""

from __future__ import annotations

import re
import tomllib
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct, convert
from msgspec.structs import replace

from recipec.catalog.architecture import Architecture
from recipec.catalog.configs import architecture_from_config
from recipec.catalog.lookup import entries_with, names_in
from recipec.catalog.mirrors import mirrored
from recipec.catalog.templates import BY_TRL, MARKED, Template, templates
from recipec.catalog.text_parts import Stored

_FOLDER = Path(__file__).parent / "models"
_GENERATION = re.compile(r"([a-z]+)-?(\d+(?:\.\d+)?)(?:-[a-z]+)?")  # qwen2.5, llama-3.1, qwen3-moe


class Model(Struct, frozen=True):
    """One published model; what is not known is None or empty."""

    name: str
    kind: str  # base | chat
    architecture: Architecture
    family: str = ""
    aliases: tuple[str, ...] = ()
    template_family: str | None = None  # its chat template: a name in templates.toml
    template_sha256: str = ""  # of its text, where a local folder holds it
    stop_tokens: tuple[str, ...] = ()
    gated: bool | None = None  # the Hub asks for an accepted licence
    licence: str | None = None
    params_billion: float | None = None  # as published
    source: str = ""
    checked: date | None = None
    unverified: tuple[str, ...] = ()  # keys of the file that `source` does not cover: widely published, not looked up
    purpose: str = ""  # reasoning | code | math | research | intermediate | legacy; "": for anything

    stored: Stored | None = None  # where its checkpoint holds more than the language model

    @property
    def params_on_disk(self) -> int:
        """Parameters of the checkpoint, with what it holds beside the language model."""
        return round(self.stored.params_billion * 1e9) if self.stored else self.architecture.params

    @property
    def line(self) -> str:
        """The family without its generation: "qwen" for qwen2.5 and qwen3-moe; the family where it has none."""
        found = _GENERATION.fullmatch(self.family)
        return found[1] if found else self.family

    @property
    def template(self) -> Template | None:
        """What is known of its chat template; None where nothing is."""
        return templates()[self.template_family] if self.template_family else None

    @property
    def marked(self) -> bool:
        """Whether the assistant's tokens can be marked in its chat template."""
        return self.template is not None and self.template.marks in MARKED

    @property
    def marked_by_trl(self) -> bool:
        """Whether TRL has a training version of its chat template."""
        return self.template is not None and self.template.marks == BY_TRL

    @property
    def generation(self) -> float:
        """The generation that the family's name tells: 2.5 for qwen2.5; 0 where it tells none."""
        found = _GENERATION.fullmatch(self.family)
        return float(found[2]) if found else 0.0


def model(name: str) -> Model | None:
    """The model called `name` on the Hub, or by its last path component, whatever the case; None if unknown."""
    wanted = name.lower()
    for entry in entries_with(_FOLDER, wanted):
        for twin in entry["names"]:
            if wanted in (twin["name"].lower(), *_aliases(twin)):
                return _model(entry, twin)
    return _copy(*found) if (found := mirrored(name)) else None


def _copy(name: str, original: str) -> Model | None:
    """A copy on the Hub; whether it is gated is not known, and its chat template is its own."""
    found = model(original)
    same = f"{original}, of which {name} is a copy"
    return found and replace(found, name=name, gated=None, template_family=None, source=f"{same}: {found.source}")


def others_meant(name: str, taken: Model) -> tuple[str, ...]:
    """The other models that a short name could mean: the chat model beside the base; none for a name of the Hub."""
    wanted = name.lower()
    if wanted in (taken.name.lower(), taken.name.lower().rpartition("/")[2]):
        return ()
    twins = [twin for entry in entries_with(_FOLDER, wanted) for twin in entry["names"] if twin["name"] != taken.name]
    return tuple(twin["name"] for twin in twins if any(part.startswith(f"{wanted}-") for part in _aliases(twin)))


def model_names() -> tuple[str, ...]:
    """All model names of the catalog, sorted."""
    return names_in(_FOLDER)


@cache
def models() -> tuple[Model, ...]:
    """All models of the catalog, sorted by name; reads every file, once in a process."""
    entries = [tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(_FOLDER.glob("*.toml"))]
    found = [_model(entry, twin) for entry in entries for twin in entry["names"]]
    return tuple(sorted(found, key=lambda model: model.name.lower()))


_NULL = {"sliding_window": None}  # what TOML cannot say: a key that is null where it is left out


def _aliases(twin: dict[str, Any]) -> tuple[str, ...]:
    return (twin["name"].lower().rpartition("/")[2], *twin.get("aliases", ()))


def _model(entry: dict[str, Any], twin: dict[str, Any]) -> Model:
    return Model(
        name=twin["name"],
        kind=twin["kind"],
        architecture=architecture_from_config(_NULL | entry["architecture"] | twin.get("architecture", {})),
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
        purpose=twin.get("purpose", ""),
        stored=convert(entry["stored"], Stored) if "stored" in entry else None,
    )
