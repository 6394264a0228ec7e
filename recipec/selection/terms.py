"""What the recipe and the rules ask of a model, before anything is said of fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from recipec.facts import Given
from recipec.facts.data import train_format
from recipec.facts.fact import stated
from recipec.recipe import LoadedRecipe
from recipec.recipe.schema import AUTO
from recipec.rules import model as rules
from recipec.rules.core import Decision, Ledger


class Terms(Struct, frozen=True):
    """The terms of a choice as decisions, each with its reason."""

    decisions: Mapping[str, Decision]

    def value(self, id: str) -> Any:
        """The value of the term `id`, such as "model_kinds"; None asks nothing."""
        return self.decisions[id].value


def terms_of(loaded: LoadedRecipe, given: Given) -> Terms:
    """Decide the terms from what is given and the recipe's wishes."""
    ledger = Ledger(loaded.wishes("", last=True))
    known = {fact.id: fact for fact in (*given.goal, *given.hardware, *_data(given))}
    for wish in _wishes(loaded):
        ledger.record(wish)
    own = ledger.decisions
    ledger.decide(rules.model_kinds, known["task"], train_format(given.data), known["examples"])
    ledger.decide(rules.model_licenses, own["model_family"], own["policy_licenses"])
    ledger.decide(rules.model_purposes, own["model_family"])
    lengths = (known[name] for name in ("tokens_p99", "tokens_per_example"))
    ledger.decide(rules.model_context, known["task"], own["stated_max_length"], *lengths)
    ledger.decide(rules.model_base_bits, known["priority"])
    ledger.decide(rules.model_memory_share, known["priority"], known["gpu_is_cpu"])
    asked = stated(loaded, "asked_model", AUTO, "model", "name")
    terms = {id: replace(term, inputs=(asked.id, *term.inputs)) for id, term in own.items()}
    return Terms({asked.id: asked, **terms})


def _wishes(loaded: LoadedRecipe) -> list[Decision]:
    """What the recipe itself asks of a model."""
    section, policy = loaded.recipe.model, loaded.recipe.policy
    most = section.max_params_billion
    return [
        stated(loaded, "model_family", _tuple(section.family), "model", "family", absent="any family"),
        stated(loaded, "model_max_params_billion", most, "model", "max_params_billion", absent="any size that fits"),
        stated(loaded, "policy_models", _tuple(policy.models), "policy", "models", absent="no policy"),
        stated(loaded, "policy_licenses", _tuple(policy.licenses), "policy", "licenses", absent="no policy"),
        stated(loaded, "stated_max_length", loaded.recipe.data.max_length, "data", "max_length"),
    ]


def _tuple(listed: list[str] | None) -> tuple[str, ...] | None:
    return None if listed is None else tuple(listed)


def _data(given: Given) -> list[Decision]:
    """The facts about the rows that are learned first, with the lengths of the longest ones."""
    sections = [facts.decisions for facts in given.data.values()]
    longest = max(sections, key=lambda facts: facts["tokens_p99"].value or facts["tokens_per_example"].value)
    return [sections[0]["examples"], longest["tokens_p99"], longest["tokens_per_example"]]
