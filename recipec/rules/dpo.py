"""What is special about preference training: beta, loss, and the reference."""

from __future__ import annotations

from recipec.rules.core import Choice, rule


@rule(
    "DPO-001",
    decides="beta",
    key="alignment.beta",
    watch="rewards/margins, rewards/chosen: margins rise; chosen rewards falling far below 0 ask for a larger beta",
    source="rule book 001, Anti-Pattern 7 (beta in DPO: 0.1 -> 0.5)",
)
def beta() -> Choice:
    """Decides how strongly the policy is held to the reference: 0.1.

    001 starts at 0.1 and raises it to 0.5 against over-optimisation. A smaller beta lets the policy drift further and
    is warned about.
    """
    return Choice(0.1, "0.1, the start of rule book 001, up to 0.5 against overfitting", accepts=(0.1, 0.5))


@rule(
    "DPO-002",
    decides="dpo_loss",
    key="alignment.loss",
    watch="loss, rewards/accuracies: loss starts at ln 2 = 0.693 and falls while accuracies leave 0.5",
    source="rule book 001, Step 1 (DPO)",
)
def dpo_loss() -> Choice:
    """Decides the preference loss: sigmoid, the one of the DPO paper.

    001 names DPO without a variant. The pinned DPOTrainer has fifteen; the original is the one whose curve everybody
    can read, since it starts at ln 2.
    """
    return Choice("sigmoid", "sigmoid: the loss starts at ln 2 = 0.693, 1 of 15 variants")


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
    if adaptation == "full":
        return Choice("copy", "full fine-tuning: 2 models in memory, the policy and its frozen start")
    if starts_from_adapter:
        return Choice("merged", "the earlier adapter is merged; the fresh one switched off is that policy: 1 model")
    return Choice("base", "the fresh adapter switched off: 1 model in memory")
