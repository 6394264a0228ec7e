"""The models of the catalog that the terms allow, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase

from msgspec import Struct

from recipec.catalog.architecture import Architecture
from recipec.catalog.models import Model
from recipec.diagnostics.model import Diagnostic
from recipec.facts.consistency import idle_expert_ranks, unknown_targets
from recipec.facts.families import is_of
from recipec.facts.model import can_begin
from recipec.recipe import LoadedRecipe
from recipec.rules.model import ModelRow, model_order
from recipec.selection.terms import Terms


class Miss(Struct, frozen=True):
    """Why the terms leave a model out, and the change of the recipe that would admit it."""

    term: str  # the decision that leaves it out
    reason: str
    admitted_by: str


class Shortlist(Struct, frozen=True):
    """The acceptable models and the others."""

    groups: tuple[tuple[Model, ...], ...]  # the preferred group first; within it in the order of MODEL-007
    superseded: tuple[Model, ...]  # acceptable, but there is a newer one of the size, or the same under another name
    missed: tuple[tuple[Model, tuple[Miss, ...]], ...]  # left out, each with all the reasons

    @property
    def acceptable(self) -> tuple[Model, ...]:
        """All acceptable models, the preferred first."""
        return tuple(model for group in self.groups for model in group)


def shortlist(catalog: Sequence[Model], terms: Terms, loaded: LoadedRecipe) -> Shortlist:
    """Sort the catalog's models by what the terms say of them, without those that training cannot begin with."""
    judged = [(model, tuple(_misses(model, terms, loaded))) for model in catalog if can_begin(loaded, model)]
    allowed = [model for model, misses in judged if not misses]
    groups = [
        ordered([model for model in allowed if model.kind == kind and bool(model.purpose) == special])
        for kind in terms.value("model_kinds")
        for special in (False, True)  # general models first
    ]
    kept = {model.name for group in groups for model in group}
    superseded = tuple(model for model in allowed if model.name not in kept)
    missed = tuple((model, misses) for model, misses in judged if misses)
    return Shortlist(tuple(group for group in groups if group), superseded, missed)


def ordered(models: list[Model]) -> tuple[Model, ...]:
    """The models by MODEL-007; of several names for one model the preferred one."""
    named = {model.name: model for model in models}
    order = [named[name] for name in model_order(tuple(map(_row, models))).value]
    first = {(model.architecture, model.family, model.purpose): model for model in reversed(order)}
    return tuple(model for model in order if model in first.values())


def _row(model: Model) -> ModelRow:
    shape = model.architecture
    line = f"{model.line} mixture" if shape.moe else model.line
    masked = model.marked_by_trl
    return ModelRow(model.name, line, model.generation, shape.params, masked, bool(model.gated), shape.max_position)


def _misses(model: Model, terms: Terms, loaded: LoadedRecipe) -> Iterator[Miss]:
    for check in _CHECKS:
        yield from check(model, terms)
    for term, (check, admitted_by) in _OF_ADAPTERS.items():
        finding = next(check(loaded, model.architecture), None)
        if finding is not None:
            yield Miss(term, finding.title, admitted_by)


_OF_ADAPTERS: dict[str, tuple[Callable[[LoadedRecipe, Architecture], Iterator[Diagnostic]], str]] = {
    "lora_targets": (unknown_targets, 'lora.targets = "all-linear"'),
    "lora_expert_rank": (idle_expert_ranks, "remove lora.expert_rank"),
}


def _family(model: Model, terms: Terms) -> Iterator[Miss]:
    families = terms.value("model_family")
    if families is not None and not is_of(model, families):
        yield Miss("model_family", f"of the family {model.family}", f'family = "{model.family}"')


def _kind(model: Model, terms: Terms) -> Iterator[Miss]:
    if model.kind not in terms.value("model_kinds"):
        yield Miss("model_kinds", f"a {model.kind} model", f'name = "{model.name}"')


def _licence(model: Model, terms: Terms) -> Iterator[Miss]:
    allowed, gated = terms.value("model_licenses"), ", gated" * bool(model.gated)
    if allowed != "any" and not _among(model.licence, allowed):
        yield Miss("model_licenses", f"{model.licence}{gated}", f'licenses = ["{model.licence}"]')


def _purpose(model: Model, terms: Terms) -> Iterator[Miss]:
    special = _special(model)
    exact = map(str.casefold, terms.value("model_family") or ())
    if special and (terms.value("model_purposes") == "general" or model.family not in exact):
        yield Miss("model_purposes", special, f'family = "{model.family}"')


def _special(model: Model) -> str:
    """What keeps a model from being taken for anything; "" where nothing does."""
    if model.purpose == "legacy":
        return "the last of its line, of 2024 or before"
    if model.architecture.mixer:
        return "recurrent layers, which train without their kernels"
    return f"made for {model.purpose}" if model.purpose else "a mixture of experts" * bool(model.architecture.moe)


def _context(model: Model, terms: Terms) -> Iterator[Miss]:
    most, needed = model.architecture.max_position, terms.value("model_context")
    if most < needed:
        yield Miss("model_context", f"a context of {most:,} tokens, {needed:,} needed", f"max_length = {most}")


def _size(model: Model, terms: Terms) -> Iterator[Miss]:
    most, size = terms.value("model_max_params_billion"), model.architecture.params / 1e9
    if most is not None and size > most:
        yield Miss("model_max_params_billion", f"{size:.1f}B parameters", f"max_params_billion = {size + 0.05:.1f}")


def _policy(model: Model, terms: Terms) -> Iterator[Miss]:
    patterns, licenses = terms.value("policy_models"), terms.value("policy_licenses")
    if patterns is not None and not any(fnmatchcase(model.name, pattern) for pattern in patterns):
        yield Miss("policy_models", "not in the policy's models", f'the policy\'s models with "{model.name}"')
    if licenses is not None and not _among(model.licence, licenses):
        yield Miss("policy_licenses", f"{model.licence}", f'the policy\'s licenses with "{model.licence}"')


def _among(licence: str | None, allowed: tuple[str, ...]) -> bool:
    return (licence or "").casefold() in map(str.casefold, allowed)


_CHECKS: tuple[Callable[[Model, Terms], Iterator[Miss]], ...] = (
    _family,
    _kind,
    _licence,
    _purpose,
    _context,
    _size,
    _policy,
)
