"""What ends a turn of the chat template of the training, and whether the model's tokenizer has that token."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from recipec.axes.tasks import AUTO
from recipec.catalog.local import has_token
from recipec.catalog.mirrors import mirrored
from recipec.catalog.models import Model
from recipec.catalog.models import model as of_catalog
from recipec.catalog.templates import template_with, templates
from recipec.catalog.vocabularies import lack_of
from recipec.facts.fact import known
from recipec.facts.model import has_template, source_of
from recipec.facts.template import folder_of
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Decision

CHATML, PLAIN = "chatml", "plain"
_CHATML_END = "<|im_end|>"
_Known = tuple[bool | None, str, str]  # whether a tokenizer has a token, how recipec knows, and from which source


def turn_end_facts(
    loaded: LoadedRecipe, model: Model, text: str | None, new_tokens: Collection[str]
) -> Iterator[Decision]:
    """What ends a turn of the chosen chat template, whose text is given where a file has it."""
    end, because, source = _end(loaded, model, text)
    yield known("template_end", end, because, "model", "template", source=source)
    has, because, source = _knowledge(loaded, model, end) if end else (None, "no such token is known", "")
    if end in new_tokens:
        has, because, source = True, f"model.new_tokens adds {end}", ""
    inputs = ("model", "template_end", *["new_tokens"] * (end in new_tokens))
    yield known("has_turn_end", has, because, *inputs, source=source)


def _end(loaded: LoadedRecipe, model: Model, text: str | None) -> tuple[str, str, str]:
    """The token, how recipec knows it, and from which source; no token where it is the model's own, or unknown."""
    chosen = loaded.recipe.data.template
    if chosen == CHATML:
        return _CHATML_END, f"turns of `{chosen}` end with {_CHATML_END}", "the chat template `chatml` of recipec"
    if chosen == PLAIN or (chosen in (None, AUTO) and not has_template(model)):
        return "", f"turns of `{PLAIN}` end with the end token that the model has", ""
    given = text is not None
    family = template_with(text) if text is not None else model.template_family
    if family is None:
        return "", f"what ends turns of {chosen if given else 'its chat template'} is not known", ""
    found = templates()[family]
    whose = f"turns of {chosen}, the chat template of {family}," if given else f"turns of the template of {model.name}"
    return found.end, f"{whose} end with {found.end}", f"{found.source} (checked {found.checked})"


def _knowledge(loaded: LoadedRecipe, model: Model, end: str) -> _Known:
    """Whether the model's tokenizer has the token that ends turns; None where that is not known."""
    if (folder := folder_of(loaded, model)) is not None:
        has, where = has_token(folder, end), model.name
        said = {True: "has", False: "lacks"}.get(has, "does not show whether it has")
        return has, f"the tokenizer of {where} {said} {end}", ""
    if of_catalog(model.name) is None or mirrored(model.name):
        return None, f"the catalog has no tokenizer of {model.name}", ""
    if end in model.stop_tokens or (model.template is not None and model.template.end == end):
        return True, f"{model.name} ends turns of its own with {end}", source_of(model)
    if lack := lack_of(model.family, end):
        return False, f"tokenizers of {model.family} lack {end}", f"{lack.source} (checked {lack.checked})"
    return None, f"the catalog does not say whether the tokenizer of {model.name} has {end}", ""
