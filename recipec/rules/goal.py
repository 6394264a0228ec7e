"""What is trained, in which order: the alignment method and the stages."""

from __future__ import annotations

from recipec.rules.core import Choice, rule
from recipec.rules.words import RAW_TEXT


@rule(
    "GOAL-001",
    decides="alignment_method",
    key="alignment.method",
    watch="rewards/margins, rewards/accuracies: margins rise from 0, accuracies from 0.5",
    source="rule book 001, Decision Tree: Alignment method?; 001, Step 1 (DPO, PPO)",
)
def alignment_method(task: str, has_preferences: bool) -> Choice:
    """Decides how behaviour is aligned: DPO where there are preference pairs, otherwise not at all.

    Rule book 001 asks whether preference data exist. Yes, and the KL to the reference matters little: DPO, one stage
    and no reward model. No: supervised fine-tuning only. Its second root, "Want to avoid reward model training? YES:
    DPO", does not ask for data and so contradicts the first; without pairs neither DPO nor a reward model can be
    trained, so the data decide. The branches that end in PPO (KL control high; a budget for three stages) are not in
    this version: the pinned TRL has no PPO trainer any more (page NOT-001).
    Preferences beside another task than align are not used by themselves: ask with `task = "align"` or set the key.
    """
    if task != "align":
        return Choice("none", f"task {task!r} does not ask for alignment; 0 preference stages")
    if has_preferences:
        return Choice("dpo", "preference pairs are given: 1 stage of DPO and no reward model")
    return Choice("none", "0 preference pairs: supervised fine-tuning is all that the data can teach")


@rule(
    "GOAL-002",
    decides="stages",
    watch="eval_loss: falls within each stage; a stage that starts above the baseline got the wrong weights handed on",
    source="rule book 001, Decision Tree: Fine-tuning or continued pre-training?; 003, Which fine-tuning method?; "
    "001, Step 1",
)
def stages(task: str, train_format: str | None, alignment_method: str) -> Choice:
    """Decides which stages run, in order: pretrain or continue-pretrain alone, or sft, dpo.

    Rule book 001 sends new knowledge to continued pretraining, a task to supervised fine-tuning and behaviour to
    alignment, and says that alignment follows supervised fine-tuning. Supervised fine-tuning runs if and only if
    `data.train` is supervised data (text, instruction, chat, prompt-completion); preference pairs in `data.train` mean
    that one stage only.
    For a domain shift rule book 003 wants continued pretraining *and then* instruction tuning. This version runs one
    of the two per recipe: train the first, then name its output folder as the model of the second (page NOT-003).
    Pretraining from random weights is for when no suitable base model exists (001, Step 1): it is never chosen, only
    asked for, and warned about below 1T tokens.
    """
    if task in RAW_TEXT:
        return Choice((task,), f"task {task}: 1 stage on raw text")
    supervised = train_format not in (None, "preference")
    names = ("sft",) * supervised + ("dpo",) * (alignment_method == "dpo" or train_format == "preference")
    data = f"data.train is {train_format}" if train_format else "no data.train"
    return Choice(names, f"{data}, alignment {alignment_method}: {len(names)} stage{'s' * (len(names) != 1)}")
