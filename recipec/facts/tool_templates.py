"""Whether a model can call tools: its chat template shows them, and TRL finds the calls in what the model writes."""

from __future__ import annotations

from collections.abc import Iterator

from recipec.axes.method import ENVIRONMENT, TOOL_FUNCTIONS
from recipec.axes.tasks import AUTO
from recipec.catalog.models import Model
from recipec.catalog.templates import template_with, templates
from recipec.diagnostics.model import Diagnostic, Label
from recipec.facts.acting import Acting
from recipec.recipe import LoadedRecipe

_OWN = (None, AUTO, "model")  # values of data.template that mean the model's own
_WHY = (
    "TRL finds the calls in an answer by the text of the chat template, byte for byte, and knows those that recipec "
    "lists with tools (TRL 1.16 chat_template_utils.py, add_response_schema)"
)


def against_tool_template(
    loaded: LoadedRecipe, acting: Acting, model: Model | None, own: str | None
) -> Iterator[Diagnostic]:
    """Yield what is wrong where tools are named and the chat template has no calls that TRL reads (E0313).

    `own` is the text of the template file that the recipe brings.
    """
    if not acting.acts:
        return
    if loaded.recipe.model.name == AUTO:
        place, label = loaded.place("model", "name"), "which chat template it will have is not known yet"
        yield _no_calls("tools need a model that is named", loaded, Label(place, label))
        return
    chosen = loaded.recipe.data.template
    family = template_with(own) if own is not None else model.template_family if model and chosen in _OWN else None
    if model is None or (family is not None and templates()[family].tools):
        return
    if chosen in _OWN:
        label = Label(loaded.place("model", "name"), f"its chat template is `{family}`" if family else "none is known")
        yield _no_calls(f"calls of tools by `{model.name}` cannot be read", loaded, label)
        return
    label = Label(loaded.place("data", "template"), "not a chat template whose calls TRL reads")
    yield _no_calls(f"calls of tools under the chat template `{chosen}` cannot be read", loaded, label)


def _no_calls(title: str, loaded: LoadedRecipe, label: Label) -> Diagnostic:
    key = ENVIRONMENT if loaded.is_set("alignment", ENVIRONMENT) else TOOL_FUNCTIONS
    able = ", ".join(f"`{name}`" for name, template in templates().items() if template.tools)
    labels = (label, Label(loaded.place("alignment", key), "needs a chat template with tools"))
    help = (f"name a chat model of the catalog whose chat template is one of {able}, for example `Qwen/Qwen3-1.7B`",)
    return Diagnostic("E0313", title, labels, help, (_WHY,))
