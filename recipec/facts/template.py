"""The chat template of the training: the file that a recipe brings, or what is known of the model's own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from recipec.axes.tasks import AUTO
from recipec.catalog.hub_cache import cached_folder
from recipec.catalog.local import template_in
from recipec.catalog.mirrors import mirrored
from recipec.catalog.models import Model
from recipec.catalog.models import model as of_catalog
from recipec.catalog.templates import Template
from recipec.diagnostics.model import Diagnostic, Label, Report
from recipec.facts.model import has_template
from recipec.facts.own_files import own_text
from recipec.recipe import LoadedRecipe
from recipec.recipe.extends import is_path

_KEY = ("data", "template")
_OWN = (None, AUTO, "model")  # values of it that mean the model's own
_MOST_BYTES = 2**20  # templates have 50 KiB at most
_MARKS = re.compile("[\ue000-\uf8ff]")  # private use; some of them mark in the back ends what a line comes from


def template_text(loaded: LoadedRecipe, report: Report) -> str | None:
    """Return the text of the template file that data.template names; None when it names none.

    Reports E0001 to E0003, and E0006 for private-use characters.
    """
    name = loaded.recipe.data.template
    if name is None or not is_path(name):
        return None
    text = own_text(loaded, _KEY, name, _MOST_BYTES, "template file", "name a Jinja file", report)
    if text is not None and (found := _MARKS.search(text)):
        title = f"`{name}` holds the forbidden character U+{ord(found.group()):04X}"
        line = text.count("\n", 0, found.start())
        label = Label(loaded.place(*_KEY), f"a private-use character in line {line + 1}")
        report.add(Diagnostic("E0006", title, (label,), ("remove the character",)))
    return text


def template_of(loaded: LoadedRecipe, model: Model | None) -> Template | None:
    """What is known of the chat template of the training; None where it is not the model's own, or nothing is."""
    own = loaded.recipe.data.template in _OWN
    return model.template if own and model is not None else None


def text_shown(loaded: LoadedRecipe, model: Model, own: str | None) -> str | None:
    """The text of the chat template of the training: that of the recipe's file, or the model's own.

    None where the text is not on this machine.
    """
    if own is not None or loaded.recipe.data.template not in _OWN:
        return own
    folder = folder_of(loaded, model)
    return template_in(folder) if folder is not None else None


def folder_of(loaded: LoadedRecipe, model: Model) -> Path | None:
    """Where the model's files are on this machine, if a plan may rest on them."""
    if is_path(model.name):
        return loaded.folder / model.name
    named = loaded.recipe.model
    if of_catalog(model.name) is not None or named.like is not None:
        return None
    return cached_folder(model.name, named.revision)


def against_template(loaded: LoadedRecipe, model: Model) -> Iterator[Diagnostic]:
    """Yield E0401 where the recipe asks for the model's own chat template, and the model is known to have none.

    A model that is `like` another, or a copy of it, may have a template that the other lacks.
    """
    asked, guessed = loaded.recipe.data.template == "model", loaded.recipe.model.like or mirrored(model.name)
    if asked and not guessed and not has_template(model):
        labels = (
            Label(loaded.place(*_KEY), "the chat template of the model"),
            Label(loaded.place("model", "name"), "a base model, which has none"),
        )
        help = (
            'remove `template`, or write `template = "plain"`: turns then end with the end token of the model',
            'or name a file that holds a template: `template = "./chat.jinja"`',
        )
        yield Diagnostic("E0401", f"{model.name} has no chat template", labels, help)
