"""The families and licenses that a recipe lets `auto` choose from, against those of the catalog."""

from __future__ import annotations

from collections.abc import Iterator

from recipec.catalog.lookup import nearest
from recipec.catalog.models import Model, models
from recipec.diagnostics.model import Diagnostic, Label
from recipec.recipe import LoadedRecipe


def is_of(model: Model, families: tuple[str, ...]) -> bool:
    """Whether a model is of one of the families, each named exactly ("qwen3") or without its generation ("qwen")."""
    return any(name.casefold() in (model.family, model.line) for name in families)


def unknown_wishes(loaded: LoadedRecipe) -> Iterator[Diagnostic]:
    """Yield every entry of model.family and model.licenses that no model of the catalog has (E0307)."""
    families = {name for model in models() for name in (model.family, model.line)}
    licenses = {model.licence for model in models() if model.licence}
    for key, known in (("family", families), ("licenses", licenses)):
        plain = {name.casefold() for name in known}
        for index, name in enumerate(getattr(loaded.recipe.model, key) or []):
            if name.casefold() not in plain:
                yield _unknown(loaded, key, index, name, known)


def _unknown(loaded: LoadedRecipe, key: str, index: int, name: str, known: set[str]) -> Diagnostic:
    listed = isinstance(loaded.value("model", key), list)
    place = loaded.place("model", key, index) if listed else loaded.place("model", key)
    close = nearest(name, sorted(known))
    noun = "family" if key == "family" else "license"
    help = f"the {'nearest' if close else 'ones'} in the catalog: {', '.join(close or sorted(known))}"
    return Diagnostic("E0307", f"no model of the {noun} `{name}`", (Label(place, "not in the catalog"),), (help,))
