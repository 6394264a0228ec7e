"""What is trained, in which order: the alignment method and the stages."""

from __future__ import annotations

from recipec.axes import METHODS, Method
from recipec.rules.core import Choice, rule

NO_ALIGNMENT = "none"


@rule(
    "GOAL-001",
    decides="alignment_method",
    key="alignment.method",
    watch="rewards/margins, rewards/accuracies: margins rise from 0, accuracies from 0.5",
    source="rule book 001, Decision Tree: Alignment method?; 001, Step 1 (DPO, PPO)",
)
def alignment_method(task: str, preference_format: str | None) -> Choice:
    """Decides how behavior is aligned: by the first method that learns from such rows, otherwise not at all.

    001 asks whether preference data exist. Yes, and the KL to the reference matters little: DPO, one stage and no
    reward model. No: supervised fine-tuning only. Its second root, "Want to avoid reward model training? YES: DPO",
    does not ask for data and so contradicts the first; without pairs neither DPO nor a reward model can be trained, so
    the data decide. The branches that end in PPO (KL control high; a budget for three stages) are not in this version:
    the pinned TRL has no PPO trainer any more (page NOT-001).
    Preferences beside a task that learns none are not used by themselves: ask with `task = "align"` or set the key.
    """
    if preference_format is None:
        return Choice(NO_ALIGNMENT, "the recipe has no rows that an alignment method learns from")
    if any(preference_format in method.formats for method in _of_task(task)):
        return Choice(NO_ALIGNMENT, f"task {task} learns from its rows itself")
    method = next(row for row in METHODS.values() if row.alignment and preference_format in row.formats)
    return Choice(method.alignment, f"{preference_format} rows are given, which {method.title} learns from")


@rule(
    "GOAL-002",
    decides="stages",
    watch="eval_loss: falls within each stage; a stage that starts above the baseline got the wrong weights handed on",
    source="rule book 001, Decision Tree: Fine-tuning or continued pre-training?; 003, Which fine-tuning method?; "
    "001, Step 1",
)
def stages(task: str, train_format: str | None, alignment_method: str) -> Choice:
    """Decides which stages run, in order: the method of the task or the alignment, after what data.train is for.

    001 sends new knowledge to continued pretraining, a task to supervised fine-tuning and behavior to alignment, and
    says that alignment follows supervised fine-tuning. Supervised fine-tuning runs if and only if `data.train` is
    supervised data (text, instruction, chat, prompt-completion); preference pairs in `data.train` mean that one stage
    only.
    For a domain shift 003 wants continued pretraining *and then* instruction tuning. This version runs one of the two
    per recipe: train the first, then name its output folder as the model of the second (page NOT-003).
    Pretraining from random weights is for when no suitable base model exists (001, Step 1): it is never chosen, only
    asked for, and warned about below 1T tokens.
    """
    last = _last(task, train_format, alignment_method)
    if last is None:
        return Choice((), f"no stage of task {task} learns from {train_format or 'what is'} given")
    before = tuple(name for name in last.after if train_format in METHODS[name].formats)
    names = (*before, last.name)
    data = f"data.train holds {train_format} rows" if train_format else "there is no data.train"
    return Choice(names, f"task {task}, alignment {alignment_method}, and {data}")


def _last(task: str, train_format: str | None, alignment_method: str) -> Method | None:
    """The stage that the recipe is about; without alignment, the one that would have come before it."""
    named = next((row for row in METHODS.values() if row.alignment == alignment_method), None)
    if named is not None:
        return named
    of_task = _of_task(task) or [METHODS[name] for row in METHODS.values() if row.task == task for name in row.after]
    return next((row for row in of_task if train_format in row.formats), None)


def _of_task(task: str) -> list[Method]:
    """The methods that the task alone decides."""
    return [row for row in METHODS.values() if row.task == task and not row.alignment]
