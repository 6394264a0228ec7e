"""The models that a method runs beside the one it trains: what [alignment] names, and what must hold between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from recipec.axes import NAMED_MODELS, methods_of
from recipec.catalog.models import Model
from recipec.diagnostics.model import Diagnostic, Label, Report
from recipec.facts.fact import known, stated
from recipec.facts.model import is_path, look_up, size_of, source_of
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Decision

MOST_PADDING = 512  # rows: Qwen2.5's matrices differ by 128 between sizes, Pythia's by up to 384
# Lines of models with one tokenizer: the cards of TinyLlama and Code Llama name that of Llama 2, Mixtral has Mistral's.
ONE_TOKENIZER = ({"llama", "tinyllama", "codellama"}, {"mistral", "mixtral"})


class OtherModel(Struct, frozen=True):
    """A model beside the one that is trained."""

    model: Model
    decisions: Mapping[str, Decision]  # facts for the stages that run it


def look_up_others(loaded: LoadedRecipe, report: Report) -> dict[str, OtherModel]:
    """The models that [alignment] names, by role; one that is not known is left out, with a diagnostic."""
    found = {}
    for role in NAMED_MODELS:
        section = getattr(loaded.recipe.alignment, role, None)
        model = look_up(loaded, section, ("alignment", role), report) if section is not None else None
        if model is not None:
            found[role] = OtherModel(model, {fact.id: fact for fact in _facts(loaded, role, model)})
    return found


def _facts(loaded: LoadedRecipe, role: str, model: Model) -> Iterator[Decision]:
    """What a stage has to know; `role` is in the name of every fact."""
    section, shape = getattr(loaded.recipe.alignment, role), model.architecture
    yield stated(loaded, role, model.name, "alignment", role)
    yield known(f"{role}_params", shape.params, size_of(model), role, source=source_of(model))
    yield known(f"{role}_license", model.licence, f"license of {model.name}", role, source=source_of(model))
    for name in ("like", "revision"):
        yield known(f"{role}_{name}", getattr(section, name), "as the recipe says", role, origin="recipe")


def against_others(loaded: LoadedRecipe, model: Model, others: Mapping[str, OtherModel]) -> Iterator[Diagnostic]:
    """Yield what says nothing about the tokens of the model that is trained, or nothing new (E0401, W0514)."""
    needed = {role for row in methods_of(loaded.recipe.goal.task) for role in row.needs_vocabulary_of}
    for role, other in others.items():
        if role in needed and not _shares_vocabulary(model, other.model):
            yield _other_vocabulary(loaded, role, model, other.model)
        elif role in needed and other.model.name == model.name and not other.decisions[f"{role}_revision"].value:
            yield _the_same(loaded, role)
        elif role in needed and other.model.architecture.params < model.architecture.params:
            yield _smaller(loaded, role, model, other.model)


def _shares_vocabulary(model: Model, other: Model) -> bool:
    """Whether the models can have one vocabulary: as many rows, or a few more of padding, for the same tokens.

    Rows of the other model behind those of the trained one are left out; missing ones could not be compared. What the
    tokens of a local folder are is not known here; the bundle compares them before it loads a model.
    """
    rows = other.architecture.vocab_size - model.architecture.vocab_size
    lines = {model.line, other.line}
    alike = len(lines) == 1 or any(lines <= shared for shared in ONE_TOKENIZER)
    return (0 <= rows <= MOST_PADDING and alike) or (rows == 0 and (is_path(model.name) or is_path(other.name)))


def _other_vocabulary(loaded: LoadedRecipe, role: str, model: Model, other: Model) -> Diagnostic:
    def label(path: tuple[str, ...], of: Model) -> Label:
        return Label(loaded.place(*path), f"{of.architecture.vocab_size:,} rows, of the {of.line or of.family} family")

    labels = (label(("alignment", role), other), label(("model", "name"), model))
    title = f"the vocabularies of the {role} `{other.name}` and of `{model.name}` differ"
    help = f"name a {role} of the same family, whose vocabulary has as many rows, or a few more of padding"
    note = "probabilities are compared token by token, so every token must have the same number in both"
    return Diagnostic("E0401", title, labels, (help,), (note,))


def _the_same(loaded: LoadedRecipe, role: str) -> Diagnostic:
    labels = (Label(loaded.place("alignment", role), "the same model"), Label(loaded.place("model", "name"), "learns"))
    return Diagnostic("E0401", f"the {role} is the model that learns", labels, (f"name a larger model as {role}",))


def _smaller(loaded: LoadedRecipe, role: str, model: Model, other: Model) -> Diagnostic:
    sizes = [f"{of.architecture.params / 1e9:.2f}B parameters" for of in (other, model)]
    places = (loaded.place("alignment", role), loaded.place("model", "name"))
    labels = tuple(Label(place, size) for place, size in zip(places, sizes, strict=True))
    title = f"the {role} `{other.name}` is smaller than `{model.name}`, which learns from it"
    help = f"name a larger model as `alignment.{role}`, or a smaller one as `model.name`"
    return Diagnostic("W0514", title, labels, (help,))
