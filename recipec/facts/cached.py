"""A model outside the catalog: what the Hub's cache on this machine has of it, and what the recipe says it is like."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from recipec.catalog.architecture import Architecture
from recipec.catalog.config_values import UnbuiltType, UnsupportedConfig
from recipec.catalog.hub_cache import cached_model
from recipec.catalog.models import Model
from recipec.catalog.vision import ways_out
from recipec.diagnostics.model import Diagnostic, Label, Report
from recipec.recipe import LoadedRecipe
from recipec.recipe.locate import dotted

_OWN = {"vocab_size", "max_position", "attention_dropout"}  # what further training changes in a shape
_KEYS = {"num_layers": "num_hidden_layers", "num_heads": "num_attention_heads", "num_kv_heads": "num_key_value_heads"}
_MOST_SHOWN = 4  # differences


def cached(loaded: LoadedRecipe, section: Any, table: tuple[str, ...], report: Report) -> Model | None:
    """A model outside the catalog that the Hub's cache on this machine has."""
    try:
        return cached_model(section.name, section.revision)
    except (UnsupportedConfig, OSError, ValueError) as error:
        report.add(_unread(loaded, (*table, "name"), section.name, error))
        return None


def in_the_shape_of(
    loaded: LoadedRecipe, section: Any, table: tuple[str, ...], like: Model, report: Report
) -> Model | None:
    """The model that a section says to be `like` another; its own config.json counts where the cache has it."""
    try:
        own = cached_model(section.name, section.revision)
    except UnbuiltType as error:
        report.add(_unread(loaded, (*table, "name"), section.name, error))
        return None
    except (UnsupportedConfig, OSError, ValueError):
        own = None  # what recipec cannot read is as the recipe says
    found = replace(like, name=section.name, template_sha256="", licence=None, gated=None)
    if own is None:
        return found
    if [*_differences(own.architecture, like.architecture)]:
        report.add(_contradicted(loaded, section, table, own, like))
        return None
    return replace(found, architecture=own.architecture, stored=own.stored, source=own.source, checked=None)


def not_built(loaded: LoadedRecipe, path: tuple[str, ...], name: str, why: str) -> Diagnostic:
    """A model that is known and that no other one's shape stands for."""
    label = Label(loaded.place(*path, part="value"), why)
    return Diagnostic(
        "E0301", f"`{name}` is known and not built yet", (label,), ways_out(name, name if path[0] == "model" else "")
    )


def _unread(loaded: LoadedRecipe, path: tuple[str, ...], name: str, error: Exception) -> Diagnostic:
    """A config.json in the cache that gives no shape."""
    label = Label(loaded.place(*path, part="value"), f"its config.json in the Hugging Face cache: {error}")
    if isinstance(error, UnbuiltType):
        return Diagnostic("E0301", f"`{name}` cannot be trained", (label,), ways_out(name, error.model_type))
    help = ("add `like` with a catalog name of the same shape, or name a model of the catalog",)
    return Diagnostic("E0301", f"unknown model `{name}`", (label,), help)


def _contradicted(loaded: LoadedRecipe, section: Any, table: tuple[str, ...], own: Model, like: Model) -> Diagnostic:
    """The shape that the recipe names is another than that of the model's own config.json."""
    ours, theirs = _told(own.architecture, like.architecture), _told(like.architecture, own.architecture)
    labels = (
        Label(loaded.place(*table, "like", part="value"), theirs),
        Label(loaded.place(*table, "name", part="value"), f"{own.source}: {ours}"),
    )
    help = (f"remove `{dotted(table)}.like`: recipec reads the shape in that config.json",)
    return Diagnostic("E0401", f"`{section.name}` does not have the shape of `{section.like}`", labels, help)


def _differences(one: Architecture, other: Architecture) -> Iterator[str]:
    """Yield the fields in which two shapes are not alike."""
    for field in Architecture.__struct_fields__:
        if field not in _OWN and getattr(one, field) != getattr(other, field):
            yield field


def _told(shape: Architecture, other: Architecture) -> str:
    """What the first of the fields hold in which a shape is not like the other."""
    shown = [*_differences(shape, other)][:_MOST_SHOWN]
    values = {field: getattr(shape, field) for field in shown}
    return ", ".join(
        f"{_KEYS.get(field, field)} {value}" if isinstance(value, int | str | None) else f"another {field}"
        for field, value in values.items()
    )
