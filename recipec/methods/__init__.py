"""One row per training method: the trainer, its configuration class and what is particular about it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Method:
    """What the back ends need to know of a method; hyperparameters come from the rules."""

    name: str  # the stage name
    title: str  # for people: "supervised fine-tuning"
    trainer: str  # class in trl
    config: str  # class in trl
    preference: bool  # rows are pairs; the loss compares two answers
    learns: str  # what the loss covers, for the README
    random_weights: bool = False  # of the recipe's model it takes the architecture and the tokenizer only


METHODS = {
    method.name: method
    for method in (
        Method(
            "pretrain",
            "pretraining",
            "SFTTrainer",
            "SFTConfig",
            preference=False,
            learns="every token of the text",
            random_weights=True,
        ),
        Method(
            "continue-pretrain",
            "continued pretraining",
            "SFTTrainer",
            "SFTConfig",
            preference=False,
            learns="every token of the text",
        ),
        Method(
            "sft",
            "supervised fine-tuning",
            "SFTTrainer",
            "SFTConfig",
            preference=False,
            learns="the answers, not the questions",
        ),
        Method(
            "dpo",
            "direct preference optimization",
            "DPOTrainer",
            "DPOConfig",
            preference=True,
            learns="to prefer the chosen answer over the rejected one, close to the model it starts from",
        ),
    )
}
