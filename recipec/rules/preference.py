"""What is special about some methods: their own hyperparameters, and what the policy is compared with."""

from __future__ import annotations

from recipec.axes import ADAPTATIONS, METHODS, Own
from recipec.rules.core import Choice, Rule, rule


@rule(
    "DPO-003",
    decides="reference",
    watch="rewards/margins, logps/chosen: margins are 0 at step 1; anything else means a wrong reference",
    source="rule book 001, Anti-Pattern 7 (reference model for KL regularization), PPO (SFT first)",
)
def reference(adaptation: str, starts_from_adapter: bool) -> Choice:
    """Decides what the policy is compared with: itself at the start of the stage.

    After supervised fine-tuning that is the fine-tuned policy, never the base model. A fresh adapter needs no second
    model, since switching it off gives the start ("base"). An adapter of an earlier stage is merged into the base
    first, so that switching the fresh one off gives the fine-tuned policy and not the model before it ("merged").
    Full fine-tuning loads a second copy of the starting weights ("copy").
    """
    if ADAPTATIONS[adaptation].reference == "model":
        return Choice("copy", "all weights move, so a frozen copy of the start is held beside the policy")
    if starts_from_adapter:
        return Choice("merged", "the earlier adapter is merged, so the fresh one switched off is the fine-tuned policy")
    return Choice("base", "the fresh adapter switched off is the starting model, so no second one is needed")


def own_rules(stage: str) -> list[Rule]:
    """The rules of a method's own hyperparameters, in the order of its row."""
    return [_OWN[own.id] for own in METHODS[stage].own]


def _own_rule(own: Own) -> Rule:
    """A rule whose answer and page are a row's."""

    def answer() -> Choice:
        return Choice(own.value, own.because, own.accepts)

    answer.__doc__ = own.page
    return rule(own.id, decides=own.name, key=f"alignment.{own.key}", watch=own.watch, source=own.source)(answer)


_OWN = {own.id: _own_rule(own) for own in {own.id: own for method in METHODS.values() for own in method.own}.values()}
