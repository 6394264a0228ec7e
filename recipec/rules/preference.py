"""What is special about some methods: their own hyperparameters, and what the policy is compared with."""

from __future__ import annotations

from recipec.axes import ADAPTATIONS, METHODS, Own
from recipec.rules.core import Choice, Rule, rule


@rule(
    "DPO-003",
    decides="reference",
    watch="rewards/margins, logps/chosen: margins start at 0; another start means a wrong reference",
    source="docs/rule-books/001.md, Anti-pattern 7; DPO (arXiv 2305.18290, 2023); TRL 1.16 trainer/dpo_trainer.py",
)
def reference(adaptation: str, starts_from_adapter: bool) -> Choice:
    """DPO reference model: the model as it was at the start of the stage.

    Rule book 001 uses a reference model against overfitting of DPO. After supervised fine-tuning the reference is the
    fine-tuned model, never the base model.

    | stage | reference |
    |---|---|
    | LoRA, first stage | the model without the new adapter ("base"); no second model is needed |
    | LoRA, after a stage with an adapter | the earlier adapter is merged first, then the same ("merged") |
    | full fine-tuning | a second copy of the starting weights ("copy") |
    """
    if ADAPTATIONS[adaptation].reference == "model":
        return Choice(
            "copy", "full fine-tuning changes the weights, so a frozen copy of the start is loaded beside them"
        )
    if starts_from_adapter:
        return Choice("merged", "the earlier adapter is merged, so the model without the new adapter is the reference")
    return Choice("base", "the model without the new adapter is the reference, so no second model is loaded")


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
